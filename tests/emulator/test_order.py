"""The order of operations: the reference model by the PTX ISA's patterns, and the race check by the model.

The model (support.order_model) is written from the ISA's memory model. The race check is fast and
incremental. Both judge the same executions: random programs, the small kernels of the hazards, and the
kernels of the mutation suite.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.mutation.families import families
from benchmarks.mutation.rule import mutants_of
from benchmarks.mutation.rules import RULES
from cutecourse.emulator import launch
from support.hazard_kernels import SCENES
from support.machine import amount
from support.order_events import RACES, judge
from support.order_model import (
    Access,
    Arrive,
    Commit,
    Complete,
    Fence,
    Issue,
    Leave,
    Order,
    ProxyFence,
    TensorFence,
    Thread,
    Wait,
)

# --- the model ----------------------------------------------------------------------------------------------

A, B, FAR = Thread(0, 0, 0), Thread(0, 0, 1), Thread(0, 1, 0)
DATA, FLAG = frozenset({"data"}), frozenset({"flag"})
CELLS = frozenset({("tensor", 0)})


def write(thread=A, cells=DATA, **strength):
    return Access(thread, 1, cells, reads=False, writes=True, **strength)


def read(thread=B, cells=DATA, **strength):
    return Access(thread, 2, cells, reads=True, writes=False, **strength)


def update(thread, **strength):
    return Access(thread, 3, FLAG, reads=True, writes=True, **strength)


def work(kind, thread=A, cells=DATA, *, writes=True, line=1, **about):
    return Issue(
        about.pop("work", line), (thread,), line, kind, cells, reads=not writes, writes=writes, **about
    )


def races(*events):
    return {(first.line, second.line) for first, second in Order(events).races() if first.cells != FLAG}


def flag(sem, other, *, scope="cluster", to=B, fences=(None, None)):
    """A writes the flag and `to` reads it, each with its order, after and before a fence."""
    first, second = fences
    return [
        write(),
        *([Fence(A, first, scope)] if first else []),
        write(cells=FLAG, sem=sem, scope=scope),
        read(to, FLAG, sem=other, scope="cluster"),
        *([Fence(to, second, "cluster")] if second else []),
        read(to),
    ]


@pytest.mark.parametrize(
    "events",
    [
        flag("release", "acquire"),
        flag("relaxed", "relaxed", fences=("release", "acquire")),
        flag("relaxed", "acquire", fences=("acq_rel", None)),
        flag("release", "relaxed", fences=(None, "sc")),
        flag("release", "acquire", to=FAR),
        # Cumulativity: through a third thread, and through an atomic operation of another thread.
        [write(), write(cells=FLAG, sem="release"), update(FAR, sem="relaxed", scope="cluster"),
         read(B, FLAG, sem="acquire"), read()],
        [write(), Fence(A, "sc", "cta"), Fence(B, "sc", "gpu"), read()],
        [write(), Arrive(A, 0), Arrive(B, 0), Complete(0), Leave(B, 0), read()],
        [write(), Arrive(A, 0), Complete(0, keeps=True), Complete(0, keeps=True), Leave(B, 0), read()],
        [write(), Fence(A, "release", "cta"), Arrive(A, 0, "relaxed"), Complete(0), Leave(B, 0), read()],
        [write(), Arrive(A, 0, scope="cluster"), Complete(0), Leave(FAR, 0, scope="cluster"), read(FAR)],
        [write(), Arrive(A, 0), Complete(0), Leave(B, 0, "relaxed"), Fence(B, "acquire", "cta"), read()],
        [write(), read(A)],
        [write(sem="relaxed"), read(sem="relaxed")],
        [update(A, sem="relaxed"), update(B, sem="relaxed")],
    ],
)  # fmt: skip
def test_model__orders_threads(events):
    assert races(*events) == set()


@pytest.mark.parametrize(
    "events",
    [
        [write(), read()],
        flag("relaxed", "acquire"),
        flag("release", "relaxed"),
        flag("weak", "acquire", fences=("release", None)),
        flag("relaxed", "relaxed", fences=("acquire", "release")),
        flag("release", "acquire", scope="cta", to=FAR),
        [write(cells=FLAG, sem="release"), write(), read(B, FLAG, sem="acquire"), read()],
        [Fence(A, "sc", "cta"), write(), Fence(B, "sc", "cta"), read()],
        [write(), Fence(A, "sc", "cta"), Fence(FAR, "sc", "cta"), read(FAR)],
        [write(), Arrive(A, 0), Complete(0), read()],
        [write(), Arrive(A, 0), Complete(0), Complete(0), Leave(B, 0), read()],
        [write(), Arrive(A, 0), Leave(B, 0), Complete(0), read()],
        [write(), Arrive(A, 0, "relaxed"), Complete(0), Leave(B, 0), read()],
        [write(), Arrive(A, 0), Complete(0), Leave(FAR, 0, scope="cluster"), read(FAR)],
        [write(), Arrive(A, 0), Complete(0), Leave(B, 0, "relaxed"), read()],
        [write(sem="relaxed"), read()],
        [write(sem="relaxed"), read(FAR, sem="relaxed")],
    ],
)
def test_model__finds_races_of_threads(events):
    assert {second for _, second in races(*events)} == {2}


COPY_IN, COPY_OUT = work("bulk"), work("bulk", writes=False)
LANDS = [Arrive(1, 0), Complete(0, keeps=True), Leave(B, 0)]
BARRIER = [Arrive(A, 9), Arrive(B, 9), Complete(9), Leave(A, 9), Leave(B, 9)]


def test_model__a_copys_signal_publishes_the_copy_alone():
    other = frozenset({"other"})
    assert races(write(cells=other), COPY_IN, *LANDS, read()) == set()
    assert races(write(cells=other), COPY_IN, *LANDS, read(cells=other)) == {(1, 2)}
    assert races(write(A), COPY_IN, *LANDS, read()) == set()  # what the copy overwrites comes before it
    assert races(COPY_IN, read(A)) == {(1, 2)}
    assert races(COPY_IN, *BARRIER, read()) == {(1, 2)}


def test_model__groups_end_where_their_thread_waits_for_them():
    one, two = work("bulk", writes=False), work("bulk", writes=False, line=4)
    first, second = Commit(A, "bulk"), Commit(A, "bulk")
    assert races(one, first, Wait(A, "bulk", 0), *BARRIER, write(B)) == set()
    assert races(one, first, *BARRIER, Wait(A, "bulk", 0), write(B)) == {(1, 1)}
    assert races(one, first, two, second, Wait(A, "bulk", 1), *BARRIER, write(B)) == {(4, 1)}
    assert races(one, Wait(A, "bulk", 0), *BARRIER, write(B)) == {(1, 1)}
    assert races(one, Wait(A, "bulk"), *BARRIER, write(B)) == set()
    assert races(one, first, Wait(A, "bulk", 0, lane=1), *BARRIER, write(B)) == {(1, 1)}


def test_model__an_mbarrier_tracks_cp_async_and_nothing_else():
    tracked = [Commit(A, "cp.async", "arrival"), Arrive("arrival", 0), Complete(0), Leave(B, 0)]
    assert races(work("cp.async"), *tracked, read()) == set()
    assert races(work("cp.async"), Commit(A, "cp.async"), *tracked, read()) == set()
    assert races(write(), *tracked, read()) == {(1, 2)}
    assert races(work("cp.async"), Commit(A, "cp.async"), Wait(A, "cp.async", 0), *BARRIER, read()) == set()


def test_model__wgmma_ends_for_the_warp_that_has_waited():
    reads = work("wgmma", writes=False)
    assert races(reads, Wait(A, "wgmma", work=1), *BARRIER, write(B)) == set()
    assert races(reads, Wait(B, "wgmma", work=1), write(B)) == set()
    assert races(reads, *BARRIER, write(B)) == {(1, 1)}


def test_model__proxies_need_a_fence_on_the_path():
    def unfenced(*events):
        return {(first.line, second.line) for first, second in Order(events).unfenced()}

    later = work("bulk", B, writes=False, line=4)
    assert unfenced(write(), ProxyFence(A), *BARRIER, later) == set()
    assert unfenced(write(), *BARRIER, ProxyFence(B), later) == set()
    assert unfenced(write(), *BARRIER, later) == {(1, 4)}
    assert unfenced(ProxyFence(A), write(), *BARRIER, later) == {(1, 4)}
    assert unfenced(write(), *BARRIER, ProxyFence(A), later) == {(1, 4)}
    assert unfenced(write(), ProxyFence(A, "tensormap"), *BARRIER, later) == {(1, 4)}
    assert unfenced(COPY_IN, *LANDS, read()) == set()
    described = work("bulk", B, writes=False, line=4, proxy="tensormap")
    assert unfenced(write(), *BARRIER, ProxyFence(B, "tensormap"), described) == set()
    assert unfenced(write(), *BARRIER, ProxyFence(B), described) == {(1, 4)}


MMA, CP = work("tcgen05.mma", cells=CELLS, form=1), work("tcgen05.cp", cells=CELLS)
LD = work("tcgen05.ld", B, CELLS, writes=False, line=2)
COMMIT = [Commit(A, "tcgen05", "commit"), Arrive("commit", 0, scope="cluster"), Complete(0)]
SEEN, AFTER = Leave(B, 0, scope="cluster"), TensorFence(B, before=False)
TOLD = [Arrive(A, 0), Complete(0)]
BEFORE = TensorFence(A, before=True)
NEXT = work("tcgen05.mma", B, CELLS, line=2, form=1)
OWN_LD = work("tcgen05.ld", A, CELLS, writes=False)
CANONICAL = {
    "pipelined, same thread": [CP, work("tcgen05.mma", cells=CELLS, line=2)],
    "one accumulator": [MMA, work("tcgen05.mma", cells=CELLS, line=2, form=1)],
    "not pipelined, same thread": [
        work("tcgen05.st", cells=CELLS),
        Wait(A, "tcgen05.st"),
        work("tcgen05.ld", A, CELLS, writes=False, line=2),
    ],
    "pipelined, different threads": [CP, BEFORE, *TOLD, SEEN, AFTER, NEXT],
    "a load before an mma": [OWN_LD, Wait(A, "tcgen05.ld"), BEFORE, *TOLD, SEEN, AFTER, NEXT],
    "an mma before a load": [MMA, *COMMIT, SEEN, AFTER, LD],
}  # fmt: skip


@pytest.mark.parametrize("events", CANONICAL.values(), ids=CANONICAL)
def test_model__has_the_canonical_patterns_of_tcgen05(events):
    """Canonical synchronization patterns: each step is needed."""
    assert races(*events) == set()
    for left_out, event in enumerate(events):
        if not isinstance(event, Issue | Commit):
            rest = [other for at, other in enumerate(events) if at != left_out]
            assert races(*rest) == {(1, 2)}, event


def test_model__an_mma_in_another_accumulator_is_in_no_pipe():
    assert races(MMA, work("tcgen05.mma", cells=CELLS, line=2, form=2)) == {(1, 2)}
    assert races(MMA, BEFORE, *TOLD, SEEN, AFTER, LD) == {(1, 2)}  # a fence does not wait for the mma


# --- random programs ----------------------------------------------------------------------------------------

WORDS = 8
NOTED = dict.fromkeys(RACES, "note")
IGNORED = dict.fromkeys(
    ("never written", "no proxy fence", "open phase", "unfinished copy", "unfinished load"), "off"
)
WAIT = "{0}:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [{1}], 0;\n@!%p bra {0};"
ARRIVE = "mbarrier.arrive.{}.cluster.shared::cluster.b64 _, [{}];"
CHUNK = 16


@st.composite
def programs(draw):
    """CTAs, the warps of each, and what happens in one order that is possible. Warps count through all CTAs.

    ("ld" | "st", warp, first word, words), ("atom", warp), ("fence", warp), ("sync", warps of one CTA),
    ("arrive", arriving, waiting) for a barrier at which some only arrive, ("cluster",), ("release" |
    "relaxed", arriving, waiting) for an mbarrier, ("copy", issuer, warp that arrives, waiting, first chunk,
    chunks), ("out", issuer, chunk), ("drain", issuer, groups left).
    All words and mbarriers are those of CTA 0. Only its warps wait at mbarriers, and copy.
    """
    ctas = draw(st.sampled_from([1, 1, 2]))
    n_warps = draw(st.integers(2, 4)) if ctas == 1 else 2
    warp = st.integers(0, ctas * n_warps - 1)
    near = st.integers(0, n_warps - 1)
    some = st.sets(warp, min_size=1).map(sorted)
    some_near = st.sets(near, min_size=1).map(sorted)
    of_cta = st.tuples(st.integers(0, ctas - 1), st.sets(near, min_size=2).map(sorted)).map(
        lambda found: [found[0] * n_warps + one for one in found[1]]
    )
    place = st.tuples(st.integers(0, WORDS - 1), st.sampled_from([1, 1, 2])).map(
        lambda at: (at[0] // at[1] * at[1], at[1])
    )
    kind = st.just
    access = st.tuples(st.sampled_from(["ld", "ld", "st"]), warp, place)
    step = st.one_of(
        access,
        access,
        access,
        st.tuples(kind("sync"), of_cta),
        st.tuples(kind("arrive"), some_near, some_near),
        st.tuples(st.sampled_from(["release", "release", "relaxed"]), some, some_near),
        st.tuples(st.sampled_from(["atom", "fence"]), warp),
        st.tuples(kind("cluster")),
        st.tuples(kind("copy"), near, warp, some_near, st.sampled_from([(0, 1), (1, 1), (0, 2)])),
        st.tuples(kind("out"), near, st.sampled_from([0, 1])),
        st.tuples(kind("drain"), near, st.sampled_from([0, 0, 1])),
    )
    steps = draw(st.lists(step, min_size=2, max_size=14))
    return ctas, n_warps, [s for s in steps if s[0] != "arrive" or not set(s[1]) & set(s[2])]


def text_of(ctas, n_warps, steps):
    """The kernel. %q is each warp's first lane, %far the box and the mbarriers are those of CTA 0."""
    declared, made, code = [], [], [[] for _ in range(ctas * n_warps)]
    for number, (kind, *about) in enumerate(steps):
        mbarrier = f"m{number}"
        if kind in {"release", "relaxed", "copy"}:
            declared.append(f".shared .align 8 .b64 {mbarrier};")
            count = 1 if kind == "copy" else len(about[0])
            made.append(f"@%first mbarrier.init.shared::cta.b64 [{mbarrier}], {count};")
        at = f"mov.u32 %z, {mbarrier};\nmapa.shared::cluster.u32 %z, %z, 0;\n@%q "
        if kind in {"ld", "st"}:
            who, (first, count) = about
            values = "{%x, %y}" if count == 2 else "%x"
            where = f"[%far+{4 * first}]"
            name = f"{kind}.shared::cluster{'.v2' if count == 2 else ''}.b32"
            code[who].append(f"{name} {f'{values}, {where}' if kind == 'ld' else f'{where}, {values}'};")
        elif kind == "atom":
            code[about[0]].append(f"atom.shared::cluster.add.u32 %z, [%far+{4 * WORDS}], 1;")
        elif kind == "fence":
            code[about[0]].append("fence.acq_rel.cluster;")
        elif kind == "sync":
            for who in about[0]:
                code[who].append(f"bar.sync {number + 1}, {32 * len(about[0])};")
        elif kind == "arrive":
            for how, warps in zip(("arrive", "sync"), about, strict=True):
                for who in warps:
                    code[who].append(f"bar.{how} {number + 1}, {32 * len([*about[0], *about[1]])};")
        elif kind == "cluster":
            for own in code:
                own.append("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;")
        elif kind in {"release", "relaxed"}:
            for who in about[0]:
                code[who].append(at + ARRIVE.format(kind, "%z"))
            for who in about[1]:
                code[who].append(WAIT.format(f"W{number}_{who}", mbarrier))
        elif kind == "copy":
            issuer, arriving, waiting, (first, count) = about
            size = CHUNK * count
            code[arriving].append(at + ARRIVE.format("expect_tx.release", "%z").replace("];", f"], {size};"))
            code[issuer].append(
                "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                f" [box+{CHUNK * first}], [%in], {size}, [{mbarrier}];"
            )
            for who in waiting:
                code[who].append(WAIT.format(f"W{number}_{who}", mbarrier))
        elif kind == "out":
            out = f"cp.async.bulk.global.shared::cta.bulk_group [%in+64], [box+{CHUNK * about[1]}], {CHUNK};"
            code[about[0]].append(f"@%q {out}\n@%q cp.async.bulk.commit_group;")
        else:
            code[about[0]].append(f"@%q cp.async.bulk.wait_group.read {about[1]};")
    jumps = [f"setp.eq.u32 %p, %warp, {n};\n@%p bra WARP{n};" for n in range(len(code))]
    bodies = [line for n, own in enumerate(code) for line in (f"WARP{n}:", *own, "bra END;")]
    lines = "\n".join
    return f"""
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in)
{{
    .shared .align 16 .b32 box[{WORDS + 4}];
    {lines(declared)}
    .reg .b32 %me, %warp, %rank, %far, %x, %y, %z;
    .reg .b64 %in;
    .reg .pred %p, %q, %first;
    ld.param.u64 %in, [in];
    mov.u32 %me, %tid.x;
    setp.eq.u32 %first, %me, 0;
    and.b32 %x, %me, 31;
    setp.eq.u32 %q, %x, 0;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %far, box;
    mapa.shared::cluster.u32 %far, %far, 0;
    @%first st.shared.b32 [box+{4 * WORDS}], %me;
    {lines(made)}
    shr.u32 %warp, %me, 5;
    mad.lo.u32 %warp, %rank, {n_warps}, %warp;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
{lines([*jumps, *bodies])}
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""


def judged(program, seed):
    ctas, n_warps, _ = program
    text, args = text_of(*program), [np.zeros(256, np.uint8)]
    shape = {"grid": ctas, "cluster": ctas, "block": 32 * n_warps}
    return judge(lambda: launch(text, args=args, seed=seed, hazards={**NOTED, **IGNORED}, **shape).notes)


def check(program, seed):
    found = judged(program, seed)
    assert found.error is None, f"{found.error}\n{text_of(*program)}"
    found.agree()


@settings(max_examples=amount(100, 3000), deadline=None)
@given(programs(), st.integers(0, 1000))
@example((1, 3, [("st", 0, (0, 1)), ("arrive", [2], [0, 1]), ("ld", 1, (0, 1))]), 0)
@example((2, 2, [("copy", 0, 0, [1], (0, 1)), ("atom", 1), ("relaxed", [1], [0]), ("ld", 0, (0, 1))]), 0)
def test_random_programs__race_where_the_model_says_so(program, seed):
    check(program, seed)


# --- kernels ------------------------------------------------------------------------------------------------

TENSOR = {"no fence after", "no fence before", "order not promised"}


@pytest.mark.parametrize("name", sorted(RACES | TENSOR | {"no proxy fence"}))
def test_scenes__of_order_are_found_by_the_model(name):
    found = judge(lambda: SCENES[name].launch(0, {}))
    found.agree()
    assert bool(found.of_model()) == (name in RACES)
    assert bool(found.of_model(tensor=True)) == (name in TENSOR)
    assert bool(found.unfenced()) == (name == "no proxy fence")


@pytest.mark.parametrize("name", sorted(set(SCENES) - RACES - TENSOR - {"no proxy fence"}))
def test_scenes__of_other_hazards_are_in_order(name):
    for order in judge(lambda: SCENES[name].launch(0, {})).orders:
        assert not order.unfenced()
        # Their reports name the mistake before the race that follows from it.
        assert not order.races() or name in {"loaded and never read", "transaction bytes"}


SMALL = (
    "named_barriers", "cp_async_gemm", "cluster_sum", "ring", "tma_load", "tma_store", "tensor_reduce",
    "tma_multicast", "umma_tma", "tmem_operand", "wgmma_gemm", "hopper_roles",
)  # fmt: skip


@pytest.fixture(scope="module")
def kernels():
    return {family.name: family for family in families()}


def run(family, text, maps=None):
    spec = family.spec
    args, _ = family.arguments(maps or {})
    how = {"grid": spec.grid, "block": spec.block, "cluster": spec.cluster, "entry": family.compiled[1]}
    done = launch(
        text, args=args, dynamic_smem=spec.dynamic_smem, max_instructions=300_000, processes=1, **how
    )
    return done.notes


@pytest.mark.compilers
@pytest.mark.parametrize("name", SMALL)
def test_right_kernels__are_in_order(kernels, name):
    found = judge(lambda: run(kernels[name], kernels[name].compiled[0]))
    found.agree()
    assert not found.of_model()
    assert not found.unfenced()
    assert found.orders


@pytest.mark.long
@pytest.mark.compilers
@pytest.mark.parametrize("name", SMALL)
def test_mutants__race_where_the_model_says_so(kernels, name):
    family = kernels[name]
    for mutant in mutants_of(family.kernel, RULES):
        if not mutant.excluded:
            found = judge(lambda mutant=mutant: run(family, mutant.text, mutant.maps))
            try:
                found.agree()
            except AssertionError as problem:
                problem.add_note(f"{mutant.rule.name} in {name}")
                raise
