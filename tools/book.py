"""Build the pages, warnings as errors, and say where they are.

python -m tools.book            rebuild what changed
python -m tools.book --all      rebuild every page
"""

from __future__ import annotations

import subprocess
import sys

from tools.notebooks import check_pages
from tools.paths import BOOK, relative

PAGES = BOOK / "_build" / "html"


def main(arguments: list[str] | None = None) -> int:
    """The command line; further arguments go to `jupyter-book build`."""
    further = sys.argv[1:] if arguments is None else arguments
    # The extension refuses stale recordings as well, but Jupyter Book wraps its message in three tracebacks.
    stale = check_pages()
    if stale:
        print("the recordings are not of these pages:", *stale, sep="\n  ", file=sys.stderr)
        return 1
    command = [
        sys.executable,
        "-c",
        "from jupyter_book.cli.main import main; main()",
        "build",
        str(BOOK),
        "-W",
        "-n",
        "--keep-going",
        "-q",
    ]
    status = subprocess.run([*command, *further]).returncode
    if status != 0:
        print("the book was not built; the messages above say why", file=sys.stderr)
        return status
    index = relative(PAGES / "index.html")
    print(f"The pages are in {relative(PAGES)}. Open {index} in a browser, or serve them:")
    print(f"    python -m http.server --directory {relative(PAGES)} 8000    then http://localhost:8000")
    return 0


if __name__ == "__main__":
    sys.exit(main())
