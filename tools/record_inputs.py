"""Run the tests whose inputs have changed, and record in tests/passed.json with which inputs they passed.

python -m tools.record_inputs          run those with other inputs than recorded (tests/support/unchanged.py)
python -m tools.record_inputs --all    run all of them, and drop the lines of tests that are gone (minutes)
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
NOTHING_TO_RUN = 5
"""pytest's exit status where no test was left."""


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns pytest's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.record_inputs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--all", action="store_true", help="run the tests with unchanged inputs as well")
    everything = parser.parse_args(arguments).all
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "passed"
        notes.touch()
        environment = {**os.environ, "CUTECOURSE_RECORD_INPUTS": str(notes)}
        environment["CUTECOURSE_TEST_ALL"] = "1" if everything else "0"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "inputs", "tests"]
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        found = dict(line.split() for line in notes.read_text("utf-8").splitlines())
    if status not in (0, NOTHING_TO_RUN):
        return status
    kept = {} if everything or not RECORD.exists() else json.loads(RECORD.read_text("utf-8"))
    RECORD.write_text(json.dumps({**kept, **found}, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{RECORD.relative_to(ROOT)}: {len(found)} tests have passed with other inputs than recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
