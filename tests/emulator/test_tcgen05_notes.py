"""Hazards with their severity: what ends a launch, what becomes a note, and what needs neither."""

import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.emulator import HAZARDS
from cutecourse.emulator.errors import SEVERITIES, TensorMemoryHazard
from cutecourse.kernels import umma_one, umma_two_sm_pipeline
from support import tcgen05
from support.tcgen05 import SETUP, done, multiply

AFTER = "tcgen05.fence::after_thread_sync;\n"
BEFORE = "tcgen05.fence::before_thread_sync;\n"
WAIT_LD = "tcgen05.wait::ld.sync.aligned;\n"
WAIT_ST = "tcgen05.wait::st.sync.aligned;\n"
BAR = "bar.sync 0;\n"
LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%d];\n"
ST = "tcgen05.st.sync.aligned.32x32b.x4.b32 [%d], {%r0, %r0, %r0, %r0};\n"
USE = "st.global.b32 [%at], %r6;\n"
# Each warp has loaded part of an accumulator that is complete.
LOADED = SETUP + multiply() + done() + AFTER + LD


def notes(body, seed=0):
    """(hazard, what stands at the line, what at the other line) of each note of a launch, in order."""
    # Products and copies of zeros, of which most are for the order's sake alone.
    off = {"sum never read": "off", "loaded and never read": "off"}
    result = tcgen05.run_zeros(body, seed=seed, hazards=off)
    lines = ["", *tcgen05.zeros_kernel(body).split("\n")]

    def at(line):
        return next(word for word in lines[line].split() if not word.startswith("@"))

    for note in result.notes:
        assert note.hazard.severity == "note"
        assert note.count >= 1
        assert f"PTX line {note.line}" in str(note)
        assert note.text in lines[note.line]
    return [(note.hazard.name, at(note.line)[:11], at(note.other_line)[:11]) for note in result.notes]


def test_launch__that_does_what_the_document_asks_has_no_notes():
    body = LOADED + WAIT_LD + USE + BEFORE + BAR + AFTER + multiply() + done(1)
    assert notes(body) == []


@pytest.mark.parametrize("apart", [10, 6000])
def test_load__is_used_at_any_distance(apart):
    body = LOADED + "add.u32 %x, %x, 1;\n" * apart + USE + BEFORE + BAR + AFTER + multiply() + done(1)
    assert {n[0] for n in notes(body)} == {"load not waited for"}


@pytest.mark.parametrize("access", [LD + WAIT_LD, ST + WAIT_ST], ids=["ld", "st"])
def test_fence__after_a_wait_is_missed(access):
    (found,) = notes(SETUP + multiply() + done() + access)
    assert found == ("no fence after", access[:11], "tcgen05.mma")
    assert notes(SETUP + multiply() + done() + AFTER + access) == []


def test_fence__before_the_wait_does_not_count():
    assert [n[0] for n in notes(SETUP + multiply() + AFTER + done() + LD + WAIT_LD)] == ["no fence after"]


def test_fence__of_a_copy_is_missed_too():
    copy = "@%first tcgen05.cp.cta_group::1.128x128b [%tmem], %a;\n"
    assert notes(SETUP + copy + done() + LD + WAIT_LD) == [("no fence after", "tcgen05.ld.", "tcgen05.cp.")]
    assert notes(SETUP + copy + done() + AFTER + LD + WAIT_LD) == []


def test_fence__of_one_half_of_the_lanes_is_no_matter_to_the_other():
    """M = 64 takes 16 lanes of each warp: what comes later in the other 16 asks for no fence."""
    low = "tcgen05.ld.sync.aligned.16x64b.x4.b32 {%r4, %r5, %r6, %r7}, [%d];\n"
    upper = multiply(m=64).replace("add.u32 %z, %tmem, 0", f"add.u32 %z, %tmem, {16 << 16}")
    body = SETUP + multiply(m=64) + done() + AFTER + BAR + upper + done(0, "bar+8") + low + WAIT_LD
    assert notes(body) == []
    high = f"add.u32 %d, %d, {16 << 16};\n" + low
    assert [n[0] for n in notes(body.replace(low, high))] == ["no fence after"]


@pytest.mark.parametrize(
    ("fences", "wanted"),
    [
        ((BEFORE, AFTER), set()),
        (("", AFTER), {"no fence before"}),
        ((BEFORE, ""), {"no fence after"}),
        (("", ""), {"no fence before", "no fence after"}),
    ],
    ids=["both", "no-before", "no-after", "none"],
)
@pytest.mark.parametrize("reused", ["loaded", "stored"])
def test_fences__stand_on_both_sides_of_a_barrier(fences, wanted, reused):
    """The document's pattern for other threads: access, wait, before, barrier, after, mma."""
    before, after = fences
    start = LOADED + WAIT_LD + USE if reused == "loaded" else SETUP + ST + WAIT_ST
    body = start + before + BAR + after + multiply() + done(1 if reused == "loaded" else 0)
    found = notes(body)
    other = "tcgen05.ld." if reused == "loaded" else "tcgen05.st."
    assert set(found) == {(name, "tcgen05.mma", other) for name in wanted}


# --- loads that nobody has waited for -----------------------------------------------------------------------


def test_load__that_is_used_and_not_waited_for_is_a_note():
    assert notes(LOADED + USE) == [("load not waited for", "tcgen05.dea", "tcgen05.ld.")]


@pytest.mark.parametrize("used", ["add.u32 %r9, %r9, %r4;\n", "@%first st.shared.b32 [box], %r7;\n"])
def test_load__is_used_by_any_instruction_that_reads_a_register(used):
    assert [n[0] for n in notes(LOADED + used)] == ["load not waited for"]


@pytest.mark.parametrize(
    "behind",
    ["", "mov.b32 %r9, %r6;\n", "add.u32 %r4, %r0, %r0;\n", BAR + USE, "mov.b32 %r9, %r6;\n" + BAR + USE],
    ids=["nothing", "copied", "overwritten", "too-late", "copied-too-late"],
)
def test_load__that_is_not_used_in_time_is_an_error(behind):
    with pytest.raises(TensorMemoryHazard, match=r"loaded at line \d+ with no tcgen05\.wait::ld since, and"):
        notes(LOADED + behind)


def test_load__used_through_a_copy_or_behind_a_branch_is_a_note():
    copied = "mov.b32 %r9, %r6;\nmov.b64 %b, {%r9, %r9};\nst.global.b64 [%at], %b;\n"
    behind = "setp.gt.u32 %q, %me, 200;\n@%q bra BEHIND;\n" + USE + "BEHIND:\n"
    jumped = "bra.uni THERE;\nHERE:\n" + BAR + "bra.uni END;\nTHERE:\n" + USE + "bra.uni HERE;\nEND:\n"
    for body in (copied, behind, jumped):
        assert [n[0] for n in notes(LOADED + body)] == ["load not waited for"]


@pytest.mark.parametrize(
    "write",
    [multiply() + done(1), "@%first tcgen05.cp.cta_group::1.128x128b [%tmem], %a;\n" + done(1)],
    ids=["mma", "cp"],
)
def test_load__and_an_accumulator_that_is_written_again(write):
    """The anti-dependency: used before the barrier it is a note, used behind it an error."""
    name = next(word[:11] for word in write.split() if word.startswith("tcgen05."))
    assert ("load not waited for", name, "tcgen05.ld.") in notes(LOADED + USE + BAR + write)
    with pytest.raises(TensorMemoryHazard, match="without using what it loaded"):
        notes(LOADED + BAR + write + USE)


def test_load__and_a_store_of_the_same_warp():
    assert [n[0] for n in notes(LOADED + USE + ST + WAIT_ST + WAIT_LD)] == ["load not waited for"]
    with pytest.raises(TensorMemoryHazard, match="without using what it loaded"):
        notes(LOADED + ST + WAIT_ST + WAIT_LD + USE)
    assert notes(LOADED + WAIT_LD + ST + WAIT_ST + USE) == []


def test_load__of_other_columns_is_no_matter():
    body = LOADED + USE + BAR + multiply(column=16) + done(1) + AFTER + WAIT_LD
    assert notes(body) == []


def test_load__whose_warp_has_not_come_to_its_wait_is_an_error():
    """Nobody tells the issuing thread that the others have loaded: some orders show it."""
    slow = "mov.b32 %x, 0;\nLOOP:\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %p, %x, 300;\n@%p bra LOOP;\n"
    found = set()
    for seed in range(12):
        try:
            notes(LOADED + USE + slow + WAIT_LD + multiply() + done(0, "bar+8"), seed=seed)
        except TensorMemoryHazard as error:
            found.add("wait" if "not reached its tcgen05.wait::ld" in str(error) else "write")
    assert "wait" in found


# --- the order of two tcgen05.mma ---------------------------------------------------------------------------


def test_mma__of_one_accumulator_are_in_order():
    assert notes(SETUP + multiply() + multiply() + done() + AFTER + LD + WAIT_LD) == []
    assert notes(SETUP + multiply() + multiply(column=8) + done() + AFTER + LD + WAIT_LD) == []


@pytest.mark.parametrize("second", [multiply(n=16), multiply(column=4), multiply(column=32, a="[%tmem]")])
def test_mma__that_meet_otherwise_have_no_promised_order(second):
    """Another shape, another accumulator that overlaps, A where the first writes D: a wait orders."""
    seen = set()
    for seed in range(8):  # in some orders the first one is complete before the second is issued
        seen |= set(notes(SETUP + multiply() + second + done() + AFTER + LD + WAIT_LD, seed=seed))
    assert seen == {("order not promised", "tcgen05.mma", "tcgen05.mma")}
    between = done() + AFTER
    assert notes(SETUP + multiply() + between + second + done(1) + AFTER + LD + WAIT_LD) == []


COPY = "@%first tcgen05.cp.cta_group::1.128x128b [%tmem], %a;\n"


@pytest.mark.parametrize(
    "first", [COPY, multiply(), multiply(column=32, a="[%tmem]")], ids=["copied", "written", "read"]
)
def test_cp__that_overwrites_what_is_under_way_has_no_promised_order(first):
    filled = ST + "add.u32 %x, %d, 4;\n" + ST.replace("%d", "%x") + WAIT_ST + BEFORE + BAR + AFTER
    seen = set()
    for seed in range(8):
        seen |= set(notes(SETUP + filled + first + COPY + done() + AFTER + LD + WAIT_LD, seed=seed))
    name = next(word[:11] for word in first.split() if word.startswith("tcgen05."))
    assert seen == {("order not promised", "tcgen05.cp.", name)}
    between = done() + AFTER
    body = SETUP + filled + first + between + COPY + done(1) + AFTER + LD + WAIT_LD
    assert notes(body) == []


# --- the table ----------------------------------------------------------------------------------------------


def test_hazards__each_has_its_severity_and_every_error_its_class():
    for name, hazard in HAZARDS.items():
        assert name == hazard.name
        assert hazard.severity in SEVERITIES[:3]
        assert hazard.what
        assert hazard.why
        if hazard.severity == "error" or hazard.error:
            assert issubclass(getattr(emulator.errors, hazard.error), emulator.EmulatorError)


@pytest.mark.compilers
@pytest.mark.parametrize("kernel", [umma_one, umma_two_sm_pipeline], ids=lambda k: k.__name__.split(".")[-1])
def test_notes__of_a_kernel_as_the_dsl_has_it(kernel):
    """It runs clean; of what the document asks for only the fence behind the last wait is not there."""
    a, b, c = kernel.LAUNCH.params
    given = {p.name: np.zeros(p.shape, np.float16) for p in (a, b)} | {c.name: np.zeros(c.shape, np.float32)}
    result = runtime.run(kernel, device="emulator", **given)
    assert [note.hazard.name for note in result.notes] == ["no fence after"]
    assert result.notes[0].text.startswith("tcgen05.ld")
