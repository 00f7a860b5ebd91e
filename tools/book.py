"""Build the pages, warnings as errors, and say where they are.

python -m tools.book                 rebuild what changed
python -m tools.book --all           rebuild every page
python -m tools.book --output DIR    build into DIR/_build/html
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import traceback
from pathlib import Path

from cutecourse.errors import CourseError
from tools.exercises import write_pages
from tools.pages import check_pages
from tools.paths import BOOK, relative


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.book", description="Build the pages.")
    parser.add_argument("--all", action="store_true", help="rebuild every page")
    parser.add_argument("--output", type=Path, default=BOOK, help="the folder that gets _build/html")
    options = parser.parse_args(arguments)
    # Pages become trees of many small objects that last. Looking for garbage among them takes long.
    gc.set_threshold(100_000, 20, 100)
    # The extension refuses stale recordings as well, but Jupyter Book wraps its message in three tracebacks.
    try:
        stale = check_pages(words=False)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if stale:
        print("the recordings do not match these pages:", *stale, sep="\n  ", file=sys.stderr)
        print("record them anew with: python -m tools.record", file=sys.stderr)
        return 1
    status = build(options.output, everything=options.all)
    if status != 0:
        print("the book was not built; the messages above say why", file=sys.stderr)
        return status
    pages = relative(options.output / "_build" / "html")
    print(f"The pages are in {pages}. Open {pages}/index.html in a browser, or serve them:")
    print(f"    python -m http.server --directory {pages} 8000    then http://localhost:8000")
    return 0


def build(output: Path, *, everything: bool = False) -> int:
    """Run Jupyter Book on the book's folder: warnings are errors, missing references warnings."""
    write_pages()
    # A build that ends before it writes pages copies a file to `_static`. Where there is no such folder yet,
    # the copy gets that name, and every later build would fail.
    static = output / "_build" / "html" / "_static"
    if static.is_file():
        static.unlink()
    static.mkdir(parents=True, exist_ok=True)
    flags = ["-W", "-n", "--keep-going", "-q", *(["--all"] if everything else [])]
    return _run_jupyter_book("build", str(BOOK), "--path-output", str(output), *flags)


def _run_jupyter_book(*arguments: str) -> int:
    """Run its command line in this process, which has read all pages; returns the exit status.

    Its closing message repeats ours, with a path of this machine, so it is not shown.
    """
    from jupyter_book.cli.main import main as jupyter_book

    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            jupyter_book(arguments)
        except SystemExit as end:
            return int(end.code or 0)
        except Exception:  # noqa: BLE001 - whatever ends the build, its message is for the author
            traceback.print_exc()
    return 1


if __name__ == "__main__":
    sys.exit(main())
