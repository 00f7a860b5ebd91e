"""The first line of a deadlock's report: what is missing, who should have brought it, what went elsewhere."""

from __future__ import annotations

import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import DeadlockError

WAIT = "{0}: mbarrier.try_wait.parity.shared::cta.b64 %p, [{1}], {2};\n@!%p bra {0};\n"


def first_line(body: str) -> tuple[str, str]:
    """The first line and the whole report of three warps that run a body and then meet in the cluster."""
    text = f"""
.version 9.0
.target sm_100a
.address_size 64
.visible .entry k()
{{
    .shared .align 8 .b64 full, other;
    .reg .b32 %me, %at, %x;
    .reg .pred %p, %first, %w0, %w1;
    mov.u32 %me, %tid.x;
    setp.eq.u32 %first, %me, 0;
    setp.lt.u32 %w0, %me, 32;
    setp.ge.u32 %w1, %me, 64;
    mov.u32 %x, other;
    add.u32 %at, %x, 0;
    @%first mbarrier.init.shared::cta.b64 [full], 1;
    @%first mbarrier.init.shared::cta.b64 [other], 1;
    bar.sync 0;
{body}
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""
    with pytest.raises(DeadlockError) as caught:
        launch(text, grid=1, block=96)
    assert caught.value.final
    return str(caught.value).split("\n", 1)[0], str(caught.value)


def test_deadlock__begins_with_the_mbarrier_and_with_what_was_committed_elsewhere() -> None:
    line, report = first_line(
        "@%w0 bra END;\n@!%w1 bra OTHER;\n"
        + WAIT.format("A", "full", 0)
        + "bra END;\nOTHER: setp.eq.u32 %p, %me, 32;\n@%p mbarrier.arrive.shared::cta.b64 _, [%at];\nEND:\n"
    )
    assert line.startswith("no warp can go on, because phase 0 of mbarrier full ")
    assert "lacks 1 of 1 arrivals; line 25 arrived at mbarrier other " in line
    assert line.endswith(", for which no warp has waited:")
    rows = report.split("\n")
    assert "mbarrier.try_wait" in rows[1]
    assert "barrier.cluster.wait" in rows[2]
    assert "PTX line 21, " in rows[-2]


def test_deadlock__names_the_warp_that_arrived_before_and_has_ended_or_waits() -> None:
    arrive = "mbarrier.arrive.shared::cta.b64 _, [full];\n"
    line, _ = first_line(
        f"@%first {arrive}@!%w1 bra END;\n"
        + WAIT.format("A", "full", 0)
        + WAIT.format("B", "full", 1)
        + "END:\n"
    )
    assert "phase 1 of mbarrier full" in line
    assert "at which warp 0 arrived at line 19 for phase 0, which waits at line " in line


def test_deadlock__names_the_line_that_never_ran_and_not_those_of_other_mbarriers() -> None:
    line, report = first_line(
        "@%w0 bra END;\n@!%w1 bra END;\n"
        + WAIT.format("A", "full", 0)
        + "bra END;\nmbarrier.arrive.shared::cta.b64 _, [%at];\nmbarrier.arrive.shared::cta.b64 _, [full];\n"
        + "END:\n"
    )
    assert line.endswith("lacks 1 of 1 arrivals; line 25 was never executed:")
    assert "never executed: line 25 (mbarrier.arrive.shared::cta)" in report
    assert "line 24" not in report
