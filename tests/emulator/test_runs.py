"""Runs of moves and of stores: one step does what the instructions do one after the other."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.core.program import BasicBlock
from cutecourse.emulator.errors import AddressError, AlignmentError, ReadOnlyError
from cutecourse.trace import AccessLog

WORDS = 64
"""Words of 32 bits that each thread may write."""


def kernel(body):
    return f"""
.version 9.0
.target sm_100a
.address_size 64
.const .align 8 .b8 fixed[64];
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p, %all;
    .reg .b32 %r<8>, %t;
    .reg .b64 %d<4>, %to, %past, %fixed;
    ld.param.u64 %to, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %past, %t, {4 * WORDS};
    add.u64 %to, %to, %past;
    add.u64 %past, %to, {1 << 14};
    cvta.const.u64 %fixed, fixed;
    setp.lt.u32 %p, %t, 7;
    setp.lt.u32 %all, %t, 32;
    {"".join(f"add.u32 %r{i}, %t, {1000 * (i + 1)};" for i in range(8))}
    {"".join(f"cvt.u64.u32 %d{i}, %r{i}; mul.lo.u64 %d{i}, %d{i}, 0x100010001;" for i in range(4))}
    st.global.b32 [%to], %r0;
    {body}
    ret;
}}
"""


def run(body, **options):
    out = np.zeros((32, WORDS), np.uint32)
    launch(kernel(body), grid=1, block=32, args=[out], **options)
    return out


def random_body(rng):
    """Moves and stores as compilers make them, and as they do not: overlapping, swapped, negative."""
    r, d = (lambda: f"%r{rng.integers(8)}"), (lambda: f"%d{rng.integers(4)}")
    four = lambda: "{{%r{}, %r{}, %r{}, %r{}}}".format(*rng.integers(8, size=4))  # noqa: E731
    forms = (
        lambda: f"mov.b32 {r()}, {r()};",
        lambda: f"mov.b32 {r()}, {rng.integers(100)};",
        lambda: f"mov.b64 {d()}, {d()};",
        lambda: f"mov.b64 {d()}, {{{r()}, {r()}}};",
        lambda: "mov.b64 {{%r{}, %r{}}}, {};".format(*rng.permutation(8)[:2], d()),
        lambda: f"mov.b64 {{_, {r()}}}, {d()};",
        lambda: f"st.global.b32 [%to+{4 * rng.integers(WORDS)}], {r()};",
        lambda: f"st.global.b64 [%to+{8 * rng.integers(WORDS // 2)}], {d()};",
        lambda: f"st.global.v4.b32 [%to+{16 * rng.integers(WORDS // 4)}], {four()};",
        lambda: f"@%p st.global.b32 [%to+{4 * rng.integers(WORDS)}], {r()};",
        lambda: f"@!%p st.global.b32 [%to+{4 * rng.integers(WORDS)}], {r()};",
        lambda: f"@%all st.global.b32 [%to+{4 * rng.integers(WORDS)}], {r()};",
        lambda: f"@%all st.global.v4.b32 [%to+{16 * rng.integers(WORDS // 4)}], {four()};",
        lambda: f"mov.b64 %to, %to; st.global.b32 [%to+{4 * rng.integers(WORDS)}], {r()};",
    )
    favourites = rng.choice(len(forms), size=4)
    return "\n".join(forms[rng.choice(favourites)]() for _ in range(40))


@pytest.mark.parametrize("seed", range(40))
def test_run__does_what_its_instructions_do(seed, monkeypatch):
    body = random_body(np.random.default_rng(seed))
    together = run(body)
    in_some_lanes = run(f"@%p bra SOME; bra.uni DONE;\nSOME:\n{body}\nDONE:")
    monkeypatch.setattr(BasicBlock, "join_runs", lambda self: None)
    body += "\n// decoded anew"
    np.testing.assert_array_equal(together, run(body))
    expected = run(f"@%p bra SOME; bra.uni DONE;\nSOME:\n{body}\nDONE:")
    np.testing.assert_array_equal(in_some_lanes, expected)
    assert not expected[7:, 1:].any()


def steps_less(body, monkeypatch):
    """How many steps fewer the first block has because of its runs."""
    lengths = []
    join = BasicBlock.join_runs

    def counted(self):
        before = len(self.steps)
        join(self)
        lengths.append((before, len(self.steps)))

    monkeypatch.setattr(BasicBlock, "join_runs", counted)
    run(body)
    (before, after), *_ = lengths
    return before - after


def test_run__executes_in_fewer_steps(monkeypatch):
    pairs = "\n".join(
        f"mov.b64 {pair}, %d{i}; st.global.v2.b32 [%to+{8 * i}], {pair};"
        for i, pair in enumerate(["{%r0, %r1}", "{%r2, %r3}", "{%r4, %r5}", "{%r6, %r7}"])
    )
    assert steps_less(pairs, monkeypatch) == 7  # of eight instructions one step is left


@pytest.mark.parametrize(
    ("guards", "fewer"),
    [("@%all @%all @%all @%all", 3), ("@%p @%p @!%p @!%p", 2), ("@%p @%all @%p @%all", 0)],
)
def test_run__joins_stores_under_one_guard(guards, fewer, monkeypatch):
    stores = (f"{guard} st.global.b32 [%to+{4 * i}], %r{i};" for i, guard in enumerate(guards.split(), 1))
    assert steps_less("\n".join(stores), monkeypatch) == fewer


@pytest.mark.parametrize(
    ("stores", "error", "problem"),
    [
        ("[%to], %r1; | [%to+4], %r2; | [%past], %r3; | [%to+8], %r4;", AddressError, "past the end"),
        ("[%to], %r1; | [%to+4], %r2; | [%to+16384], %r3; | [%to+8], %r4;", AddressError, "past the end"),
        ("[%to], %r1; | [%to+4], %r2; | [%to+-8192], %r3; | [%to+8], %r4;", AddressError, "before the start"),
        (
            "[%to], %r1; | [%to+4], %r2; | [%to+6], %r3; | [%to+8], %r4;",
            AlignmentError,
            "not a multiple of 4",
        ),
        ("[%fixed], %r1; | [%fixed+4], %r2;", ReadOnlyError, "read-only"),
    ],
)
def test_run__names_the_store_at_fault_and_keeps_those_before(stores, error, problem):
    out = np.zeros((32, WORDS), np.uint32)
    body = "\n".join(f"st.global.b32 {one.strip()}" for one in stores.split("|"))
    with pytest.raises(error, match=problem) as found:
        launch(kernel(body), grid=1, block=32, args=[out])
    if error is not ReadOnlyError:
        assert stores.split("|")[2].strip() in found.value.text
        lane = np.arange(32)
        np.testing.assert_array_equal(out[:, 0], lane + 2000)
        np.testing.assert_array_equal(out[:, 1], lane + 3000)
        assert not out[:, 2].any()


def test_run__tells_of_each_store():
    log = AccessLog()
    run(
        "st.global.b32 [%to+4], %r1;\nst.global.b32 [%to+8], %r2;\nst.global.b32 [%to+12], %r3;", accesses=log
    )
    assert len(log.accesses) == 4
