"""Mistakes with the two accumulators: who may overwrite one, who has stored one, and which one it is."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "empty_not_waited",
        "the MMAs of a later tile do not wait until the accumulator's sums have been loaded",
        source=(("                cute.arch.mbarrier_wait(acc_empty + acc, turn % 2 ^ 1)\n", ""),),
        twin=(
            (
                "UNTIL_ACC_EMPTY:\n"
                "    mbarrier.try_wait.parity.shared::cta.b64 %done, [%signal + 64], %before;\n"
                "    @!%done bra         UNTIL_ACC_EMPTY;\n",
                "",
            ),
        ),
        reports=("TensorMemoryLoadUnderWay",),
    ),
    Fault(
        "released_before_the_load",
        "a warp says that its accumulator is empty before it has loaded the sums",
        source=(
            (
                '            nvvm.tcgen05_fence("before_thread_sync")\n'
                "            with cute.arch.elect_one():\n"
                "                cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader\n",
                "",
            ),
            (
                "            cute.arch.mbarrier_wait(acc_full + acc, turn % 2)\n",
                "            cute.arch.mbarrier_wait(acc_full + acc, turn % 2)\n"
                "            with cute.arch.elect_one():\n"
                "                cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader\n",
            ),
        ),
        twin=(
            (
                "    tcgen05.fence::before_thread_sync;                  "
                "// the warp has loaded all that it needs of this accumulator\n"
                "    add.u32             %signal, %signal, 64;\n"
                "    mapa.shared::cluster.u32 %leader, %signal, 0;\n"
                "    elect.sync          _|%elected, -1;\n"
                "    @%elected mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%leader];\n",
                "",
            ),
            (
                "    @!%done bra         UNTIL_ACC_FULL;\n",
                "    @!%done bra         UNTIL_ACC_FULL;\n"
                "    mapa.shared::cluster.u32 %leader, %signal, 0;\n"
                "    elect.sync          _|%elected, -1;\n"
                "    @%elected mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%leader + 64];\n",
            ),
        ),
        reports=("TensorMemoryLoadUnderWay",),
    ),
    Fault(
        "leader_alone_counted",
        "`acc_empty` counts the leader's four warps, but eight arrive",
        source=(("mbarrier_init(acc_empty + acc, STORING_WARPS * sms)", "mbarrier_init(acc_empty + acc, 4)"),),
        twin=(
            ("[%barriers + 64], 4 * ${given_0};     // all warps that store", "[%barriers + 64], 4;"),
            ("[%barriers + 72], 4 * ${given_0};", "[%barriers + 72], 4;"),
        ),
        reports=("BarrierCountError", "TensorMemoryLoadUnderWay"),
    ),
    Fault(
        "peer_releases_its_own",
        "the peer's warps arrive at their own `acc_empty`, which nobody waits for",
        source=(
            (
                "cute.arch.mbarrier_arrive(acc_empty + acc, 0)  # in the leader",
                "cute.arch.mbarrier_arrive(acc_empty + acc, rank)",
            ),
        ),
        twin=(
            ("mapa.shared::cluster.u32 %leader, %signal, 0;", "mapa.shared::cluster.u32 %leader, %signal, %rank;"),
        ),
        reports=("DeadlockError",),
    ),
    Fault(
        "accumulator_not_switched",
        "the MMAs of every tile go into the first accumulator",
        source=(("sums = tCtC[None, None, None, acc]", "sums = tCtC[None, None, None, 0]"),),
        twin=(("mad.lo.u32          %sums, %acc, 256, %tmem;", "mov.u32             %sums, %tmem;"),),
        reports=("UninitializedRead", "TensorMemoryLoadUnderWay"),
    ),
    Fault(
        "parity_not_switched",
        "the wait for an empty accumulator always asks for the phase before the first one",
        source=(
            (
                "cute.arch.mbarrier_wait(acc_empty + acc, turn % 2 ^ 1)",
                "cute.arch.mbarrier_wait(acc_empty + acc, 1)",
            ),
        ),
        twin=(("xor.b32             %before, %turn, 1;", "mov.u32             %before, 1;"),),
        reports=("TensorMemoryLoadUnderWay",),
    ),
    Fault(
        "block_barrier_before_dealloc",
        "before tensor memory is freed for both CTAs, a CTA waits for its own warps only",
        source=(
            (
                '    nvvm.tcgen05_fence("before_thread_sync")\n'
                "    cute.arch.cluster_arrive()\n"
                "    cute.arch.cluster_wait()\n",
                '    nvvm.tcgen05_fence("before_thread_sync")\n    cute.arch.sync_threads()\n',
            ),
        ),
        twin=(
            (
                "    barrier.cluster.arrive.aligned;                     // both CTAs have read their tensor memory\n"
                "    barrier.cluster.wait.aligned;\n",
                "    barrier.sync        0;\n",
            ),
        ),
        reports=("TensorMemoryFreed", "ExitedCTAError"),
    ),
)
