"""What must hold of every atom: the boxes of a tile fill its shared memory once, with the right bytes.

The bytes are simulated from the descriptor and the coordinates alone, as the hardware is documented: box
elements in order, the innermost side first, one behind the other, zeros from outside of the tensor, and the
16-byte chunks swizzled by address. `smem_image` knows nothing of descriptors.
"""

import math
import os
import random
from typing import Any

import numpy as np
import pytest
from tma.configs import STRATA, as_tuple, draw

from cutecourse.errors import CourseError
from cutecourse.layout import (
    Layout,
    Swizzle,
    ceil_div,
    cosize,
    get_swizzle_portion,
    product_each,
    rank,
    size,
)
from cutecourse.layout.int_tuple import flatten_to_tuple, map_leaves
from cutecourse.tma import (
    TmaTrace,
    create_tma_multicast_mask,
    make_cluster_layout_vmnk,
    multicast_ctas,
    smem_image,
    tma_coords,
    tma_partition,
    trace_tma_atom,
)

SEED = os.environ.get("CUTECOURSE_TMA_SEED", "2026-11-21")
CASES = int(os.environ.get("CUTECOURSE_TMA_LAW_CASES", "240"))


def _atoms() -> list[TmaTrace]:
    traces = []
    for config in draw(f"laws {SEED}", CASES):
        try:
            traces.append(trace_tma_atom(*config.arguments()))
        except CourseError:
            continue
    return traces


@pytest.fixture(scope="module")
def atoms() -> list[TmaTrace]:
    return _atoms()


def some_tile(trace: TmaTrace, rng: random.Random) -> Any:
    """A tile of the tensor, the last ones (which may be ragged) as likely as all others."""
    extents = trace.gtensor.shape
    tiler = as_tuple(trace.cta_tiler)
    counts = ceil_div(extents, tiler)
    return map_leaves(lambda count: rng.choice((count - 1, rng.randrange(count))), counts)


def swizzled(addresses: np.ndarray, swizzle: str) -> np.ndarray:
    """PTX's swizzle modes: chunks of 16 bytes (32 in the last mode) change places within their row of 128."""
    rows = {"none": 0, "32B": 1, "64B": 3, "128B": 7, "128B_atom_32B": 3}[swizzle]
    chunk = 5 if swizzle == "128B_atom_32B" else 4
    return addresses ^ ((addresses >> 7 & rows) << chunk)


def simulate(trace: TmaTrace, memory: np.ndarray, tile: Any) -> tuple[np.ndarray, np.ndarray]:
    """Shared memory after the tile's instructions, and how often each byte was written."""
    encoding = trace.encoding
    width = encoding.dtype.bits // 8
    n_bytes = max(trace.tile_bytes, 1024)
    image, written = np.zeros(n_bytes, np.uint8), np.zeros(n_bytes, np.int64)
    strides = (width, *encoding.strides_bytes)
    for instruction in tma_coords(trace, tile):
        box = np.indices(tuple(reversed(encoding.box))).reshape(encoding.rank, -1)[::-1]
        crd = box + np.array(instruction.coords)[:, None]
        inside = np.all((crd >= 0) & (crd < np.array(encoding.dims)[:, None]), axis=0)
        source = (crd * np.array(strides)[:, None]).sum(axis=0)
        values = np.zeros((box.shape[1], width), np.uint8)
        values[inside] = memory[source[inside][:, None] + np.arange(width)]
        places = instruction.smem_offset_bytes + np.arange(values.size)
        places = swizzled(places, encoding.swizzle)
        np.add.at(written, places, 1)
        image[places] = values.reshape(-1)
    return image, written


def one_grid(trace: TmaTrace) -> bool:
    """Whether each dimension of the tensor map is one mode of the tensor, and each has a coordinate.

    Where several modes share a dimension, the end of the tensor is not the descriptor's. A mode with stride 0
    or one element has no coordinate, so no instruction starts elsewhere along it. With a wider internal type
    the tensor ends behind its last whole element of that type.
    """
    ratio = trace.internal_type.bits // trace.dtype.bits
    if ratio > 1 and any(d == 1 and s % ratio for s, d in trace.gtensor.leaves()):
        return False
    strides = flatten_to_tuple(trace.gtensor.stride)
    several = trace.instructions * trace.num_multicast > 1
    missing = 0 in strides or (several and 0 in flatten_to_tuple(trace.gmem_tma_basis_stride))
    return not missing and all(len(flatten_to_tuple(mode.stride)) == 1 for mode in trace.tma_gbasis)


def test_boxes__fill_shared_memory_with_the_tile(atoms: list[TmaTrace]) -> None:
    rng = random.Random(SEED)
    ragged = 0
    for trace in atoms:
        if not one_grid(trace):
            continue
        tile = some_tile(trace, rng)
        elements = np.random.default_rng(rng.randrange(1 << 30)).integers(
            1, 256, (cosize(trace.gtensor), trace.dtype.bits // 8), dtype=np.uint8
        )
        array = elements.view(f"u{trace.dtype.bits // 8}").reshape(-1)
        image, written = simulate(trace, elements.reshape(-1), tile)
        ours = smem_image(trace, array, tile)
        label = (
            f"{trace.gtensor} {trace.slayout} {trace.cta_tiler} {trace.dtype} x{trace.num_multicast} {tile}"
        )
        assert np.all(written[: trace.tile_bytes] == 1), label
        assert np.all(written[trace.tile_bytes :] == 0), label
        assert np.array_equal(image[: len(ours)], ours), label
        ragged += bool((ours == 0).any())
    assert ragged >= len(atoms) // 10


def test_configurations__are_of_every_kind(atoms: list[TmaTrace]) -> None:
    assert len(atoms) >= CASES // 2
    assert {trace.encoding.swizzle for trace in atoms} >= {"none", "32B", "64B", "128B"}
    assert {trace.rank for trace in atoms} == {1, 2, 3, 4, 5}
    assert {trace.encoding.dtype.bits for trace in atoms} == {8, 16, 32, 64}
    assert len(STRATA) == 8


def test_parts_of_a_multicast__are_the_instruction_cut_in_order(atoms: list[TmaTrace]) -> None:
    """The instructions of the CTAs follow one another in shared memory, each with a box of one part."""
    seen = 0
    for trace in atoms:
        if trace.num_multicast == 1 or not one_grid(trace):
            continue
        seen += 1
        tile = map_leaves(lambda _: 0, ceil_div(trace.gtensor.shape, as_tuple(trace.cta_tiler)))
        starts = sorted(instruction.smem_offset_bytes for instruction in tma_coords(trace, tile))
        step = math.prod(trace.encoding.box) * trace.encoding.element_bytes
        assert starts == list(range(0, trace.tile_bytes, step))
        assert step * trace.num_multicast * 8 == trace.num_bits_per_tma
    assert seen > 20


def test_tma_tensor__gives_the_element_s_address(atoms: list[TmaTrace]) -> None:
    """The coordinates of an element, by the descriptor's strides, lead to where the tensor has it."""
    rng = random.Random(SEED)
    for trace in atoms:
        tensor = trace.get_tma_tensor()
        encoding = trace.encoding
        strides = (encoding.element_bytes, *encoding.strides_bytes)
        if 0 in flatten_to_tuple(trace.gtensor.stride):
            continue
        for _ in range(4):
            index = rng.randrange(size(trace.gtensor))
            coords = flatten_to_tuple(tuple(tensor(index)))
            address = sum(crd * stride for crd, stride in zip(coords, strides, strict=False))
            place = trace.gtensor(index) * trace.dtype.bits // 8
            # a coordinate names the element of the internal type that the tensor's element lies in
            width = max(encoding.element_bytes, trace.dtype.bits // 8)
            assert address == place // width * width, str(trace.gtensor)
            assert all(crd < extent for crd, extent in zip(coords, encoding.dims, strict=False))


def test_image__of_an_array_with_axes_and_of_its_memory() -> None:
    trace = trace_tma_atom(Layout((96, 40), (1, 104)), Layout((64, 8)), (64, 8), "f32")
    memory = np.arange(104 * 40, dtype=np.float32)
    axes = memory.reshape(40, 104).T[:96]
    assert np.array_equal(smem_image(trace, memory, (1, 4)), smem_image(trace, axes, (1, 4)))
    tile = smem_image(trace, axes, (1, 4)).view(np.float32).reshape(8, 64).T
    assert np.array_equal(tile[:32], axes[64:96, 32:40])
    assert not tile[32:].any()


@pytest.mark.parametrize(
    ("cluster", "thr_id"),
    [
        ((4, 4, 1), 1),
        ((4, 4, 1), 2),
        ((2, 4, 1), 1),
        ((2, 4, 1), 2),
        ((8, 1, 2), 2),
        ((16, 1, 1), 2),
        ((1, 1, 1), 1),
    ],
)
def test_multicast__reaches_every_cta_that_needs_the_tile(cluster: tuple[int, ...], thr_id: int) -> None:
    layout = make_cluster_layout_vmnk(cluster, thr_id)
    for open_mode in (1, 2):
        ctas = multicast_ctas(layout, open_mode)
        assert [cta.rank for cta in ctas] == list(range(size(layout)))
        for cta in ctas:
            # a tile is that of all CTAs with the same other coordinates; each part of it is sent once
            same = [other for other in ctas if differs_only_in(cta.crd, other.crd, open_mode)]
            assert cta.receivers == tuple(sorted(other.rank for other in same))
            assert sorted(other.part for other in same) == list(range(cta.parts))
            assert all(other.mask == cta.mask for other in same)


def differs_only_in(a: tuple[Any, ...], b: tuple[Any, ...], mode: int) -> bool:
    return all(x == y for position, (x, y) in enumerate(zip(a, b, strict=True)) if position != mode)


def test_commit_mask__is_row_and_column_of_the_cluster() -> None:
    """What the tutorial with 4 x 4 CTAs needs: all that share A or B with this CTA, its peer as well."""
    cluster = make_cluster_layout_vmnk((4, 4, 1), Layout(2))
    crd = (1, 1, 2, 0)
    rows = create_tma_multicast_mask(cluster, crd, 0, 2)
    columns = create_tma_multicast_mask(cluster, crd, 0, 1)
    wanted = 0
    for m in range(4):
        for n in range(4):
            if m // 2 == 1 or n == 2:
                wanted |= 1 << (m + 4 * n)
    assert rows | columns == wanted


def test_tensor_of_one_element__has_the_coordinate_zero() -> None:
    trace = trace_tma_atom(Layout((1,), (1,)), Layout((8,)), (8,), "u64")
    assert str(trace.get_tma_tensor()) == "(0) o (1):(0)"
    assert [instruction.coords for instruction in tma_coords(trace, (0,))] == [(0,)]


@pytest.mark.parametrize("tiler", [16, (16,), [16]])
@pytest.mark.parametrize("shape", [64, (64,)])
def test_vector__is_a_tensor_of_one_mode(shape: Any, tiler: Any) -> None:
    trace = trace_tma_atom(Layout(shape), Layout(16), tiler, "f32")
    assert [instruction.coords for instruction in tma_coords(trace, 3)] == [(48,)]
    memory = np.arange(64, dtype=np.float32)
    assert np.array_equal(smem_image(trace, memory, (3,)).view(np.float32), memory[48:])


def test_tile_of_an_mma__is_the_plain_tile() -> None:
    """A tiler in the order of an MMA's operand: the same box and bytes as the matrix tile it covers."""
    gtensor = Layout((512, 256), (256, 1))
    tiler = Layout.parse("((128,16),1,4):((1@0,1@1),0,16@1)")
    slayout = Layout.parse("S<3,4,3> o 0 o ((128,16),1,4):((64,1),0,16)")
    mma = trace_tma_atom(gtensor, slayout, tiler, "f16", 4)
    tile = trace_tma_atom(gtensor, Layout.parse("S<3,4,3> o 0 o (128,64):(64,1)"), (128, 64), "f16", 4)
    assert mma.encoding == tile.encoding
    assert tma_coords(mma, (1, 2)) == tma_coords(tile, (1, 2))
    array = np.arange(512 * 256, dtype=np.uint32).astype(np.uint16).reshape(512, 256)
    assert np.array_equal(smem_image(mma, array, (1, 2)), smem_image(tile, array, (1, 2)))


def test_stages__are_left_out() -> None:
    tile = Layout.parse("S<3,4,3> o 0 o (128,64):(64,1)")
    staged = Layout.parse("S<3,4,3> o 0 o (128,64,3):(64,1,8192)")
    gtensor = Layout((512, 256), (256, 1))
    assert trace_tma_atom(gtensor, staged, (128, 64), "f16") == trace_tma_atom(
        gtensor, tile, (128, 64), "f16"
    )


def test_partition__of_a_plain_number_of_values() -> None:
    trace = trace_tma_atom(Layout((512, 256), (256, 1)), Layout((128, 64), (64, 1)), (128, 64), "f16")
    tiles = trace.get_tma_tensor().local_tile((128, 64), (0, None)).group_modes(0, 2)
    smem = Layout(((128, 64), 2), ((64, 1), 8192))
    one, other = (tma_partition(atom, 0, 1, smem, tiles) for atom in (trace, trace.num_val_src))
    assert (one.sresult, one.gresult) == (other.sresult, other.gresult) == tuple(other)
    assert rank(one.gresult.layout) == 2
    assert product_each(one.gresult.shape) == (8192, 4)
    assert get_swizzle_portion(trace.slayout) == Swizzle(0, 4, 3)
