"""The bug of an exercise, and a fault of the page of symptoms."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "commit_by_another_warp",
        "a thread of another warp than the MMAs' commits, and its commit has no MMA to wait for",
        source=(
            (
                "            with cute.arch.elect_one():\n                tcgen05.commit(",
                (
                    "        if warp == 1:\n"
                    "            with cute.arch.elect_one():\n"
                    "                tcgen05.commit("
                ),
            ),
        ),
        twin=(
            ("    @!%warp_0 bra       UNTIL_FREE;", "    @!%warp_0 bra       COMMIT;"),
            (
                "    @%elected tcgen05.commit",
                (
                    "COMMIT:\n"
                    "    setp.eq.u32         %more, %warp, 1;\n"
                    "    @!%more bra         UNTIL_FREE;\n"
                    "    elect.sync          _|%elected, -1;\n"
                    "    @%elected tcgen05.commit"
                ),
            ),
        ),
        reports=("OverwrittenSource", "SharedMemoryRace"),
        exercise="11.6",
    ),
    Fault(
        "every_warp",
        "one thread of each of the four warps issues the MMAs and commits them, and the barrier counts four",
        source=(
            ("        if warp == 0:\n            for k_", "        if True:\n            for k_"),
            ("mbarrier_init(mma_barrier, 1)", "mbarrier_init(mma_barrier, 4)"),
        ),
        twin=(
            ("@!%warp_0 bra       UNTIL_FREE;", ""),
            ("init.shared::cta.b64 [%free], 1;", "init.shared::cta.b64 [%free], 4;"),
        ),
        reports=("UnreadSum",),
    ),
)
