"""The rules that break kernels on purpose: the places they find, and that each changes one of them."""

import pytest

from benchmarks.mutants import Family, Ran, spread, table, verdict
from benchmarks.mutation_rules import RULES, definitions, mutants_of
from cutecourse.kernels import tma_broken
from cutecourse.ptx.parser import parse

TEXT = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry kernel()
{
    .reg .pred %p<3>;
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
    tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %rs1;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 256;
    ret;
}
"""
FLIPPED = (
    "{ .reg .b32 mutant; xor.b32 mutant, 0, 1;"
    " mbarrier.try_wait.parity.shared.b64 %p1, [%r1], mutant, 10000000; }"
)
FEWER = (
    "{ .reg .b32 mutant; sub.u32 mutant, %r4, 16;"
    " @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1+8], mutant; }"
)
MUTANTS = list(mutants_of(TEXT, RULES))


def of(rule):
    return [mutant for mutant in MUTANTS if mutant.rule.name == rule]


@pytest.mark.parametrize(
    ("rule", "lines", "after"),
    [
        ("wait dropped", [14, 15], "setp.eq.u32 %p1, 0, 0;"),
        (
            "parity flipped",
            [14, 15],
            FLIPPED,
        ),
        ("arrive dropped", [18], ""),
        ("expect_tx dropped", [16], "@%p1 mbarrier.arrive.shared.b64 _, [%r1+8];"),
        (
            "bytes - 16",
            [16],
            FEWER,
        ),
        ("cluster barrier dropped", [12], ""),
        ("commit dropped", [21], ""),
        ("dealloc dropped", [22], ""),
        ("init dropped", [10], ""),
    ],
)
def test_rule__finds_its_places_and_changes_the_statement(rule, lines, after):
    assert [mutant.line for mutant in of(rule)] == lines
    assert of(rule)[0].after == after


def test_mutants__differ_in_one_statement_move_no_line_and_parse():
    assert len({mutant.rule.name for mutant in MUTANTS}) >= 30
    for mutant in MUTANTS:
        right, wrong = TEXT.split("\n"), mutant.text.split("\n")
        assert len(right) == len(wrong)
        changed = [
            number for number, (one, other) in enumerate(zip(right, wrong, strict=True), 1) if one != other
        ]
        assert mutant.line == changed[0]
        assert len(changed) <= 2, mutant  # a pair, or a statement of two lines
        parse(mutant.text)


def test_exclusions__are_by_rule():
    reasons = {(mutant.rule.name, mutant.line): mutant.excluded for mutant in MUTANTS if mutant.excluded}
    assert reasons == {
        ("parity stuck", 14): "the parity is 0",
        ("init fence dropped", 11): "a barrier right behind it releases what was written before",
        ("accumulate always", 20): "the predicate is this constant",
    }
    assert definitions(TEXT + "setp.eq.u32 %p2, 0, 0;", "%p2") == {"-1", "other"}


def test_last_wait_for_writes__is_none_before_the_kernels_end():
    waits = [
        mutant for mutant in mutants_of(tma_broken.PTX, RULES) if mutant.rule.name == "bulk wait dropped"
    ]
    assert [mutant.excluded is None for mutant in waits] == [True, False]


def ran(error=None, notes=(), correct=True):
    return Ran(error, "", frozenset(notes), correct, 1)


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        ([ran(), ran("DeadlockError", correct=False)], "right"),
        ([ran(), ran("AddressError", correct=False)], "other"),
        ([ran(notes=["new"])], "right"),
        ([ran(notes=["usual"])], "missed"),
        ([ran(), ran(correct=False)], "wrong"),
        ([ran(), ran()], "missed"),
    ],
)
def test_verdict__is_of_all_seeds_and_of_new_notes_only(runs, outcome):
    right = frozenset({"DeadlockError", "note: new"})
    assert verdict(runs, right, frozenset({"usual"}))[0] == outcome


def test_limit__takes_every_rule_before_a_second_place():
    family = Family("kernel", tma_broken.LAUNCH, {}, {})
    names = {mutant.rule.name for mutant in MUTANTS}
    first = spread([(family, mutant) for mutant in MUTANTS], len(names))
    assert {mutant.rule.name for _, mutant in first} == names


def test_table__counts_by_rule_and_in_all():
    rows = [{"rule": "one", "outcome": "right"}, {"rule": "one", "outcome": "missed"}]
    assert [line.split()[1:] for line in table(rows).splitlines()[1:]] == [["2", "1", "0", "0", "1"]] * 2
