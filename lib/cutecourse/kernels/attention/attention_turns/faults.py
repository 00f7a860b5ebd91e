"""The bugs of two exercises."""

from cutecourse.kernels.faults import Fault, by_name

ARRIVAL = "    mbarrier.arrive.shared::cta.b64 _, [%empty];\n"
BEHIND_S = "    setp.eq.and.u32 %p, %j, 3, %second;\n"

FAULTS = by_name(
    __name__,
    Fault(
        "wrong_turn",
        "a consumer that has multiplied gives the next turn to itself",
        source=(("@!%p bar.arrive %other, 64;", "@!%p bar.arrive %mine, 64;"),),
        reports=("DeadlockError",),
        exercise="16.5",
    ),
    Fault(
        "freed_too_early",
        "a consumer frees the stage after the first product, and the second one still reads V there",
        source=((ARRIVAL, ""), (BEHIND_S, ARRIVAL + BEHIND_S)),
        reports=("SharedMemoryRace",),
        exercise="16.6",
    ),
)
