"""Steps that apply a function to all lanes at once, as most arithmetic instructions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.kinds import Mask, put
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site

__all__ = ["Values", "map_lanes"]

Values = NDArray[Any]
"""One element in each lane, shape (n_warps, 32); a packed kind has a third axis, the parts of a register."""


def map_lanes(site: Site, function: Callable[..., Any], target: str, *sources: str | tuple[str, int]) -> Step:
    """A step that writes a function of operands 1, 2, ... into operand 0.

    target   the kind of operand 0.
    sources  the kind of each other operand, or the (kind, slot) of a row to read in its place.
    """
    slot = site.destination(0, target)
    read = [(s, site.source(i, s)) if isinstance(s, str) else s for i, s in enumerate(sources, 1)]
    kinds = {kind for kind, _ in read}
    if isinstance(function, np.ufunc) and len(read) == 2 and len(kinds) == 1 and not target.endswith("x2"):
        # NumPy writes straight into the row.
        (kind, a), (_, b) = read

        def operate(bundle: Bundle, mask: Mask) -> None:
            rows = bundle.rows
            if mask is None:
                function(rows[kind][a], rows[kind][b], out=rows[target][slot])
            else:
                np.copyto(rows[target][slot], function(rows[kind][a], rows[kind][b]), where=mask)

        return operate

    def step(bundle: Bundle, mask: Mask) -> None:
        rows = bundle.rows
        put(rows[target][slot], function(*[rows[kind][row] for kind, row in read]), mask)

    return step
