"""The bug of an exercise, in the kernel for a cluster of 2x2."""

from cutecourse.kernels import umma_tma_broken
from cutecourse.kernels.faults import Fault, by_name

LAUNCH = umma_tma_broken.LAUNCH

FAULTS = by_name(
    __name__,
    Fault(
        "count_of_the_cluster",
        "a barrier counts the commits of all CTAs, and those that share nothing send none",
        source=(("senders = CLUSTER[0] + CLUSTER[1] - 1\n", "senders = CLUSTER[0] * CLUSTER[1]\n"),),
        twin=(("${cluster_0} + ${cluster_1} - 1;", "${cluster_0} * ${cluster_1};"),),
        reports=("DeadlockError",),
        exercise="12.5",
    ),
)
