"""The instructions that TMA needs for a tile, and the bytes of shared memory after a load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutecourse.atoms import LayoutTensor
from cutecourse.atoms.tensor import as_tensor, outer_of
from cutecourse.layout import Layout, Swizzle, cosize, make_identity_layout, product_each
from cutecourse.layout.basis import ScaledBasis, basis_terms
from cutecourse.layout.int_tuple import flatten_to_tuple, is_node, wrap

from .atom import TmaTrace
from .errors import TmaError
from .partition import tma_partition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TmaInstruction", "smem_image", "tma_coords"]


@dataclass(frozen=True)
class TmaInstruction:
    """One TMA instruction of a tile.

    Shapes:     `coords` and `box` are innermost first, as the instruction and the tensor map take them.
    Units:      elements of the internal type; `smem_offset_bytes` from the start of the tile.
    Simplified: a box that is cut off by the tensor's end moves the same bytes: zeros from outside.
    """

    coords: tuple[int, ...]
    box: tuple[int, ...]
    smem_offset_bytes: int
    multicast_id: int

    def to_snapshot(self) -> dict[str, Any]:
        """The values in a form that JSON can hold."""
        return {
            "coords": list(self.coords),
            "box": list(self.box),
            "smem_offset_bytes": self.smem_offset_bytes,
            "multicast_id": self.multicast_id,
        }


def tma_coords(
    trace: TmaTrace, tile_coord: Any, multicast_id: int | None = None
) -> tuple[TmaInstruction, ...]:
    """The instructions that load a tile, in the order in which a copy issues them.

    Shapes:     `tile_coord` numbers the tiles of the tensor, one entry a mode as in `local_tile`.
    Units:      `multicast_id` chooses the CTA of a multicast by its number in it; None lists all of them,
                which together fill the tile.
    Errors:     TmaError as `tma_partition`; `LayoutError` for a coordinate that does not fit the tiles.

    >>> from cutecourse.layout import Layout
    >>> from cutecourse.tma import trace_tma_atom
    >>> slayout = Layout.parse("S<3,4,3> o 0 o ((64,2),(8,2)):((1,512),(64,1024))")
    >>> trace = trace_tma_atom(Layout((512, 256), (1, 512)), slayout, (128, 16), "f16")
    >>> for instruction in tma_coords(trace, (1, 3)):
    ...     print(instruction.coords, instruction.box, instruction.smem_offset_bytes)
    (128, 48) (64, 8) 0
    (192, 48) (64, 8) 1024
    (128, 56) (64, 8) 2048
    (192, 56) (64, 8) 3072
    """
    tile = _whole(_tile_of(trace, trace.get_tma_tensor(), tile_coord))
    ids = range(trace.num_multicast) if multicast_id is None else (multicast_id,)
    cta_layout = Layout(trace.num_multicast)
    found = []
    for cta in ids:
        if not 0 <= cta < trace.num_multicast:
            raise TmaError(
                f"the multicast has CTAs 0 to {trace.num_multicast - 1}, not {cta}", rule="multicast_crd"
            )
        parts = tma_partition(trace, cta, cta_layout, _grouped(trace.smem_layout), tile)
        smem, gmem = parts
        for iteration in range(trace.instructions):
            coords = flatten_to_tuple(tuple(gmem(((0, iteration),))))
            coords = tuple(int(value) for value in coords)
            found.append(
                TmaInstruction(
                    coords=coords + (0,) * (trace.rank - len(coords)),
                    box=trace.encoding.box,
                    smem_offset_bytes=int(smem(((0, iteration),))) * trace.dtype.bits // 8,
                    multicast_id=cta,
                )
            )
    return tuple(found)


def _tile_of(trace: TmaTrace, tensor: LayoutTensor, tile_coord: Any) -> LayoutTensor:
    crd = tuple(tile_coord) if isinstance(tile_coord, (tuple, list)) else (tile_coord,)
    return tensor.local_tile(trace.cta_tiler, crd)


def _whole(tensor: LayoutTensor) -> LayoutTensor:
    """All modes in one: (TMATile), as tma_partition takes it."""
    return LayoutTensor(_grouped(outer_of(tensor.layout)), tensor.offset)


def _grouped(layout: Layout) -> Layout:
    return Layout.unchecked((layout.shape,), (layout.stride,))


def smem_image(trace: TmaTrace, array: NDArray[Any], tile_coord: Any) -> NDArray[np.uint8]:
    """The bytes of shared memory after a tile was loaded, from CuTe's layouts alone.

    Law: element `i` of the tile comes from `gtensor(cta_v_tile(i) + tile)` and lies at `slayout(i)`, the
    swizzle permuting the bytes' addresses from the start of the tile; zeros come from outside the tensor.
    Shapes:     `array` is the tensor with one axis a mode, or its memory as a vector (from the tensor's
                first element on). `tile_coord` numbers the tiles, one entry a mode as in `local_tile`.
                The result is a vector of bytes.
    Errors:     TmaError: `array` for an array of another size or width; as `tma_coords` otherwise.
    Simplified: bytes of shared memory that no element of the tile has stay zero here. Where the tensor map
                has no coordinate for a mode of the tensor alone (stride 0, or a dimension that several modes
                share), the end of that mode is the tensor's here, and TMA sees that of its dimension.

    >>> import numpy as np
    >>> from cutecourse.layout import Layout
    >>> from cutecourse.tma import trace_tma_atom
    >>> trace = trace_tma_atom(Layout((2, 12), (16, 1)), Layout((2, 8), (8, 1)), (2, 8), "f16")
    >>> array = np.arange(32, dtype=np.float16)
    >>> print(smem_image(trace, array, (0, 1)).view(np.float16).reshape(2, 8))
    [[ 8.  9. 10. 11.  0.  0.  0.  0.]
     [24. 25. 26. 27.  0.  0.  0.  0.]]
    """
    import numpy as np

    itemsize = trace.dtype.bits // 8
    if array.dtype.itemsize != itemsize:
        raise TmaError(
            f"the array's elements have {array.dtype.itemsize} bytes, the tensor's {itemsize}",
            rule="array",
            values=(("array", f"{array.dtype} {array.shape}"), ("dtype", trace.dtype)),
        )
    identity = as_tensor(make_identity_layout(trace.gtensor.shape))
    tile = _tile_of(trace, identity, tile_coord)
    index = np.arange(trace.tile_size)
    crds = _coordinates(outer_of(tile.layout), tile.offset, index, trace.gtensor.shape)
    inside = np.ones(trace.tile_size, dtype=bool)
    for path, extent in _paths(trace.gtensor.shape):
        inside &= (crds[path] >= 0) & (crds[path] < extent)
    values = np.zeros((trace.tile_size, itemsize), dtype=np.uint8)
    values[inside] = _elements(trace, array, {path: crd[inside] for path, crd in crds.items()})

    starts = _offsets(trace.smem_layout, index) * itemsize
    addresses = _swizzled(trace.smem_swizzle, starts[:, None] + np.arange(itemsize)[None, :])
    n_bytes = max(cosize(trace.smem_layout) * itemsize, int(addresses.max()) + 1)
    image = np.zeros(n_bytes, dtype=np.uint8)
    image[addresses] = values
    return image


def _elements(trace: TmaTrace, array: NDArray[Any], crds: dict[Any, Any]) -> NDArray[np.uint8]:
    """The bytes of the elements at coordinates that are inside of the tensor."""
    import numpy as np

    extents = wrap(product_each(trace.gtensor.shape))
    itemsize = array.dtype.itemsize
    if array.ndim == len(extents) and array.shape == tuple(extents):
        axes = []
        for mode, shape in enumerate(wrap(trace.gtensor.shape)):
            position, unit = np.zeros((), dtype=np.int64), 1
            for path, extent in _paths(shape, (mode,) if is_node(trace.gtensor.shape) else ()):
                position = position + crds[path] * unit
                unit *= extent
            axes.append(position)
        chosen = array[tuple(axes)]
    elif array.ndim == 1 and len(array) >= cosize(trace.gtensor):
        offsets = np.zeros((), dtype=np.int64)
        strides = flatten_to_tuple(trace.gtensor.stride)
        for (path, _), stride in zip(_paths(trace.gtensor.shape), strides, strict=True):
            offsets = offsets + crds[path] * int(stride)
        chosen = array[offsets]
    else:
        raise TmaError(
            f"the array has the shape {array.shape}; the tensor is {trace.gtensor}",
            rule="array",
            advice=f"an array of shape {tuple(extents)}, or a vector of {cosize(trace.gtensor)} elements",
        )
    return np.ascontiguousarray(chosen).view(np.uint8).reshape(-1, itemsize)


def _paths(shape: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], int]]:
    """The extents of a shape, each with its path."""
    if is_node(shape):
        for position, mode in enumerate(shape):
            yield from _paths(mode, (*path, position))
    else:
        yield path, int(shape)


def _digits(layout: Layout, index: NDArray[Any]) -> Iterator[tuple[NDArray[Any], Any]]:
    """Split indices along the extents of a layout; each digit with the stride it goes with."""
    for extent, stride in layout.leaves():
        yield index % int(extent), stride
        index = index // int(extent)


def _offsets(layout: Layout, index: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    total = np.zeros_like(index)
    for digit, stride in _digits(layout, index):
        total = total + digit * int(stride)
    return total


def _coordinates(layout: Layout, offset: Any, index: NDArray[Any], shape: Any) -> dict[Any, NDArray[Any]]:
    """The coordinates that a layout with basis strides gives to indices, by their place in the shape."""
    import numpy as np

    start = dict(_paths_of(offset))
    crds = {path: np.full_like(index, start.get(path, 0)) for path, _ in _paths(shape)}
    for digit, stride in _digits(layout, index):
        for term in basis_terms(stride):
            path, step = (term.mode, term.value) if isinstance(term, ScaledBasis) else ((), term)
            if step:
                crds[path] = crds[path] + digit * int(step)
    return crds


def _paths_of(offset: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], int]]:
    if isinstance(offset, tuple):
        for position, part in enumerate(offset):
            yield from _paths_of(part, (*path, position))
    else:
        yield path, int(offset)


def _swizzled(swizzle: Swizzle, addresses: NDArray[Any]) -> NDArray[Any]:
    bits = addresses & swizzle.yyy_mask
    shift = swizzle.num_shift
    flipped: NDArray[Any] = addresses ^ (bits >> shift if shift >= 0 else bits << -shift)
    return flipped
