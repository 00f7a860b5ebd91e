"""Mistakes with tiles that a pair asks for: who is told of an answer, who has read it, which is the last."""

from cutecourse.kernels.faults import Fault, by_name

_EXPECT = """\
                            for cta in cutlass.range_constexpr(sms):
                                cute.arch.mbarrier_arrive_and_expect_tx(next_full, 16, cta)
"""
_EXPECT_IN_TWIN = "    setp.lt.u32         %more, %index, ${given_0};\n    @%more bra          EXPECT;\n"
_IF_GRANTED = """\
        if nvvm.clusterlaunchcontrol_query_cancel("is_canceled", answer[0]):  # only then it holds a number
"""
_UNTIL_READ = """\
UNTIL_READ:
    mbarrier.try_wait.parity.shared::cta.b64 %done, [%barriers + 40], %before;
    @!%done bra         UNTIL_READ;
"""


_FIRST_BUFFER = """\
    mad.lo.u32          %buffer, %warp, 8192, %base;
    add.u32             %buffer, %buffer, ${given_3} * (16384 + ${given_2} * 128 / ${given_0});
"""
_PIECES = "    mov.u32             %chunk, 0;\n"

BUFFERS_FROM_THE_FIRST = Fault(
    "buffers_from_the_first",
    "each tile begins with the first buffer, whichever the last tile has ended with",
    source=(("(done * pieces + i) % BUFFERS", "i % BUFFERS"),),
    twin=((_PIECES, _FIRST_BUFFER + _PIECES),),
    unreported="right where a tile has an even number of pieces; with three, OverwrittenSource reports it",
)


def _followed(role: int) -> str:
    """A role's lines of the twin, from its wait for an answer to the number of its tile."""
    return f"""\
    @!%done bra         UNTIL_ANSWER_{role};
    ld.shared.b128      %answer, [%to_answer];
    mov.u32             %number, %count;
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %granted, %answer;
    @%granted clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %number, %answer;
    @%granted div.s32   %number, %number, ${{given_0}};
"""


FAULTS = by_name(
    __name__,
    Fault(
        "leader_alone_expects",
        "the answer comes to both CTAs, but only the leader's barrier expects its bytes",
        source=((_EXPECT, _EXPECT.replace("range_constexpr(sms)", "range_constexpr(1)")),),
        twin=((_EXPECT_IN_TWIN, _EXPECT_IN_TWIN.replace("${given_0}", "1")),),
        reports=("TransactionBytesError", "DeadlockError"),
    ),
    Fault(
        "asked_before_all_have_read",
        "the next answer may replace one that a warp has not read",
        source=(("                        cute.arch.mbarrier_wait(next_empty, done % 2 ^ 1)\n", ""),),
        twin=((_UNTIL_READ, ""),),
        reports=("StageReusedEarly", "ReadBeforeWait", "BarrierCountError", "DeadlockError"),
    ),
    Fault(
        "readers_of_the_leader_counted",
        "`next_empty` counts the leader's six warps, but eleven arrive",
        source=(("(next_empty, (STORING_WARPS + 1) * sms + 1)", "(next_empty, STORING_WARPS + 2)"),),
        twin=(("[%barriers + 40], 5 * ${given_0} + 1;", "[%barriers + 40], 6;"),),
        reports=("StageReusedEarly", "ReadBeforeWait", "BarrierCountError", "DeadlockError"),
    ),
    Fault(
        "never_refused",
        "a warp that follows the tiles takes a refusal for a tile",
        source=((_IF_GRANTED, "        if cutlass.const_expr(True):\n"),),
        twin=tuple((_followed(role), _followed(role).replace("@%granted ", "")) for role in range(3)),
        reports=("InvalidOperand", "DeadlockError"),
    ),
)
