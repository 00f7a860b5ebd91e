"""`cutecourse explain`: what a PTX kernel declares, where its asynchronous parts are, and how to run it.

Nothing runs. Exit status: 0, also for a kernel that the emulator would refuse, which the report says; 1 for a
file or a text that is no kernel, with the error on standard error.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from cutecourse.analysis import explain, report
from cutecourse.analysis.files import read_ptx

__all__ = ["register"]


def register(subparsers: Any) -> None:
    """Add the subcommand."""
    about = "Say what a PTX kernel declares, where its asynchronous parts are, and how to run it."
    parser: argparse.ArgumentParser = subparsers.add_parser("explain", help=about, description=about)
    parser.add_argument("file", help="the PTX text")
    parser.add_argument("--entry", help="which kernel, if the text has several")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    found = explain(read_ptx(arguments.file), arguments.entry, file=arguments.file)
    print(json.dumps(found, indent=2) if arguments.json else report(found))
    return 0
