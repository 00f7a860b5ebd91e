"""Mistakes on the way of a result: from tensor memory to registers, to shared memory, to global memory."""

from cutecourse.kernels.faults import Fault, by_name

_STORE = """\
                if cute.elem_less((row, piece), gD.shape[2:]):  # else it lies outside of D
                    cute.copy(atom_d, tDsD[None, buffer], tDgD[None, row, piece])
"""
_COMMIT = "                cute.arch.cp_async_bulk_commit_group()\n"
_STORE_IN_TWIN = """\
    @%in cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d, {%column, %row}], [%buffer];
"""
_COMMIT_IN_TWIN = "    @%elected cp.async.bulk.commit_group;\n"
_FENCE = '            cute.arch.fence_proxy("async.shared", space="cta")\n'
_LAST = "        with cute.arch.elect_one():\n            cute.arch.cp_async_bulk_wait_group(0, read=True)\n"
_LAST_IN_TWIN = "    @%elected cp.async.bulk.wait_group.read 0;\n"


def _names(letter: str, first: int, count: int) -> str:
    return ", ".join(f"%{letter}{number}" for number in range(first, first + count))


def _load_rows() -> str:
    """The twin's load of 32 lanes, a row of 64 columns for each thread."""
    lines = ",\n         ".join(_names("s", first, 16) for first in range(0, 64, 16))
    return f"    tcgen05.ld.sync.aligned.32x32b.x64.b32\n        {{{lines}}}, [%from];\n"


def _load_matrices() -> str:
    """Loads of 16 lanes each; a thread gets two columns of two rows, as from mma.sync."""
    load = "    tcgen05.ld.sync.aligned.16x256b.x8.b32 {{{}}}, [{}];\n"
    upper = "    add.u32             %place, %from, 0x100000;        // 16 lanes further\n"
    return load.format(_names("s", 0, 32), "%from") + upper + load.format(_names("s", 32, 32), "%place")


def _store(chunk: int) -> str:
    """The twin's store of 16 bytes of a thread's row."""
    return (
        f"    xor.b32 %place, %turned, {16 * chunk}; add.u32 %place, %place, %to; "
        f"st.shared.v4.b32 [%place], {{{_names('h', 4 * chunk, 4)}}};\n"
    )


def _store_matrices(pair: int) -> str:
    """Four 8x8 matrices: 16 columns of the lower 16 rows, or of the upper ones."""
    half, chunks = divmod(pair, 4)
    return (
        f"    xor.b32 %place, %x, {32 * chunks}; add.u32 %place, %place, %to;\n"
        f"    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%place + {2048 * half}], "
        f"{{{_names('h', 4 * pair, 4)}}};\n"
    )


_ROW = "    mad.lo.u32          %to, %lane, 128, %buffer;\n"
_ROW_OF_MATRIX = """\
    and.b32             %index, %lane, 15;              // the row whose address this lane gives
    mad.lo.u32          %to, %index, 128, %buffer;
    and.b32             %x, %lane, 16;                  // the second 8 columns
    xor.b32             %x, %x, %turned;
"""
BY_MATRICES = Fault(
    "by_matrices",
    "tensor memory is loaded 16 lanes at a time and stored by stmatrix",
    twin=(
        (_load_rows(), _load_matrices()),
        (_ROW, _ROW_OF_MATRIX),
        *((_store(place), _store_matrices(place)) for place in range(8)),
    ),
    unreported="another way to the same result",
)

_MEET = "            cute.arch.sync_warp()\n"
_MEET_IN_TWIN = "    bar.warp.sync       -1;\n"
_WAITED = "                cute.arch.cp_async_bulk_wait_group(BUFFERS - 1, read=True)\n"
_WAITED_IN_TWIN = "// TMA has read what this buffer held\n"
_FENCE_IN_TWIN = "    fence.proxy.async.shared::cta;\n"
NOT_MET_BEFORE = Fault(
    "not_met_before_the_stores",
    "31 lanes write to a buffer before they have met the one that waited for it",
    source=((_WAITED + _MEET, _WAITED),),
    twin=((_WAITED_IN_TWIN + _MEET_IN_TWIN, _WAITED_IN_TWIN),),
    reports=("LanesNotOrdered",),
)
NOT_MET_BEHIND = Fault(
    "not_met_behind_the_stores",
    "one lane hands a buffer to TMA before it has met the 31 others that write to it",
    source=((_FENCE + _MEET, _FENCE),),
    twin=((_FENCE_IN_TWIN + _MEET_IN_TWIN, _FENCE_IN_TWIN),),
    reports=("LanesNotOrdered",),
)

FAULTS = by_name(
    __name__,
    Fault(
        "load_not_waited",
        "the sums are rounded before `tcgen05.wait::ld` says that they are in the registers",
        source=(("            cute.arch.fence_view_async_tmem_load()\n", ""),),
        twin=(("    tcgen05.wait::ld.sync.aligned;\n", ""),),
        reports=("LoadNotWaitedFor",),
    ),
    Fault(
        "no_proxy_fence",
        "TMA reads the buffer, and nothing orders the threads' stores before that",
        source=((_FENCE, ""),),
        twin=(("    fence.proxy.async.shared::cta;\n", ""),),
        reports=("MissingProxyFence",),
    ),
    Fault(
        "buffer_reused_early",
        "a piece is written into a buffer that TMA may still read",
        source=(("wait_group(BUFFERS - 1, read", "wait_group(BUFFERS, read"),),
        twin=(("wait_group.read 1;", "wait_group.read 2;"),),
        reports=("OverwrittenSource",),
    ),
    Fault(
        "last_not_waited",
        "the CTA ends while TMA may still read its shared memory",
        source=((_LAST, ""),),
        twin=((_LAST_IN_TWIN, ""),),
        reports=("UnfinishedCopy",),
    ),
    Fault(
        "committed_early",
        "the group is closed before the store, so the wait does not cover it",
        source=((_STORE + _COMMIT, _COMMIT + _STORE),),
        twin=((_STORE_IN_TWIN + _COMMIT_IN_TWIN, _COMMIT_IN_TWIN + _STORE_IN_TWIN),),
        reports=("OverwrittenSource",),
    ),
)
