"""Print the texts of PTX cases.

python -m tools.cases                     name all cases
python -m tools.cases float/add_f32 ...   print these cases as complete PTX modules
"""

from __future__ import annotations

import argparse
import difflib
import sys

from tools.cases.case_texts import CaseError, case_texts


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns 1 if a name is no case, or a case's table cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.cases", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="FAMILY/NAME", help="cases to print; none: their names")
    given = parser.parse_args(arguments).names
    try:
        texts = case_texts()
        for name in given:
            if name not in texts:
                close = difflib.get_close_matches(name, texts, n=5, cutoff=0.5)
                nearest = f"; like it are {', '.join(close)}" if close else ""
                raise CaseError(f"there is no case {name!r}{nearest}")
        sys.stdout.write("".join(texts[name].write() for name in given) or "\n".join([*texts, ""]))
    except CaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
