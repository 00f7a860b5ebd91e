"""tcgen05.cp: asynchronous copies from shared memory into tensor memory."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.core.facts import DescriptorOperand, Facts, MemoryUse, Pipe
from cutecourse.emulator.core.kinds import CHUNK
from cutecourse.emulator.core.origin import Origin, each_lane
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import InvalidOperand, TensorMemoryOperandError
from cutecourse.emulator.instructions.stating import SHARED_CHUNKS
from cutecourse.emulator.instructions.tcgen05.alloc import check_peer, take_cta_group
from cutecourse.emulator.instructions.tcgen05.queue import Queue, QueuedOperation
from cutecourse.emulator.memory.event_memory import chunks_touched, region_touches
from cutecourse.emulator.memory.matrix_descriptor import FieldError, SharedMatrix, decode_matrix, matrix_of
from cutecourse.emulator.memory.proxies import TCGEN05, check_source, first_bytes
from cutecourse.emulator.memory.regions import Region
from cutecourse.emulator.memory.tensor_memory import (
    LANES,
    Moving,
    TensorMemories,
    TensorMemory,
    split_address,
)
from cutecourse.emulator.numbers.narrow import in_bytes, unpacked

__all__: list[str] = []

# Rows, bits and multicast of each shape, and the lanes that each row goes to.
_ALL = np.arange(LANES)[:, None]
_SHAPES: dict[tuple[str, str | None], NDArray[np.int64]] = {
    ("128x256b", None): _ALL,
    ("128x128b", None): _ALL,
    ("64x128b", "warpx2::02_13"): np.arange(64)[:, None] + np.array([0, 64]),
    ("64x128b", "warpx2::01_23"): (np.arange(64) + np.arange(64) // 32 * 32)[:, None] + np.array([0, 32]),
    ("32x128b", "warpx4"): np.arange(32)[:, None] + np.array([0, 32, 64, 96]),
    ("4x256b", None): 32 * np.arange(4)[:, None],
}
_MULTICASTS = ("warpx2::02_13", "warpx2::01_23", "warpx4")
_NARROW = {"b6x16_p32": 6, "b4x16_p64": 4}
_WORDS = CHUNK // 4


@instruction(
    "tcgen05.cp",
    facts=Facts(
        category="tcgen05",
        uses=(SHARED_CHUNKS, MemoryUse("tensor", 4, writes=True)),
        pipe=Pipe.TCGEN05,
        uncounted="tcgen05.cp",
        publishes=True,
        descriptors=(DescriptorOperand("source", 1, "sm_100 matrix"),),
    ),
)
def cp(site: Site) -> Step:
    """Copy a matrix from shared to tensor memory, asynchronously.

    Shapes:     once for each active lane: elect one. Row r of 128 or 256 bits goes to lane r; 64 rows go to
                the lanes of warps 0 and 1, and again of 2 and 3 (.warpx2::02_13), or 32 rows each to warps 0
                and 1 and to 2 and 3 (.warpx2::01_23); 32 rows to the lanes of all four warps (.warpx4); 4
                rows to one lane of each warp, the address's and those 32, 64 and 96 below it. With
                .cta_group::2 in both CTAs, each from its own shared memory.
                With .b8x16, 16 elements of 6 or of 4 bits and the padding behind them become 16 bytes.
    Units:      the address in lanes and columns; the descriptor in bits, K-major.
    Errors:     InvalidOperand for a descriptor's field, by its name; TensorMemoryOperandError,
                TensorMemoryHazard, UninitializedRead, MissingProxyFence, OverwrittenSource, AddressError.
    Simplified: reads and writes when it completes, at a time that the seed chooses. Only a figure of the
                document and an example of CUTLASS's say where the bits of an unpacked element stand
                (numbers.narrow).
    Source:     PTX ISA 9.0, tcgen05.cp (#tcgen05-instructions-tcgen05-cp); the warps of a pair:
                .multicast there; .4x256b: Data Movement Shape and CUTLASS's cute/atom/copy_traits_sm100.hpp,
                Copy_Traits<SM100_UTCCP_4dp256bit_1cta>.
    """
    group = take_cta_group(site)
    shape = site.expect("128x256b", "128x128b", "64x128b", "32x128b", "4x256b")
    narrow, into = site.one_of(*_NARROW), site.has("b8x16")
    if into != (narrow is not None):
        site.unsupported(".b8x16 needs .b6x16_p32 or .b4x16_p64, and each of these needs .b8x16")
    bits_of_each = _NARROW.get(narrow or "", 8)
    lanes = _SHAPES.get((shape, site.one_of(*_MULTICASTS)))
    if lanes is None:
        known = ", ".join(f".{s}" + (f".{m}" if m else "") for s, m in _SHAPES if s == shape)
        site.unsupported(f".{shape} comes as {known}")
    chunks = 2 if shape.endswith("x256b") else 1
    where, descriptor = site.address(0), site.source(1, "u64")

    def issue(origin: Origin) -> None:
        check_peer(origin, group)
        address = origin.value(where.lanes(origin.bundle)) & 0xFFFFFFFF
        bits, size = origin.value(origin.bundle.rows["u64"][descriptor]), chunks * CHUNK
        name = "the descriptor"
        try:
            source = matrix_of(origin, name, decode_matrix, bits, len(lanes), size, 1, k_major=True)
        except FieldError as wrong:
            raise origin.error(InvalidOperand, str(wrong)) from None
        _issue(origin, group, address, source, lanes, bits_of_each)

    return each_lane(site, issue)


def _issue(
    origin: Origin, group: int, address: int, source: SharedMatrix, lanes: NDArray[np.int64], bits: int
) -> None:
    """Check a copy, and issue it so that it completes later; `bits` are those of an element in its source."""
    lane, column = split_address(address)
    room = LANES - int(lanes.max())
    if lane >= room:
        allowed = f"0 to {room - 1}" if room > 1 else "0"
        raise origin.error(
            TensorMemoryOperandError,
            f"the address 0x{address:x} is in lane {lane}, but must be in lane {allowed}",
        )
    lanes = lanes + lane
    cohort, cluster, rank = origin.bundle.cohort, origin.cluster, origin.bundle.rank
    width = source.chunks.shape[1] * _WORDS
    touched = np.zeros(LANES, dtype=np.bool_)
    touched[lanes.reshape(-1)] = True
    region = Region(touched, column, column + width)
    places = []
    memories = cohort.own(TensorMemories)
    for each in [rank] if group == 1 else [rank & ~1, rank | 1]:
        memory = memories[cluster, each]
        memory.check_allocated(region, "tcgen05.cp", origin)
        memory.check_quiet(region, "tcgen05.cp", origin, writes=True, pipeline="cp")
        start = cohort.shared_start(cluster, each) // CHUNK
        chunks = source.chunks + start
        for tell in cohort.listeners.operands_read:
            tell(origin, [(each, "the source", chunks, source.span(start))])
        check_source(origin, chunks, "the source", TCGEN05, rank=each, needed=first_bytes(2 * bits))
        moving = Moving(
            origin,
            region,
            writes=True,
            remedy="Wait for the mbarrier of a tcgen05.commit after it.",
            pipeline="cp",
        )
        memory.moving.append(moving)
        for tell in cohort.listeners.tensor_stored:
            tell(memory, region)
        for tell in cohort.listeners.tensor_copied:
            tell(memory, region, chunks)
        places.append((each, memory, moving, chunks))
    for tell in cohort.listeners.happened:
        told = [chunks_touched(cohort, cluster, each, chunks) for each, _, _, chunks in places]
        for each, *_ in places:
            told += region_touches(each, [region], writes=True)
        tell("tmem.copy", origin, address=address, group=group, touches=told)
    touches = [(memory, moving) for _, memory, moving, _ in places]
    Queue.of(origin).add(
        QueuedOperation(origin, partial(_complete, origin, places, lanes, bits), touches=touches)
    )


def _complete(
    origin: Origin,
    places: list[tuple[int, TensorMemory, Moving, NDArray[np.int64]]],
    lanes: NDArray[np.int64],
    bits: int,
) -> None:
    words, _ = origin.bundle.cohort.shared_words(8, 2)
    for rank, memory, moving, chunks in places:
        memory.end(moving)
        check_source(
            origin, chunks, "the source", TCGEN05, rank=rank, needed=first_bytes(2 * bits), issued=True
        )
        held = words[chunks].view(np.uint8)
        if bits < 8:
            held = in_bytes(unpacked(held[..., : 2 * bits], bits), bits)
        rows = held.view(np.uint32).reshape(len(chunks), -1)
        columns = slice(moving.region.first, moving.region.stop)
        for copy in range(lanes.shape[1]):
            memory.cells[lanes[:, copy], columns] = rows
            memory.written[lanes[:, copy], columns] = True
