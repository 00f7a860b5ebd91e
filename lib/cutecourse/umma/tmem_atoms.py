"""CUTLASS's copy atoms of tensor memory: every tcgen05.ld and tcgen05.st, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cutecourse.atoms import CopyAtom, CutlassSource
from cutecourse.layout import Layout

from .errors import UmmaError

__all__ = ["DP_BITS", "TMEM_LOADS", "TMEM_STORES", "TmemCopyOp", "tmem_copy_op"]

DP_BITS = 1 << 21
"""One lane further, counted in bits: lanes stand in the upper half of an address, which counts 32 bits."""

_TRAITS = "include/cute/atom/copy_traits_sm100.hpp"
_ARCH = "include/cute/arch/copy_sm100.hpp"


@dataclass(frozen=True)
class TmemCopyOp:
    """One tcgen05.ld or tcgen05.st of a warp, as CUTLASS names it and its traits describe it.

    Shapes:     `shape` is the instruction's: lanes by bits; `repetitions` how many of these lie beside each
                other along the columns. `val_id` maps a bit that the instruction moves to its place.
                With `packed` two neighbouring columns' lower 16 bits share a register.
    Units:      `val_id` counts bits of tensor memory, `registers` 32 bits.
    Source:     CUTLASS 4.2.0, include/cute/atom/copy_traits_sm100.hpp, Copy_Traits of the name.
    """

    atom: CopyAtom
    shape: str
    lanes: int
    repetitions: int
    packed: bool
    store: bool
    val_id: Layout

    @property
    def name(self) -> str:
        """CUTLASS's name."""
        return self.atom.name

    @property
    def ptx(self) -> str:
        """The instruction."""
        return self.atom.ptx

    @property
    def columns(self) -> int:
        """How many columns of 32 bits it reaches over in each of its lanes."""
        width = _SHAPES[self.shape].bits * self.repetitions // 32
        return 2 * width if self.packed else width

    @property
    def registers(self) -> int:
        """How many registers of 32 bits a thread has of it."""
        return self.lanes * _SHAPES[self.shape].bits * self.repetitions // (32 * 32)

    @property
    def dsl(self) -> str:
        """The CuTe DSL's operation.

        >>> TMEM_LOADS["SM100_TMEM_LOAD_16dp256b4x_16b"].dsl
        'tcgen05.Ld16x256bOp(tcgen05.Repetition.x4, tcgen05.Pack.PACK_16b_IN_32b)'
        """
        pack = ""
        if self.packed:
            unpack = "Unpack.UNPACK_32b_IN_16b"
            pack = f", tcgen05.{unpack if self.store else 'Pack.PACK_16b_IN_32b'}"
        kind = "St" if self.store else "Ld"
        return f"tcgen05.{kind}{self.shape}Op(tcgen05.Repetition.x{self.repetitions}{pack})"


@dataclass(frozen=True)
class _Shape:
    """A family: CUTLASS's name, lanes, bits of a row, repetitions, and where the headers have it.

    `lines` are those of copy_sm100.hpp: of loads, packed loads, stores, unpacking stores.
    """

    cutlass: str
    lanes: int
    bits: int
    lines: tuple[tuple[int, ...], ...]


_SHAPES = {
    "16x256b": _Shape(
        "16dp256b",
        16,
        256,
        (
            (618, 666, 720, 786, 876, 1014),
            (642, 693, 753, 831, 945, 1131),
            (4124, 4172, 4226, 4292, 4382, 4520),
            (4148, 4199, 4259, 4337, 4451, 4637),
        ),
    ),
    "16x128b": _Shape(
        "16dp128b",
        16,
        128,
        (
            (1248, 1296, 1344, 1398, 1464, 1554, 1692),
            (1272, 1320, 1371, 1431, 1509, 1623, 1809),
            (4754, 4802, 4850, 4904, 4970, 5060, 5198),
            (4778, 4826, 4877, 4937, 5015, 5129, 5315),
        ),
    ),
    "16x64b": _Shape(
        "16dp64b",
        16,
        64,
        (
            (1926, 1974, 2022, 2070, 2124, 2190, 2280, 2418),
            (1950, 1998, 2046, 2097, 2157, 2235, 2349, 2535),
            (5432, 5480, 5528, 5576, 5630, 5696, 5786, 5924),
            (5456, 5504, 5552, 5603, 5663, 5741, 5855, 6041),
        ),
    ),
    "16x32bx2": _Shape(
        "16dp32b",
        16,
        64,
        (
            (2652, 2700, 2748, 2796, 2850, 2916, 3006, 3144),
            (2676, 2724, 2772, 2823, 2883, 2961, 3075, 3261),
            (6158, 6206, 6254, 6302, 6356, 6422, 6512, 6650),
            (6182, 6230, 6278, 6329, 6389, 6467, 6581, 6767),
        ),
    ),
    "32x32b": _Shape(
        "32dp32b",
        32,
        32,
        (
            (3378, 3426, 3474, 3522, 3576, 3642, 3732, 3870),
            (3402, 3450, 3498, 3549, 3609, 3687, 3801, 3987),
            (6884, 6932, 6980, 7028, 7082, 7148, 7238, 7376),
            (6908, 6956, 7004, 7055, 7115, 7193, 7307, 7493),
        ),
    ),
}


def _registers_of(shape: str, reps: int) -> Layout:
    """(thread, bit of its registers) to the bit of the data, the data's lanes one after the other."""
    row = _SHAPES[shape].bits * reps  # bits of one lane
    if shape == "16x256b":
        tail = (2, reps) if reps > 1 else (2,)
        steps = (8 * row, 256) if reps > 1 else (8 * row,)
        return Layout(((4, 8), (64, *tail)), ((64, row), (1, *steps)))
    if shape == "16x128b":
        tail = (2, reps) if reps > 1 else (2,)
        steps = (8 * row, 128) if reps > 1 else (8 * row,)
        return Layout(((4, 8), (32, *tail)), ((32, row), (1, *steps)))
    if shape == "16x64b":
        values = ((32, reps), (1, 64)) if reps > 1 else (32, 1)
        return Layout(((2, 2, 8), values[0]), ((8 * row, 32, row), values[1]))
    if shape == "16x32bx2":
        return Layout(((16, 2), 32 * reps), ((row, 32 * reps), 1))
    return Layout((32, 32 * reps), (32 * reps, 1))


def _ops(*, store: bool) -> Iterator[TmemCopyOp]:
    position = 0
    for shape, family in _SHAPES.items():
        for power in range(len(family.lines[0])):
            for packed in (False, True):
                reps = 1 << power
                row = family.bits * reps
                kind, suffix = ("STORE" if store else "LOAD"), ("_16b" if packed else "")
                name = f"SM100_TMEM_{kind}_{family.cutlass}{reps}x{suffix}"
                registers = _registers_of(shape, reps)
                memory = Layout((32, family.lanes * row), (0, 1))
                side = ".unpack::16b" if store else ".pack::16b"
                modifier = side if packed else ""
                if store:
                    line = 1738 + 14 * position
                else:
                    line = 467 if position == 0 else 472 + 17 * position
                atom = CopyAtom(
                    name=name,
                    thr_id=Layout(32),
                    bit_layout_src=registers if store else memory,
                    bit_layout_dst=memory if store else registers,
                    bit_layout_ref=memory,
                    ptx=f"tcgen05.{'st' if store else 'ld'}.sync.aligned.{shape}.x{reps}{modifier}.b32",
                    source=CutlassSource(_TRAITS, line, f"Copy_Traits<{name}>"),
                    ptx_source=CutlassSource(_ARCH, family.lines[2 * store + packed][power], name),
                )
                bits = ((16, row // 16), (1, 32)) if packed else (row, 1)
                val_id = Layout((bits[0], family.lanes), (bits[1], DP_BITS))
                yield TmemCopyOp(atom, shape, family.lanes, reps, packed, store, val_id)
                position += 1


TMEM_LOADS: Mapping[str, TmemCopyOp] = MappingProxyType({op.name: op for op in _ops(store=False)})
"""CUTLASS's loads from tensor memory: 16dp256b, 16dp128b, 16dp64b, 16dp32b (16x32bx2) and 32dp32b, 1 to 128
repetitions, each also packed (`_16b`). A warp reaches the 32 lanes that are its own, the 16dp shapes half of
them."""

TMEM_STORES: Mapping[str, TmemCopyOp] = MappingProxyType({op.name: op for op in _ops(store=True)})
"""CUTLASS's stores to tensor memory: each load's twin, its source and destination exchanged."""


def tmem_copy_op(name: str) -> TmemCopyOp:
    """The operation of a name.

    Errors: UmmaError: `family` for CUTLASS's loads that also reduce, which are not supported here; `op` for
            names that it has not.
    """
    known = TMEM_LOADS.get(name) or TMEM_STORES.get(name)
    if known is not None:
        return known
    families = ", ".join(f"SM100_TMEM_LOAD_{shape.cutlass}<n>x[_16b]" for shape in _SHAPES.values())
    there_is = f"{families}, and the same with STORE"
    source = f"CUTLASS 4.2.0, {_TRAITS}"
    if re.fullmatch(r"SM100_TMEM_LOAD_STAT_\w+", name):
        raise UmmaError(f"{name} is not supported here; there are {there_is}", rule="family", source=source)
    raise UmmaError(f"CUTLASS has no {name!r}; there are {there_is}", rule="op", source=source)
