"""Launches of kernels that Triton and numba-cuda compiled, from the PTX and what these compilers say of it.

launch(**triton_launch(compiled, grid=8, args=[x, y, out, np.int32(1000)]))
launch(**numba_launch(kernel, grid=8, block=128, args=[x, y, out]))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from cutecourse.analysis.errors import InputError
from cutecourse.analysis.parameters import Parameter, find_entry, parameters
from cutecourse.analysis.texts import ptx_of
from cutecourse.emulator import TensorMap
from cutecourse.ptx import read_module
from cutecourse.ptx.demangle import short_name
from cutecourse.runtime.arguments import numba_array

__all__ = ["numba_launch", "triton_launch"]

_WARP = 32
_SCRATCH = ("global_scratch_size", "profile_scratch_size")
"""Triton's metadata for the two pointers that its launcher appends: bytes for each CTA."""

_SWIZZLES = ("none", "32B", "64B", "128B")
"""By the driver's number, which Triton's metadata give."""


def triton_launch(
    kernel: Any,
    *,
    grid: int | Sequence[int],
    args: Sequence[Any],
    metadata: Any = None,
) -> dict[str, Any]:
    """Return the arguments of `emulator.launch` for a kernel that Triton compiled.

    kernel    the compiled kernel, with `asm["ptx"]` and `metadata`; or its PTX text.
    grid      the grid of the Triton launch, in programs. A program of several CTAs is a cluster.
    args      the kernel's arguments in order, without those of type constexpr and those that the compiler
              took as constants, because they are 1: NumPy arrays and numbers. A tensor descriptor is the
              array that it describes, or a `TensorMap`.
    metadata  the kernel's metadata where `kernel` is a text: an object or the content of Triton's JSON file.

    Errors: InputError for a kernel without PTX, and for arguments that are not those of the PTX.
    Source: Triton's third_party/nvidia/backend/driver.py.
    """
    text = kernel if isinstance(kernel, str) else _attribute(getattr(kernel, "asm", None), "ptx")
    about = getattr(kernel, "metadata", None) if metadata is None else metadata
    if not isinstance(text, str) or about is None:
        raise InputError("a Triton kernel has asm['ptx'] and metadata; give these, or its text and metadata=")
    checked = read_module(text)
    entry = find_entry(checked.module, _attribute(about, "name"))
    wanted = parameters(checked.functions[entry.name])
    programs = (grid,) if isinstance(grid, int) else tuple(grid)
    cluster = tuple(_attribute(about, "cluster_dims") or (_attribute(about, "num_ctas") or 1,))
    cluster = (*cluster, 1, 1)[:3]
    shape = tuple(n * ctas for n, ctas in zip((*programs, 1, 1)[:3], cluster, strict=True))
    given = _with_descriptors(args, wanted, list(_attribute(about, "tensordesc_meta") or ()))
    scratch = len(wanted) - len(given)
    if scratch not in range(len(_SCRATCH) + 1):
        raise InputError(_difference(entry.name, wanted, given))
    for name in _SCRATCH[:scratch]:
        size = int(_attribute(about, name) or 0) * prod(shape)
        given.append(np.zeros(size, np.uint8) if size else np.uint64(0))
    warps = int(_attribute(about, "num_warps") or 0)
    block = entry.directive("reqntid") or (_WARP * warps,)
    if not block[0]:
        raise InputError("the metadata have no num_warps, and the PTX has no .reqntid")
    return {
        "ptx": checked,
        "entry": entry.name,
        "grid": shape,
        "block": tuple(block),
        "cluster": cluster,
        "dynamic_smem": int(_attribute(about, "shared") or 0),
        "args": given,
    }


def numba_launch(
    kernel: Any,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    dynamic_smem: int = 0,
    signature: Any = None,
) -> dict[str, Any]:
    """Return the arguments of `emulator.launch` for a kernel that numba-cuda compiled.

    kernel     the PTX text, as `cuda.compile(..., abi="numba")` returns it, or a kernel with `inspect_asm`.
    args       the kernel's arguments: NumPy arrays, each of which is several parameters, and numbers.
    signature  which of the kernel's signatures, if it has several.

    Errors: InputError for a kernel without PTX, and for arguments that are not those of the PTX.
    Source: numba-cuda's numba/cuda/dispatcher.py, _Kernel._prepare_args.
    """
    checked = read_module(ptx_of(kernel, signature))
    entry = find_entry(checked.module, None)
    given: list[Any] = []
    for one in args:
        if isinstance(one, np.ndarray):
            steps = tuple(step // one.itemsize for step in one.strides)
            given += numba_array(one, one.shape, steps)
        else:
            given.append(one)
    wanted = parameters(checked.functions[entry.name])
    if len(wanted) != len(given):
        raise InputError(_difference(entry.name, wanted, given))
    return {
        "ptx": checked,
        "entry": entry.name,
        "grid": grid,
        "block": block,
        "dynamic_smem": dynamic_smem,
        "args": given,
    }


def _attribute(about: Any, name: str) -> Any:
    """A field of metadata, which are an object or a dictionary; None if it is not there."""
    return about.get(name) if isinstance(about, Mapping) else getattr(about, name, None)


def _with_descriptors(
    args: Sequence[Any], wanted: Sequence[Parameter], boxes: list[Mapping[str, Any]]
) -> list[Any]:
    """Make tensor maps of the arrays that are descriptors, and put extents and strides behind each map.

    boxes  what the metadata say of each descriptor: the block's extents and the swizzle.
    """
    given: list[Any] = []
    for place, one in enumerate(args):
        is_map = len(given) < len(wanted) and "tensor map" in wanted[len(given)].role
        box = boxes.pop(0) if is_map and boxes else None
        value = _map_of(one, box) if box is not None and isinstance(one, np.ndarray) else one
        given.append(value)
        if not isinstance(value, TensorMap):
            continue
        rank = len(value.dims)
        behind = [parameter.bytes for parameter in wanted[len(given) : len(given) + 2 * rank]]
        room = len(wanted) - len(given) - (len(args) - place - 1)
        if behind == [4] * rank + [8] * rank and room >= 2 * rank:
            steps = [value.item_bytes, *value.strides]
            given += [np.int32(extent) for extent in reversed(value.dims)]
            given += [np.int64(step // value.item_bytes) for step in reversed(steps)]
    return given


def _map_of(array: np.ndarray[Any, Any], box: Mapping[str, Any]) -> TensorMap:
    """The tensor map of a row-major array for Triton's block of it."""
    return TensorMap.tiled(
        array,
        dims=array.shape[::-1],
        strides=array.strides[-2::-1],
        box=tuple(box["block_size"])[::-1],
        swizzle=_SWIZZLES[box["swizzle"]],
    )


def _difference(kernel: str, wanted: Sequence[Parameter], given: Sequence[Any]) -> str:
    """Both lists, one parameter in each line."""
    rows = "".join(
        f"\n  {place}  {wanted[place].declared if place < len(wanted) else 'nothing':<20}"
        f"  {type(given[place]).__name__ if place < len(given) else 'nothing'}"
        for place in range(max(len(wanted), len(given)))
    )
    return f"{short_name(kernel)} has {len(wanted)} parameters, but {len(given)} arguments are given:{rows}"
