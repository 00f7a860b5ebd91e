"""Lines that chapter 11 and the errata leave out of the kernel."""

from cutecourse.kernels.faults import Fault, by_name

FAULTS = by_name(
    __name__,
    Fault(
        "load_not_waited",
        "a thread stores the registers of tcgen05.ld without waiting for it",
        source=(("        cute.arch.fence_view_async_tmem_load()\n", ""),),
        twin=(("tcgen05.wait::ld.sync.aligned;", ""),),
        reports=("LoadNotWaitedFor",),
    ),
    Fault(
        "mma_not_waited",
        "tensor memory is read before the MMA is done",
        source=(("    cute.arch.mbarrier_wait(mma_barrier, 0)\n", ""),),
        twin=(("%done, [%read], 0;", ""), ("@!%done bra         UNTIL_READ;", "")),
        reports=("UninitializedRead",),
    ),
)
