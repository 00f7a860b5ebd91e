"""The rules that break kernels on purpose: the places they find, what they change, and what is none."""

import re

import pytest

from benchmarks.mutants import figures, spread, table
from benchmarks.mutation import sites
from benchmarks.mutation.family import Family
from benchmarks.mutation.rule import Kernel, further, mutants_of
from benchmarks.mutation.rules import REVISIONS, RULES
from benchmarks.mutation.running import Ran, judge, names
from cutecourse import emulator
from cutecourse.emulator import HAZARDS
from cutecourse.kernels import tma_broken
from cutecourse.ptx.parser import parse

TEXT = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry kernel()
{
    .reg .pred %p<4>;
    .reg .b16 %rs<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    mbarrier.init.shared.b64 [%r1], %r2;   // mbarrier.init.shared.b64 [%r1], 7;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0, 10000000;
    mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r3, 10000000;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+8],
        %r4;
    mbarrier.arrive.shared.b64 _, [%r1];
    mov.pred %p2, -1;
    tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd1, %rd2, %r6, {%r7, %r7, %r7, %r7}, %p2;
    elect.sync _|%p3, -1;
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %rs1;
    bar.sync 1, 128;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 256;
    ret;
}
"""
KERNEL = Kernel(TEXT)
MUTANTS = list(mutants_of(KERNEL, RULES))


def of(rule, mutants=MUTANTS):
    return [mutant for mutant in mutants if mutant.rule.name == rule]


@pytest.mark.parametrize(
    ("rule", "lines", "after"),
    [
        ("wait dropped", [14, 15], "setp.eq.u32 %p1, 0, 0;"),
        (
            "parity flipped",
            [14, 15],
            (
                "{ .reg .b32 mutant; xor.b32 mutant, 0, 1;"
                " mbarrier.try_wait.parity.shared.b64 %p1, [%r1], mutant, 10000000; }"
            ),
        ),
        (
            "wait on the barrier beside",
            [14, 15],
            "mbarrier.try_wait.parity.shared.b64 %p1, [%r1+8], 0, 10000000;",
        ),
        ("arrive dropped", [18], ""),
        ("expect_tx dropped", [16], "@%p1 mbarrier.arrive.shared.b64 _, [%r1+8];"),
        (
            "expect_tx behind the arrival",
            [16],
            (
                "@%p1 mbarrier.arrive.shared.b64 _, [%r1+8];"
                " @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1+8], %r4;"
            ),
        ),
        (
            "bytes - 16",
            [16],
            (
                "{ .reg .b32 mutant; sub.u32 mutant, %r4, 16;"
                " @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+8], mutant; }"
            ),
        ),
        ("barrier of the setup dropped", [12], ""),
        ("barrier of the end dropped", [23], ""),
        ("cluster wait of the setup dropped", [13], ""),
        ("named barrier: 32 threads fewer", [23], "bar.sync 1, 96;"),
        ("commit dropped", [22], ""),
        ("all lanes commit", [21], "elect.sync _|%p3, -1; setp.eq.u32 %p3, 0, 0;"),
        ("dealloc dropped", [24], ""),
        ("init dropped", [10], ""),
        (
            "A's descriptor for B",
            [20],
            "tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd1, %rd1, %r6, {%r7, %r7, %r7, %r7}, %p2;",
        ),
    ],
)
def test_rule__finds_its_places_and_changes_the_statement(rule, lines, after):
    assert [mutant.line for mutant in of(rule)] == lines
    assert of(rule)[0].after == after


def test_mutants__differ_move_no_line_and_parse():
    assert len({mutant.rule.name for mutant in MUTANTS}) >= 60
    for mutant in MUTANTS:
        right, wrong = TEXT.split("\n"), mutant.text.split("\n")
        assert len(right) == len(wrong)
        changed = [
            number for number, (one, other) in enumerate(zip(right, wrong, strict=True), 1) if one != other
        ]
        assert mutant.line == changed[0]
        assert len(changed) <= 2, mutant  # a pair, a statement of two lines, or one moved
        parse(mutant.text)


def test_rules__have_names_words_and_reports_that_exist():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.about
        assert rule.why
        assert len(rule.right) <= 12, f"{rule.name}: a set of every class names nothing"
        for report in rule.right:
            assert report in HAZARDS or hasattr(emulator.errors, report), (rule.name, report)
    assert all(len(revision) == 3 and all(revision) for revision in REVISIONS)


def test_exclusions__are_by_rule():
    reasons = {(mutant.rule.name, mutant.line): mutant.excluded for mutant in MUTANTS if mutant.excluded}
    assert reasons == {
        ("parity stuck at 0", 14): "the parity is 0",
        ("init fence dropped", 11): "a barrier right behind it releases what was written before",
        (
            "named barrier: another number",
            23,
        ): "every warp comes to this statement, so that any number does",
        ("accumulate always", 20): "the predicate is this constant",
    }
    assert sites.definitions(TEXT + "setp.eq.u32 %p2, 0, 0;", "%p2") == {"-1", "other"}


def test_last_wait_for_writes__is_none_before_the_kernels_end():
    waits = of("bulk wait dropped", list(mutants_of(Kernel(tma_broken.PTX), RULES)))
    assert [mutant.excluded is None for mutant in waits] == [True, False]


def test_warp_barrier__is_none_before_an_arrival_of_each_lane():
    syncs = of("warp barrier dropped", list(mutants_of(Kernel(tma_broken.PTX), RULES)))
    assert [mutant.excluded is None for mutant in syncs] == [True, False]


@pytest.mark.parametrize(
    ("before", "behind", "role"),
    [
        ("mbarrier.init.shared.b64 [%a], 1;", "st.shared.u32 [%a], %b;", "setup"),
        ("mbarrier.init.shared.b64 [%a], 1; st.shared.u32 [%b], %b;", "ret;", "both"),
        ("st.shared.u32 [%b], %b;", "ld.shared.u32 %c, [%d];", "data"),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%a], {%b};", "tcgen05.mma;", "tmem"),
        ("ld.shared.u32 %c, [%d];", "tcgen05.dealloc;", "end"),
        ("ld.shared.u32 %c, [%d];", "@%p bra AGAIN;", "data"),
    ],
)
def test_role__of_a_barrier_is_what_stands_around_it(before, behind, role):
    text = f"bar.sync 1;\nAGAIN: {before} bar.sync 0; {behind}"
    place = list(re.finditer(sites.BLOCK_BARRIER, text))[1]
    assert sites.role(Kernel(text), place) == role


@pytest.mark.parametrize(
    "loop",
    [
        "L: mbarrier.try_wait.parity.b64 P1, [%r1], 0; @P1 bra.uni DONE; bra.uni L; DONE: }",
        "L: mbarrier.try_wait.parity.b64 %p, [%r1], 0; @!%p bra L;",
        "L: mbarrier.try_wait.parity.b64 %p, [%r1], 0; @%p bra ON; bra GIVE_UP; ON:",
    ],
)
def test_behind_wait__is_where_a_thread_goes_on(loop):
    text = f"{loop} ld.shared.u32 %c, [%d];"
    (wait,) = re.finditer(sites.WAIT, text)
    found = sites.behind_wait(Kernel(text), wait)
    assert text[found:] == " ld.shared.u32 %c, [%d];"


def test_moved_statements__keep_their_registers():
    moved = of("commit before the last MMA")
    assert [mutant.line for mutant in moved] == [20]
    assert moved[0].text.split("\n")[19].strip().startswith("tcgen05.commit")
    defined_between = TEXT.replace("elect.sync _|%p3, -1;", "mov.b16 %rs1, 3;")
    assert not of("commit before the last MMA", list(mutants_of(Kernel(defined_between), RULES)))


def test_maps__of_a_load_change_and_the_driver_decides():
    mutants = [mutant for mutant in mutants_of(tma_broken_kernel(), RULES) if mutant.maps]
    halved = of("map: box halved, inner", mutants)
    assert [mutant.maps["source"].box for mutant in halved] == [(16, 16)]
    assert [mutant.before for mutant in halved] == ["source: box (32, 16), swizzle none"]
    refused = of("map: swizzle of 64 bytes", mutants)
    assert [bool(mutant.excluded) for mutant in refused] == [True]  # a row of 128 bytes is more than the span
    stores = of("map of a store: box halved", mutants)
    assert [mutant.maps["result"].box for mutant in stores] == [(32, 8)]
    assert all(mutant.beyond for mutant in stores)


def tma_broken_kernel():
    return Kernel(tma_broken.PTX, tma_broken.LAUNCH)


def ran(error=None, notes=(), correct=True):
    return Ran(error, "", frozenset((name, 7, None) for name in notes), correct, 1, {})


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        ([ran(), ran("DeadlockError", correct=False)], "right"),
        ([ran("TransactionBytesError", correct=False)], "right"),  # a subclass
        ([ran(), ran("AddressError", correct=False)], "other"),
        ([ran(notes=["loaded and never read"])], "right"),
        ([ran(notes=["another k"])], "other"),
        ([ran(notes=["no fence after"])], "harmless"),
        ([ran(), ran(correct=False)], "wrong"),
        ([ran(), ran()], "harmless"),
    ],
)
def test_verdict__is_of_all_seeds_and_of_new_notes_only(runs, outcome):
    right = frozenset({"DeadlockError", "UnreadLoad"})
    assert judge(runs, right, frozenset({("no fence after", 7, None)})).outcome == outcome


def test_names__of_a_hazard_are_its_class_and_bases():
    assert names("loaded and never read") == {"loaded and never read", "UnreadLoad"}
    assert names("TransactionBytesError") == {"TransactionBytesError", "DeadlockError"}
    assert names("AddressError") == {"AddressError"}


def test_further__adds_to_what_an_address_has():
    assert [further(text, 8) for text in ("%r1", "%r1+16", "full + 0x8", "%r1+-8")] == [
        "%r1+8",
        "%r1+24",
        "full+16",
        "%r1+0",
    ]


def test_limit__takes_every_rule_before_a_second_place():
    family = Family("kernel", "kind", tma_broken.LAUNCH, {}, None)
    wanted = {mutant.rule.name for mutant in MUTANTS}
    first = spread([(family, mutant) for mutant in MUTANTS], len(wanted))
    assert {mutant.rule.name for _, mutant in first} == wanted


def test_table_and_figures__count():
    rows = [
        {"rule": "arrive dropped", "outcome": "right", "reports": ["DeadlockError"], "beyond": None},
        {"rule": "arrive dropped", "outcome": "other", "reports": ["AddressError"], "beyond": None},
        {"rule": "arrive dropped", "outcome": "wrong", "reports": [], "beyond": None},
        {"rule": "arrive dropped", "outcome": "harmless", "reports": [], "beyond": None},
    ]
    counted = [line.split()[-6:] for line in table(rows, "rule").splitlines()[1:]]
    assert counted == [["4", "67%", "1", "1", "1", "1"]] * 2
    found = figures(rows)
    assert (found["caught"], found["right_class"], found["reports_right"]) == (0.6667, 0.3333, 0.5)


def test_roles__of_the_kernels_barriers():
    text = re.sub(r"//[^\n]*", "", tma_broken.PTX)
    roles = [sites.role(tma_broken_kernel(), place) for place in re.finditer(sites.BLOCK_BARRIER, text)]
    assert roles == ["setup"]
