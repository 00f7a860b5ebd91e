"""Faults of `attention_one`, one line each."""

from cutecourse.kernels.faults import Fault, by_name

LOADS_K = "        load(tma_k, tKg[None, key - 1], tKs, full + K)\n"
LOADS_V = "        load(tma_v, tVg[None, key - 1], tVs, full + V)\n"
WHEN = "    if warp == 0 and key > 0:\n"
TWIN_LOADS_V = """\
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%smem+32784], 8192;
    cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%smem+24576], [%of_v, {%left, %next, %head}], [%smem+32784];
    cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%smem+28672], [%of_v, {%right, %next, %head}], [%smem+32784];
"""
S_READ = "cute.arch.sync_threads()  # all warps have read K\n"
TWIN_S_READ = "    bar.sync            0;                               // all warps have read K\n"

FAULTS = by_name(
    __name__,
    Fault(
        "v_loaded_with_k",
        "the next V is loaded together with the next K, and this V is still to be read",
        source=((WHEN + LOADS_V, ""), (LOADS_K, LOADS_K + LOADS_V)),
        twin=((TWIN_LOADS_V, ""), ("MASK:\n", TWIN_LOADS_V + "MASK:\n")),
        reports=("StageReusedEarly", "ReadBeforeWait", "BarrierCountError"),
    ),
    Fault(
        "s_in_flight",
        "the softmax does not wait for the MMA that computes S",
        source=(("    warpgroup.wait_group(0)\n    " + S_READ, "    " + S_READ),),
        twin=(("    wgmma.wait_group.sync.aligned 0;\n" + TWIN_S_READ, TWIN_S_READ),),
        reports=("AccumulatorInFlight", "StageReusedEarly"),
    ),
    Fault(
        "one_phase",
        "every tile of V is awaited with the parity of the first one",
        source=(("mbarrier_wait(full + V, step % 2)", "mbarrier_wait(full + V, 0)"),),
        twin=(("[%smem+32784], %parity;", "[%smem+32784], 0;"),),
        reports=("UninitializedRead", "ReadBeforeWait", "DeadlockError"),
    ),
)
