"""The operands of a tcgen05.mma: [d], a or [a], b, idesc {, mask}, enable {, scale}."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.site import Site
from cutecourse.ptx.syntax import Address, Vector

__all__ = ["Asked", "Operands"]

_MOST_SCALE = 15


class Asked(NamedTuple):
    """The addresses and descriptors of one tcgen05.mma as numbers: `a` is either of both."""

    d: int
    a: int
    b: int
    idesc: int


class Operands:
    """Where an instruction has its operands."""

    def __init__(self, site: Site, group: int) -> None:
        """Errors: InvalidOperand for a wrong number of operands or registers, or a wrong scale."""
        self.site = site
        operands = site.operands
        self.d = site.address(0)
        self.a_in_tmem = len(operands) > 1 and isinstance(operands[1], Address)
        self.a_address = site.address(1) if self.a_in_tmem else None
        self.a = None if self.a_in_tmem else site.source(1, "u64")
        self.b = site.source(2, "u64")
        self.shape = site.source(3, "u32")
        at = 4
        self.mask: list[int] = []
        if at < len(operands) and isinstance(operands[at], Vector):
            self.mask = site.sources(at, "u32")
            if len(self.mask) != 4 * group:
                site.invalid(f"disable-output-lane has {4 * group} registers here, not {len(self.mask)}")
            at += 1
        self.enable = site.source(at, "pred")
        self.scale = 0
        if len(operands) > at + 1:
            scale = site.constant(at + 1)
            if scale is None or not 0 <= scale <= _MOST_SCALE:
                site.invalid(f"scale-input-d is a constant from 0 to {_MOST_SCALE}")
            self.scale = scale
        if len(operands) > at + 2:
            site.invalid(f"{site.instruction.name} takes {at + 2} operands at most, not {len(operands)}")

    def read(self, bundle: Bundle, lanes: NDArray[np.int64]) -> list[Asked]:
        """The multiplication that each of these lanes asks for."""

        def values(rows: NDArray[Any]) -> list[int]:
            found: list[int] = rows.reshape(-1)[lanes].tolist()
            return found

        rows32, rows64 = bundle.rows["u32"], bundle.rows["u64"]
        d = [address & 0xFFFFFFFF for address in values(self.d.lanes(bundle))]
        if self.a is not None:
            a = values(rows64[self.a])
        else:
            assert self.a_address is not None
            a = [address & 0xFFFFFFFF for address in values(self.a_address.lanes(bundle))]
        return list(map(Asked, d, a, values(rows64[self.b]), values(rows32[self.shape])))
