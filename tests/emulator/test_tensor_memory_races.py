"""Tensor memory that is used again before its last use is over: reported under every seed, or silent."""

import dataclasses
import re
from functools import partial

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    TensorMemoryFreed,
    TensorMemoryLoadUnderWay,
    TensorMemoryReadUnderWay,
    TensorMemoryWriteUnderWay,
    UninitializedRead,
)
from cutecourse.kernels import twin, umma_two_sm, umma_two_sm_pipeline
from cutecourse.runtime import run
from support import tcgen05
from support.order_events import judge
from tools.cases.element_arrays import array_type

SEEDS = range(20)
TILES = 4
FULL, EMPTY = "box+8192", "box+8208"
"""Two mbarriers each: an accumulator is complete; it has been read."""
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;\n", "tcgen05.fence::after_thread_sync;\n"
WAIT_LD = "tcgen05.wait::ld.sync.aligned;\n"
WAIT_ST = "tcgen05.wait::st.sync.aligned;\n"


def at(barrier, which):
    return f"[{barrier}+{8 * which}]"


def waited(where, parity, label):
    return (
        f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %q, {where}, {parity};\n@!%q bra {label};\n"
        + AFTER
    )


def load(which):
    return (
        f"add.u32 %x, %d, {32 * which};\n"
        "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%x];\n"
    )


def arrive(which):
    return f"mbarrier.arrive.shared::cta.b64 _, {at(EMPTY, which)};\n"


def persistent(epilogue="{load}{wait}{before}{arrive}", waits_for_empty=True, waits_for_full=True, swap=0):
    """Warp 0 multiplies four tiles into two accumulators; warps 4 to 7 read each of them."""
    body = "".join(
        f"@%first mbarrier.init.shared::cta.b64 {at(barrier, which)}, {count};\n"
        for barrier, count in ((FULL, 1), (EMPTY, 128))
        for which in (0, 1)
    )
    body += tcgen05.SETUP + "setp.ge.u32 %p, %warp, 4;\n@%p bra EPILOGUE;\n@!%first bra END;\n"
    for tile in range(TILES):
        which = tile % 2
        if waits_for_empty and tile >= 2:
            body += waited(at(EMPTY, which), tile // 2 - 1, f"E{tile}")
        body += tcgen05.multiply(column=32 * which)
        body += f"@%first {tcgen05.COMMIT.replace('[bar]', at(FULL, which))}"
    body += "bra END;\nEPILOGUE:\n"
    for tile in range(TILES):
        which = tile % 2
        if waits_for_full:
            body += waited(at(FULL, which), tile // 2, f"F{tile}")
        parts = {"load": load(which ^ swap), "wait": WAIT_LD, "before": BEFORE, "arrive": arrive(which)}
        body += epilogue.format(**parts)
    return body + "END:\n"


def outcome(body, seed, text=None, hazards=None, block=256):
    out, given = np.zeros((256, 8), np.uint32), np.zeros(16, np.uint8)
    text = tcgen05.kernel(body, smem=8448) if text is None else text
    args = [out, given, out.nbytes, 16]
    return launch(text, grid=1, block=block, args=args, seed=seed, hazards=hazards).notes


@pytest.mark.parametrize("seed", SEEDS)
def test_two_accumulators__that_wait_for_each_other_are_silent(seed):
    outcome(persistent(), seed)


BOTH = (TensorMemoryLoadUnderWay, TensorMemoryWriteUnderWay)
"""The MMA of the next tile may come before or after the load, and either may see the other."""
BROKEN = [
    ({"waits_for_empty": False}, BOTH),
    ({"epilogue": "{arrive}{load}{wait}{before}"}, BOTH),
    ({"epilogue": "{load}{before}{arrive}{wait}"}, BOTH),
    ({"waits_for_full": False}, (TensorMemoryWriteUnderWay, UninitializedRead)),
    ({"swap": 1}, BOTH),
]


@pytest.mark.parametrize(("broken", "kinds"), BROKEN)
def test_two_accumulators__a_missing_order_is_reported_under_every_seed(broken, kinds):
    for seed in SEEDS:
        with pytest.raises(kinds) as error:
            outcome(persistent(**broken), seed)
        assert error.value.line is not None
        assert re.search(r"Wait for the mbarrier|tcgen05.wait::ld|a wait for its commit", str(error.value))


UNORDERED = {"load under way", "read before written", "written before read"}


@pytest.mark.parametrize("broken", [{}, *(broken for broken, _ in BROKEN)])
def test_two_accumulators__the_order_model_agrees(broken):
    """The launch goes on after each report, so that both see all of it. The model knows no dealloc."""
    text = tcgen05.kernel(persistent(**broken), smem=8448)
    free = next(at for at, line in enumerate(text.splitlines(), start=1) if "tcgen05.dealloc" in line)
    hazards = dict.fromkeys((*UNORDERED, "never written"), "note")
    for seed in range(3):
        judged = judge(lambda seed=seed: outcome("", seed, text, hazards))
        notes = judged.notes if judged.error is None else judged.error.notes
        said = {frozenset((n.line, n.other_line)) for n in notes if n.hazard.name in UNORDERED}
        model = judged.of_model(tensor=True)
        # The check keeps the last use of each warp, the model all of them.
        assert {lines for lines in said if free not in lines} <= model
        assert bool(said) == bool(model) == bool(broken)


STORE = (
    "add.u32 %z, %d, 64;\n"
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [%z], {%r0, %r0, %r0, %r0, %r0, %r0, %r0, %r0};\n" + WAIT_ST
)
MULTIPLY = "add.u32 %y, %tmem, 64;\n" + tcgen05.multiply(a="[%y]")
DONE = tcgen05.done() + AFTER
EITHER = (TensorMemoryReadUnderWay, TensorMemoryWriteUnderWay, UninitializedRead)
"""The seed decides which comes first, and so what the report calls it."""


@pytest.mark.parametrize(
    ("sync", "then", "kinds"),
    [
        ("bar.sync 0;\n", DONE, ()),
        ("", DONE, EITHER),
        ("bar.sync 0;\n", STORE + DONE, EITHER),
        ("bar.sync 0;\n", DONE + STORE, ()),
    ],
)
def test_a_in_tensor_memory__its_stores_and_its_mma_are_ordered(sync, then, kinds):
    body = tcgen05.SETUP + STORE + BEFORE + sync + AFTER + MULTIPLY + then
    given, out = np.zeros(16, np.uint8), np.zeros((128, 8), np.uint32)
    for seed in SEEDS:
        launching = partial(
            launch, tcgen05.kernel(body, smem=4096), grid=1, block=128, args=[out, given, out.nbytes, 16]
        )
        if kinds:
            with pytest.raises(kinds):
                launching(seed=seed)
        else:
            launching(seed=seed)


def test_two_issuers__the_last_operation_of_each_counts():
    """Threads 0, 1 and 0 again multiply into one accumulator; only thread 1 tells that its own is over."""
    other = tcgen05.multiply().replace("@%first", "@%p")
    body = tcgen05.SETUP + "setp.eq.u32 %p, %me, 1;\nmov.b32 %y, 0;\nAGAIN:\n" + tcgen05.multiply() + other
    body += "setp.ne.u32 %p, %y, %y;\nadd.u32 %y, %y, 1;\nsetp.lt.u32 %q, %y, 2;\n@%q bra AGAIN;\n"
    body += "setp.eq.u32 %first, %me, 1;\n" + DONE + load(0) + WAIT_LD
    given, out = np.zeros(16, np.uint8), np.zeros((128, 8), np.uint32)
    for seed in SEEDS:
        with pytest.raises(TensorMemoryWriteUnderWay):
            launch(
                tcgen05.kernel(body, smem=4096),
                grid=1,
                block=128,
                args=[out, given, out.nbytes, 16],
                seed=seed,
            )


@pytest.mark.parametrize("module", [umma_two_sm, umma_two_sm_pipeline])
def test_pair__columns_freed_while_the_peer_reads_are_reported_under_every_seed(module):
    spec = twin(module.LAUNCH)
    before, last = spec.ptx.rsplit("barrier.cluster.arrive", 1)
    rest = last.split(";", 2)[2]  # behind the arrive and its wait
    broken = dataclasses.replace(spec, ptx=before + "bar.sync 0;" + rest)
    assert "barrier.cluster.wait" not in rest
    a, b, c = (np.zeros(tensor.extents, array_type(tensor.dtype)) for tensor in spec.arguments.values())
    for seed in range(6):
        with pytest.raises(TensorMemoryFreed, match="both CTAs of the pair"):
            run(broken, a=a, b=b, c=c, device="emulator", seed=seed)


REGISTERS = ", ".join(f"%r{number}" for number in range(1, 9))
LOADS_AGAIN = f"""
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%d], {{{", ".join(["%r0"] * 32)}}};
    {WAIT_ST}
    {BEFORE}
    bar.sync 0;
    {AFTER}
    setp.eq.u32 %q, %warp, 1;
    @%q bra WARP1;
    setp.ne.u32 %q, %warp, 0;
    @%q bra END;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{REGISTERS}}}, [%d];
    add.u32 %r9, %r1, %r2;
    {BEFORE}
    @%first mbarrier.arrive.shared::cta.b64 _, [bar];
    mov.b32 %x, 0;
LOOP:
    add.u32 %x, %x, 8;
    and.b32 %y, %x, 31;
    add.u32 %y, %d, %y;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{REGISTERS}}}, [%y];
    setp.lt.u32 %q, %x, 32;
    @%q bra LOOP;
    {WAIT_LD}
    bra END;
WARP1:
    and.b32 %x, %me, 31;
    setp.eq.u32 %first, %x, 0;
    @!%first bra END;
    {waited("[bar]", 0, "TOLD")}
    mov.b32 %y, 0;
LATER:
    add.u32 %y, %y, 1;
    setp.lt.u32 %q, %y, 200;
    @%q bra LATER;
    {tcgen05.multiply()}
    {tcgen05.COMMIT.replace("[bar]", "[bar+8]")}
    {waited("[bar+8]", 0, "MULTIPLIED")}
END:
    bar.warp.sync 0xffffffff;
"""
"""Warp 0 uses what it has loaded and tells warp 1, then loads the same columns in a loop. Warp 1 overwrites
them, mostly after that.
"""


def test_loads__of_a_loop_count_although_an_earlier_instruction_has_loaded_the_columns():
    for seed in SEEDS:
        with pytest.raises(BOTH):
            outcome(tcgen05.SETUP + LOADS_AGAIN, seed, block=128)


def test_columns__that_were_freed_and_allocated_again_know_no_store_of_before():
    """The store lies in two allocations, of which one is freed."""
    body = (
        tcgen05.SETUP
        + f"""
    @%p bra SECOND;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
SECOND:
    bar.sync 0;
    ld.shared.b32 %z, [slot];
    setp.ne.u32 %q, %warp, 1;
    @%q bra STORED;
    tcgen05.st.sync.aligned.32x32b.x64.b32 [%d], {{{", ".join(["%r0"] * 64)}}};
    {WAIT_ST}
STORED:
    bar.sync 0;
    @%p bra AGAIN;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %z, 32;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
AGAIN:
    bar.sync 0;
    {tcgen05.multiply(column=32)}
    {tcgen05.done()}
    bar.sync 0;
    @%p bra GONE;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %z, 32;
GONE:
    bar.sync 0;
"""
    )
    assert not outcome(body, 0, text=tcgen05.kernel(body, smem=8448, columns=32))
