"""What any checker says of the museum's kernels: `python museum "COMMAND"`, in the folder above this one.

The command runs on every text. {ptx} stands in it for the text's path, {launch} for the launch file's, and an
exit status other than 0 is a report. A good checker reports every broken kernel and no repaired one. It all
needs Python 3.9 or later, the folders here, and nothing else.

Exit status: 0 all exhibits are told apart; 1 some are not; 2 the command cannot be run.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

_FOLDER = Path(__file__).resolve().parent
_SECONDS = 120


def main(given: Sequence[str] | None = None) -> int:
    """Run the command on every exhibit, and print the table."""
    names = sorted(path.parent.name for path in _FOLDER.glob("*/exhibit.json"))
    parser = argparse.ArgumentParser(
        prog="python museum",
        description=(__doc__ or "").partition(":")[0] + ".",
        epilog="example: python museum 'my-checker {ptx} --launch {launch}'",
    )
    parser.add_argument("command", help="{ptx} and {launch} stand for the files of a kernel")
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME")
    options = parser.parse_args(given)
    print(f"{'exhibit':<24}{'broken':<10}repaired")
    right, found, alarms = 0, 0, 0
    for name in options.only:
        try:
            said = [_checked(options.command, _FOLDER / name, version) for version in ("broken", "repaired")]
        except (OSError, LookupError, ValueError) as error:
            print(f"museum: {options.command!r} cannot be run: {error}", file=sys.stderr)
            return 2
        right += said == ["reports", "silent"]
        found += said[0] == "reports"
        alarms += said[1] == "reports"
        print(f"{name:<24}{said[0]:<10}{said[1]}", flush=True)
    apart = f"{right} of {len(options.only)} exhibits are told apart"
    print(f"{apart}: {found} broken and {alarms} repaired are reported")
    return int(right < len(options.only))


def _checked(command: str, exhibit: Path, version: str) -> str:
    """What the checker says of a text: "reports", "silent", or "no end"."""
    files = {"ptx": exhibit / f"{version}.ptx", "launch": exhibit / "launch.json"}
    words = [word.format(**files) for word in shlex.split(command)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "no end"
    return "reports" if done.returncode else "silent"


if __name__ == "__main__":
    sys.exit(main())
