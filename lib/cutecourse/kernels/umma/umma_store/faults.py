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
