"""`cutecourse prove`: show that no order of events makes a kernel go wrong, or print an order that does.

Exit status: 0 proved; 1 a counterexample; 2 it was not run, as for `cutecourse emulate`; 3 incomplete, or
stopped at the limit of instructions, time or memory; 130 Ctrl-C stopped it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cutecourse.analysis import InputError
from cutecourse.analysis.arguments import check_writable
from cutecourse.cli._formats import Findings
from cutecourse.cli.emulate import add_launch, prepared, status_of
from cutecourse.emulator.prove import prove

__all__ = ["register"]

_STATUS = {"proved": 0, "counterexample": 1, "incomplete": 3}
_SECONDS = 60.0


def register(subparsers: Any) -> None:
    """Add the subcommand."""
    what = "show that no order of events makes a kernel go wrong, or print an order that does"
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "prove",
        help=what,
        description=f"{what.capitalize()}: for these arguments and sizes. Arguments are as for `emulate`.",
        epilog="exit status:" + (__doc__ or "").partition("Exit status:")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_launch(parser)
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help="seconds to search at most (default: %(default)s)"
    )
    parser.add_argument("--save", metavar="FILE", help="write the order that goes wrong, for emulate --order")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    findings = Findings(arguments.file)
    return status_of(lambda: _prove(arguments, findings), findings)


def _prove(arguments: argparse.Namespace, findings: Findings) -> int:
    if not 0 < arguments.seconds < 1e6:
        raise InputError(f"--seconds {arguments.seconds}: give a number greater than 0")
    if arguments.save:
        check_writable(arguments.save)
    with prepared(arguments, findings) as (checked, options, _):
        proof = prove(checked, seconds=arguments.seconds, **options)
    print(proof)
    if proof.order is not None and arguments.save:
        try:
            Path(arguments.save).write_text(proof.order.to_json(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{arguments.save} cannot be written: {error.strerror}") from None
        print(f"wrote {arguments.save}: run it with cutecourse emulate --order {arguments.save}")
    return _STATUS[proof.verdict]
