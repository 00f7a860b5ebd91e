"""wgmma's atoms for floating-point types, under CUTLASS's names: one warpgroup, M = 64, every N.

All atoms share one formula. C is spread over the registers of 128 threads. B comes from shared memory, and A
from shared memory (SS) or from registers (RS). An operand in shared memory belongs to all threads alike: the
thread's mode has stride 0.

Source: CUTLASS 4.2.0, include/cute/atom/mma_traits_sm90_gmma.hpp and mma_traits_sm90_gmma_ext.hpp.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cutecourse import dtypes
from cutecourse.atoms.mma_atom import CutlassSource, MmaAtom
from cutecourse.dtypes import DType
from cutecourse.layout import Layout

__all__ = ["WGMMA_ATOMS"]

M = 64
N_EXTENTS = range(8, 257, 8)


class _Types(NamedTuple):
    d: DType
    a: DType
    b: DType


_FP8 = (dtypes.e4m3, dtypes.e5m2)
_TYPES = (
    _Types(dtypes.f16, dtypes.f16, dtypes.f16),
    _Types(dtypes.f32, dtypes.f16, dtypes.f16),
    _Types(dtypes.f32, dtypes.bf16, dtypes.bf16),
    _Types(dtypes.f32, dtypes.tf32, dtypes.tf32),
    *(_Types(d, a, b) for a in _FP8 for b in _FP8 for d in (dtypes.f16, dtypes.f32)),
)
# A in registers: the part of the layout that depends on the bits of a value
_A_VALUES = {32: "(2,2)", 16: "(2,2,2)", 8: "(4,2,2)"}
_A_STRIDES = {32: "((64,1,16),(8,256))", 16: "((128,1,16),(64,8,512))", 8: "((256,1,16),(64,8,1024))"}


@functools.cache
def _parsed(text: str) -> Layout:
    """A layout from its notation, read once: the table has hundreds of atoms and some seventy layouts."""
    layout: Layout = Layout.parse(text)
    return layout


def _in_shared_memory(rows: int, k: int) -> Layout:
    return _parsed(f"(128,({rows},{k})):(0,(1,{rows}))")


def _atoms() -> Iterator[MmaAtom]:
    for types in _TYPES:
        k = 256 // types.a.bits
        names = "".join(one.name.upper() for one in types)
        for n in N_EXTENTS:
            for source in ("SS", "RS"):
                name = f"SM90_{M}x{n}x{k}_{names}_{source}" + ("" if types.a.bits == 16 else "_TN")
                registers = f"((4,8,4),{_A_VALUES[types.a.bits]}):{_A_STRIDES[types.a.bits]}"
                yield MmaAtom(
                    name=name,
                    shape_mnk=(M, n, k),
                    dtype_d=types.d,
                    dtype_a=types.a,
                    dtype_b=types.b,
                    dtype_c=types.d,
                    thr_id=Layout(128, 1),
                    layout_a=_in_shared_memory(M, k) if source == "SS" else _parsed(registers),
                    layout_b=_in_shared_memory(n, k),
                    layout_c=_parsed(f"((4,8,4),(2,2,{n // 8})):((128,1,16),(64,8,512))"),
                    ptx="wgmma.mma_async.sync.aligned."
                    f"m{M}n{n}k{k}.{types.d.name}.{types.a.name}.{types.b.name}",
                    source=CutlassSource(
                        "include/cute/atom/mma_traits_sm90_gmma.hpp", 434, "GMMA::CLayout_64xN"
                    ),
                    ptx_source=CutlassSource(
                        "include/cute/arch/mma_sm90_gmma.hpp",
                        105,
                        f"SM90::GMMA::{name.replace('SM90', 'MMA')}",
                    ),
                )


WGMMA_ATOMS: Mapping[str, MmaAtom] = MappingProxyType({atom.name: atom for atom in _atoms()})
