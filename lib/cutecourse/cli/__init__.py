"""The command `cutecourse`. Each subcommand is a module of this package that has `register(subparsers)`."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from cutecourse.errors import CourseError

__all__ = ["CLOSED", "INTERRUPTED", "main"]

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it: 128 and the signal's number."""
CLOSED = 141
"""The exit status after output that nobody reads, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; errors for the reader have no traceback."""
    parser = argparse.ArgumentParser(
        prog="cutecourse", description="CuTe Course: layouts, tensor cores and PTX, with or without a GPU."
    )
    subparsers = parser.add_subparsers(title="commands", dest="command", required=True)
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}").register(subparsers)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except CourseError as error:
        print(f"cutecourse: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except KeyboardInterrupt as interrupt:
        print("\n  ".join(["cutecourse: interrupted", *getattr(interrupt, "__notes__", ())]), file=sys.stderr)
        return INTERRUPTED
    return status
