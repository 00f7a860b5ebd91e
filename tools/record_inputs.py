"""Run the tests whose inputs are all known, and record with which inputs they passed.

python -m tools.record_inputs            run all of them (minutes: they compile C++), write tests/passed.json
python -m tools.record_inputs tests/umma run those of a folder, keep the others' lines
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.paths import ROOT

RECORD = ROOT / "tests" / "passed.json"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns pytest's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.record_inputs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("where", nargs="*", default=["tests"], help="files or folders of tests")
    where = parser.parse_args(arguments).where
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "passed"
        notes.touch()
        environment = {**os.environ, "CUTECOURSE_TEST_ALL": "1", "CUTECOURSE_RECORD_INPUTS": str(notes)}
        command = [sys.executable, "-m", "pytest", "-q", "-m", "inputs", *where]
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        found = dict(line.split() for line in notes.read_text(encoding="utf-8").splitlines())
    if status == 0:
        kept = {} if where == ["tests"] or not RECORD.exists() else json.loads(RECORD.read_text("utf-8"))
        RECORD.write_text(json.dumps({**kept, **found}, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"wrote {RECORD.relative_to(ROOT)}: {len(found)} tests ran")
    return status


if __name__ == "__main__":
    sys.exit(main())
