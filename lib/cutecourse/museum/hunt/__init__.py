"""The kernel of the museum's hunt, before and after each repair that its reader tries.

`first_match.cu` is the kernel as it was found. `source(1)` and `source(2)` are what one and two edits make of
it, and `ptx` is what nvcc makes of each, with the lines of the source. `python -m benchmarks.hunt --compile`
writes it.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["EDITS", "TILE", "ptx", "source"]

EDITS = (
    (
        """\
            if (first >= 0) break;
            if (lane == 0) arrive(&empty[stage]);
""",
        """\
            if (lane == 0) arrive(&empty[stage]);
            if (first >= 0) break;
""",
    ),
    (
        """\
            if (lane == 0) arrive(&empty[stage]);
            if (first >= 0) break;
""",
        """\
            if (lane == 0) arrive(&empty[stage]);
""",
    ),
)
"""What each repair replaces, in order."""
TILE = 128
"""Tokens of a tile."""
_FOLDER = Path(__file__).parent


def source(edits: int = 0) -> str:
    """The CUDA source after so many edits."""
    text = (_FOLDER / "first_match.cu").read_text(encoding="utf-8")
    for old, new in EDITS[:edits]:
        text = text.replace(old, new)
    return text


def ptx(edits: int = 0) -> str:
    """The PTX of that source."""
    return (_FOLDER / f"first_match_{edits}.ptx").read_text(encoding="utf-8")
