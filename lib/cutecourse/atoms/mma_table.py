"""SM80's and SM89's MMA atoms as CUTLASS has them: a row for each operation, with its layouts and its lines.

A layout maps (thread, value) to the index of a matrix cell, counted with M (for B: N) first:
`index = m + M * k` for A, `n + N * k` for B, `m + M * n` for C and D. Two operations that differ only in
types of the same width share their layouts, as they do in CUTLASS.

Two rows are wrong in CUTLASS 4.2.0 and are kept as they stand there, with a note; see `_WRONG_B`.
The complex operations (C64, GC64) are no instructions of their own and are left out.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cutecourse.atoms.errors import unknown_atom
from cutecourse.atoms.mma_atom import CutlassSource, MmaAtom
from cutecourse.atoms.names import parse_mma_name
from cutecourse.atoms.wgmma_table import WGMMA_ATOMS
from cutecourse.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MMA_ATOMS", "SM89_ATOMS", "mma_atom"]


class _Layouts(NamedTuple):
    a: str
    b: str
    c: str
    note: str = ""


_C_8X8 = "((4,8),2):((16,1),8)"
_C_16X8 = "((4,8),(2,2)):((32,1),(16,8))"

_F16_16X8X8 = _Layouts("((4,8),(2,2)):((32,1),(16,8))", "((4,8),2):((16,1),8)", _C_16X8)
_F16_16X8X16 = _Layouts("((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))", _C_16X8)
_TF32_16X8X4 = _Layouts("((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", _C_16X8)
_TF32_16X8X8 = _Layouts("((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", _C_16X8)
_F64_8X8X4 = _Layouts("((4,8),1):((8,1),0)", "((4,8),1):((8,1),0)", _C_8X8)
_INT8_8X8X16 = _Layouts("((4,8),4):((32,1),8)", "((4,8),4):((32,1),8)", _C_8X8)
_INT8_16X8X16 = _Layouts("((4,8),(4,2)):((64,1),(16,8))", "((4,8),4):((32,1),8)", _C_16X8)
_INT8_16X8X32 = _Layouts("((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", _C_16X8)
_INT4_8X8X32 = _Layouts("((4,8),8):((64,1),8)", "((4,8),8):((64,1),8)", _C_8X8)
_WRONG_B = (
    "CUTLASS 4.2.0 gives B the stride 32 between the threads of a group of four, where the instruction has "
    "64 (eight values along K, eight rows of N): by this layout neighbours share cells, and some of B has no "
    "owner."
)
_INT4_16X8X32 = _Layouts("((4,8),(8,2)):((128,1),(16,8))", "((4,8),8):((32,1),8)", _C_16X8, _WRONG_B)
_INT4_16X8X64 = _Layouts("((4,8),(8,2,2)):((128,1),(16,8,512))", "((4,8),(8,2)):((64,1),(8,256))", _C_16X8)
_B1_8X8X128 = _Layouts("((4,8),32):((256,1),8)", "((4,8),32):((256,1),8)", _C_8X8)
_B1_16X8X128 = _Layouts("((4,8),(32,2)):((512,1),(16,8))", "((4,8),32):((256,1),8)", _C_16X8)
_B1_16X8X256 = _Layouts(
    "((4,8),(32,2,2)):((512,1),(16,8,2048))", "((4,8),(32,2)):((256,1),(8,1024))", _C_16X8
)

# operation, layouts, line of its struct in arch/mma_sm80.hpp, line of its traits in atom/mma_traits_sm80.hpp
_ROWS: tuple[tuple[str, _Layouts, int, int], ...] = (
    ("SM80_16x8x8_F16F16F16F16_TN", _F16_16X8X8, 59, 63),
    ("SM80_16x8x16_F16F16F16F16_TN", _F16_16X8X16, 92, 78),
    ("SM80_16x8x8_F32F16F16F32_TN", _F16_16X8X8, 125, 99),
    ("SM80_16x8x16_F32F16F16F32_TN", _F16_16X8X16, 158, 109),
    ("SM80_16x8x8_F32BF16BF16F32_TN", _F16_16X8X8, 191, 123),
    ("SM80_16x8x16_F32BF16BF16F32_TN", _F16_16X8X16, 224, 133),
    ("SM80_16x8x4_F32TF32TF32F32_TN", _TF32_16X8X4, 257, 147),
    ("SM80_16x8x8_F32TF32TF32F32_TN", _TF32_16X8X8, 290, 163),
    ("SM80_8x8x4_F64F64F64F64_TN", _F64_8X8X4, 323, 184),
    ("SM80_8x8x16_S32S8S8S32_TN", _INT8_8X8X16, 460, 225),
    ("SM80_8x8x16_S32S8S8S32_TN_SATURATE", _INT8_8X8X16, 493, 240),
    ("SM80_16x8x16_S32S8S8S32_TN", _INT8_16X8X16, 526, 244),
    ("SM80_16x8x16_S32S8S8S32_TN_SATURATE", _INT8_16X8X16, 559, 260),
    ("SM80_16x8x32_S32S8S8S32_TN", _INT8_16X8X32, 592, 264),
    ("SM80_16x8x32_S32S8S8S32_TN_SATURATE", _INT8_16X8X32, 625, 281),
    ("SM80_8x8x16_S32S8U8S32_TN", _INT8_8X8X16, 658, 289),
    ("SM80_8x8x16_S32S8U8S32_TN_SATURATE", _INT8_8X8X16, 691, 299),
    ("SM80_16x8x16_S32S8U8S32_TN", _INT8_16X8X16, 724, 303),
    ("SM80_16x8x16_S32S8U8S32_TN_SATURATE", _INT8_16X8X16, 757, 313),
    ("SM80_16x8x32_S32S8U8S32_TN", _INT8_16X8X32, 790, 317),
    ("SM80_16x8x32_S32S8U8S32_TN_SATURATE", _INT8_16X8X32, 823, 327),
    ("SM80_8x8x16_S32U8S8S32_TN", _INT8_8X8X16, 856, 335),
    ("SM80_8x8x16_S32U8S8S32_TN_SATURATE", _INT8_8X8X16, 889, 345),
    ("SM80_16x8x16_S32U8S8S32_TN", _INT8_16X8X16, 922, 349),
    ("SM80_16x8x16_S32U8S8S32_TN_SATURATE", _INT8_16X8X16, 955, 359),
    ("SM80_16x8x32_S32U8S8S32_TN", _INT8_16X8X32, 988, 363),
    ("SM80_16x8x32_S32U8S8S32_TN_SATURATE", _INT8_16X8X32, 1021, 373),
    ("SM80_8x8x16_S32U8U8S32_TN", _INT8_8X8X16, 1054, 381),
    ("SM80_8x8x16_S32U8U8S32_TN_SATURATE", _INT8_8X8X16, 1087, 391),
    ("SM80_16x8x16_S32U8U8S32_TN", _INT8_16X8X16, 1120, 395),
    ("SM80_16x8x16_S32U8U8S32_TN_SATURATE", _INT8_16X8X16, 1153, 405),
    ("SM80_16x8x32_S32U8U8S32_TN", _INT8_16X8X32, 1186, 409),
    ("SM80_16x8x32_S32U8U8S32_TN_SATURATE", _INT8_16X8X32, 1219, 419),
    ("SM80_8x8x32_S32S4S4S32_TN", _INT4_8X8X32, 1252, 427),
    ("SM80_8x8x32_S32S4S4S32_TN_SATURATE", _INT4_8X8X32, 1285, 444),
    ("SM80_16x8x32_S32S4S4S32_TN", _INT4_16X8X32, 1318, 448),
    ("SM80_16x8x32_S32S4S4S32_TN_SATURATE", _INT4_16X8X32, 1351, 466),
    ("SM80_16x8x64_S32S4S4S32_TN", _INT4_16X8X64, 1384, 470),
    ("SM80_16x8x64_S32S4S4S32_TN_SATURATE", _INT4_16X8X64, 1417, 488),
    ("SM80_8x8x32_S32S4U4S32_TN", _INT4_8X8X32, 1450, 496),
    ("SM80_8x8x32_S32S4U4S32_TN_SATURATE", _INT4_8X8X32, 1483, 505),
    ("SM80_16x8x32_S32S4U4S32_TN", _INT4_16X8X32, 1516, 509),
    ("SM80_16x8x32_S32S4U4S32_TN_SATURATE", _INT4_16X8X32, 1549, 518),
    ("SM80_16x8x64_S32S4U4S32_TN", _INT4_16X8X64, 1582, 521),
    ("SM80_16x8x64_S32S4U4S32_TN_SATURATE", _INT4_16X8X64, 1615, 530),
    ("SM80_8x8x32_S32U4S4S32_TN", _INT4_8X8X32, 1648, 538),
    ("SM80_8x8x32_S32U4S4S32_TN_SATURATE", _INT4_8X8X32, 1681, 547),
    ("SM80_16x8x32_S32U4S4S32_TN", _INT4_16X8X32, 1714, 551),
    ("SM80_16x8x32_S32U4S4S32_TN_SATURATE", _INT4_16X8X32, 1747, 560),
    ("SM80_16x8x64_S32U4S4S32_TN", _INT4_16X8X64, 1780, 564),
    ("SM80_16x8x64_S32U4S4S32_TN_SATURATE", _INT4_16X8X64, 1813, 573),
    ("SM80_8x8x32_S32U4U4S32_TN", _INT4_8X8X32, 1846, 581),
    ("SM80_8x8x32_S32U4U4S32_TN_SATURATE", _INT4_8X8X32, 1879, 590),
    ("SM80_16x8x32_S32U4U4S32_TN", _INT4_16X8X32, 1912, 594),
    ("SM80_16x8x32_S32U4U4S32_TN_SATURATE", _INT4_16X8X32, 1945, 603),
    ("SM80_16x8x64_S32U4U4S32_TN", _INT4_16X8X64, 1978, 607),
    ("SM80_16x8x64_S32U4U4S32_TN_SATURATE", _INT4_16X8X64, 2011, 616),
    ("SM80_8x8x128_S32U1U1S32_TN_ANDPOPC", _B1_8X8X128, 2044, 666),
    ("SM80_16x8x128_S32U1U1S32_TN_ANDPOPC", _B1_16X8X128, 2077, 687),
    ("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC", _B1_16X8X256, 2110, 645),
    ("SM80_8x8x128_S32U1U1S32_TN_XORPOPC", _B1_8X8X128, 2143, 649),
    ("SM80_16x8x128_S32U1U1S32_TN_XORPOPC", _B1_16X8X128, 2176, 670),
    ("SM80_16x8x256_S32U1U1S32_TN_XORPOPC", _B1_16X8X256, 2209, 624),
)

# the same of arch/mma_sm89.hpp and atom/mma_traits_sm89.hpp: fp8 values lie where 8-bit integers do
_SM89_ROWS: tuple[tuple[str, _Layouts, int, int], ...] = (
    ("SM89_16x8x32_F32E4M3E4M3F32_TN", _INT8_16X8X32, 64, 54),
    ("SM89_16x8x32_F32E4M3E5M2F32_TN", _INT8_16X8X32, 93, 70),
    ("SM89_16x8x32_F32E5M2E5M2F32_TN", _INT8_16X8X32, 122, 79),
    ("SM89_16x8x32_F32E5M2E4M3F32_TN", _INT8_16X8X32, 151, 88),
    ("SM89_16x8x32_F16E4M3E4M3F16_TN", _INT8_16X8X32, 180, 97),
    ("SM89_16x8x32_F16E4M3E5M2F16_TN", _INT8_16X8X32, 209, 106),
    ("SM89_16x8x32_F16E5M2E4M3F16_TN", _INT8_16X8X32, 238, 124),
    ("SM89_16x8x32_F16E5M2E5M2F16_TN", _INT8_16X8X32, 267, 115),
)


def _atom(name: str, layouts: _Layouts, arch_line: int, traits_line: int) -> MmaAtom:
    fields = parse_mma_name(name)
    return MmaAtom(
        name=name,
        shape_mnk=fields.shape_mnk,
        dtype_d=fields.dtype_d,
        dtype_a=fields.dtype_a,
        dtype_b=fields.dtype_b,
        dtype_c=fields.dtype_c,
        thr_id=Layout(32, 1),
        layout_a=Layout.parse(layouts.a),
        layout_b=Layout.parse(layouts.b),
        layout_c=Layout.parse(layouts.c),
        ptx=fields.ptx,
        source=CutlassSource(
            f"include/cute/atom/mma_traits_sm{fields.sm}.hpp", traits_line, f"MMA_Traits<{name}>"
        ),
        ptx_source=CutlassSource(f"include/cute/arch/mma_sm{fields.sm}.hpp", arch_line, name),
        note=layouts.note,
    )


MMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType({row[0]: _atom(*row) for row in _ROWS})
"""The atoms of SM80."""
SM89_ATOMS: Mapping[str, MmaAtom] = MappingProxyType({row[0]: _atom(*row) for row in _SM89_ROWS})
"""The atoms that came with SM89: fp8."""


def mma_atom(name: str) -> MmaAtom:
    """The MMA atom of that name: who holds which cell of A, B and C in which register.

    Errors: UnknownAtomError, with the nearest names.
    Source: CUTLASS 4.2.0, include/cute/atom/mma_traits_sm80.hpp, mma_traits_sm89.hpp and
            mma_traits_sm90_gmma.hpp.

    >>> atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    >>> print(atom.layout_c)
    ((4,8),(2,2)):((32,1),(16,8))
    >>> mma_atom("SM80_16x8x16_F32F16F32_TN")
    Traceback (most recent call last):
      ...
    cutecourse.atoms.errors.UnknownAtomError: no MMA atom is called ... Did you mean ...
    """
    found = MMA_ATOMS.get(name) or SM89_ATOMS.get(name) or WGMMA_ATOMS.get(name)
    if found is None:
        raise unknown_atom("MMA", name, (*MMA_ATOMS, *SM89_ATOMS, *WGMMA_ATOMS))
    return found
