"""Faults of `attention_pingpong`, one line each."""

from cutecourse.kernels.faults import Fault, by_name

SAYS = "            cute.arch.barrier_arrive(barrier_id={}, number_of_threads=256){}\n"
BEGINS = "        if consumer == 1:\n" + SAYS.format("TURN", "  # the other one begins")
ENDS = "        if consumer == 0:\n" + SAYS.format("TURN + 1", "")
TWIN_BEGINS = "    @%p bar.arrive      1, 256;                          // the other one begins\n"
TWIN_ENDS = "    @%p bar.arrive      2, 256;                          // the other one's last turn\n"

FAULTS = by_name(
    __name__,
    Fault(
        "nobody_begins",
        "each warpgroup waits for a turn that the other one must give, and nobody gives the first",
        source=((BEGINS, ""),),
        twin=((TWIN_BEGINS, ""),),
        reports=("DeadlockError",),
    ),
    Fault(
        "last_turn_kept",
        "the first warpgroup is done, and gives its turn to nobody",
        source=((ENDS, ""),),
        twin=((TWIN_ENDS, ""),),
        reports=("DeadlockError",),
    ),
)
