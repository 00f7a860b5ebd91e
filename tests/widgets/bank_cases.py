"""Random tiles with a padding, a swizzle and an access, for BankMap."""

from __future__ import annotations

import random
from typing import Any

from cutecourse.banks import SharedAccess, block_access, column_access, ldmatrix_access, row_access, swizzled
from cutecourse.layout import Layout
from cutecourse.widgets import BankMap


def random_map(rng: random.Random) -> tuple[BankMap, Any, SharedAccess, int]:
    """A widget, the layout that it should show, its access, and the width of an element."""
    bits = rng.choice((8, 16, 16, 32, 64))
    rows, columns = rng.choice((8, 16, 32, 24)), rng.choice((16, 32, 64))
    chunk = max(1, 128 // bits)
    kind = rng.choice(("rows", "columns", "blocks"))
    padding = 0
    if kind == "rows":
        padding = rng.choice((0, 0, 1, 2, 4, 8))
        plain, grown = Layout((rows, columns), (columns, 1)), Layout((rows, columns), (columns + padding, 1))
    elif kind == "columns":
        padding = rng.choice((0, 0, 4, 8))
        plain, grown = Layout((rows, columns), (1, rows)), Layout((rows, columns), (1, rows + padding))
    else:
        plain = grown = Layout(((8, rows // 8), (8, columns // 8)), ((8, 8 * columns), (1, 64)))
    count = 1 if rows < 16 or columns < 2 * chunk else rng.choice((1, 2, 4))
    access = rng.choice(
        [
            row_access(rng.randrange(rows), lanes=min(32, columns)),
            column_access(rng.randrange(columns), lanes=min(32, rows)),
            ldmatrix_access(matrices=count, elems=chunk) if chunk <= columns else row_access(lanes=8),
            block_access(8, min(columns, 4 * chunk), elems=chunk, kind=rng.choice(("load", "store"))),
            SharedAccess("pairs", [(lane // 2 % rows, 0) for lane in range(32)], chunk),
            SharedAccess("add", [(lane % 3, rng.randrange(columns)) for lane in range(32)], kind="atomic"),
            SharedAccess(
                "any",
                tuple((rng.randrange(rows), rng.randrange(columns)) for _ in range(rng.randint(2, 32))),
            ),
        ]
    )
    numbers = rng.choice(
        ((0, 3, 3), (1, 3, 3), (2, 3, 3), (3, 3, 3), (3, 4, 3), (5, 1, 5), (5, 0, 5), (2, 2, 4))
    )
    shown = BankMap(plain, bits, accesses=[access], swizzle=numbers, padding=padding)
    return shown, swizzled(grown, numbers), access, bits
