"""tcgen05.mma and commit: every canonical layout by CuTe's own, placements, and each rule broken."""

import subprocess
from functools import cache

import numpy as np
import pytest

from cutecourse.emulator.errors import (
    AddressError,
    InvalidOperand,
    MissingProxyFence,
    OverwrittenSource,
    TensorMemoryAccessError,
    TensorMemoryHazard,
    TensorMemoryWriteUnderWay,
    UninitializedRead,
)
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.tcgen05_sums import accumulate_in_turn
from cutecourse.emulator.numbers.tensor_core_sums import TENSOR_CORES, fused_float_products
from cutecourse.layout import Layout
from cutecourse.trace import Recorder
from support import tcgen05
from support.tcgen05 import COMMIT, copy_in, descriptor, idesc
from support.tensor_core_model import rounded_once_bound

POISON = 0xCBCBCBCB
K = 16
SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
FENCE = "fence.proxy.async.shared::cta;\nbar.sync 0;\n"


# --- the oracle: CuTe's layouts of the document's table of canonical layouts --------------------------------


def canonical(major, swizzle, extent, k):
    """(layout of (mn, k) in elements of 16 bits, LBO, SBO in bytes): packed tiles, one atom after another."""
    t, wide = 8, SPANS[swizzle] // 16
    if major == "K" and swizzle == "none":
        # Atoms of 8 rows and 16 bytes, first all of K, then the next rows.
        lbo, sbo = t * t, t * t * (k // t)
        layout = Layout(((t, extent // t), (t, k // t)), ((t, sbo), (1, lbo)))
    elif major == "K":
        lbo, sbo = 0, t * t * wide
        layout = Layout(((t, extent // t), (t, k // t)), ((t * wide, sbo), (1, t)))
    elif swizzle == "none":
        sbo, lbo = t * t, t * t * (extent // t)
        layout = Layout(((t, 1, extent // t), (t, k // t)), ((1, t, sbo), (t, lbo)))
    else:
        pieces = -(-extent // (t * wide))
        lbo, sbo = t * t * wide, t * t * wide * pieces
        layout = Layout(((t, wide, pieces), (t, k // t)), ((1, t, lbo), (t * wide, sbo)))
    return layout, 2 * lbo, 2 * sbo


@cache
def packed(major, swizzle, extent, k):
    """The byte of each element before the swizzle, shape (extent, k), with LBO and SBO."""
    layout, lbo, sbo = canonical(major, swizzle, extent, k)
    offsets = [[2 * layout((mn, kk)) for kk in range(k)] for mn in range(extent)]
    return np.array(offsets), lbo, sbo


def swizzle_bytes(address, swizzle):
    """Swizzle<B, 4, 3> of CuTe on byte addresses."""
    bits = {"none": 0, "32B": 1, "64B": 2, "128B": 3}[swizzle]
    return address ^ ((address >> 3) & (((1 << bits) - 1) << 4))


def place(image, start, values, major, swizzle):
    """Write a matrix (mn, k) of 16-bit elements into shared memory's image; gives the descriptor."""
    extent, k = values.shape
    offsets, lbo, sbo = packed(major, swizzle, extent, k)
    image.view(np.uint16)[swizzle_bytes(start + offsets, swizzle) // 2] = values
    return descriptor(start, lbo, sbo, swizzle)


def whole(shape, seed=0):
    """Small whole numbers: every sum is exact in f16 too."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def to_bits(values, kind):
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


# --- kernels ------------------------------------------------------------------------------------------------


def issue(a, b, instruction, *, accumulated=0, kind="f16", mask="", scale="", column=0, lane=0, collector=""):
    a_text = "%a" if isinstance(a, int) else a
    text = f"mov.b64 %b, {b};\nadd.u32 %d, %tmem, {(lane << 16) + column};\nmov.b32 %x, {instruction};\n"
    if isinstance(a, int):
        text += f"mov.b64 %a, {a};\n"
    return text + (
        f"setp.ne.u32 %q, {accumulated}, 0;\n"
        f"@%first tcgen05.mma.cta_group::1.kind::{kind}{collector} [%d], {a_text}, %b, %x{mask}, %q{scale};\n"
    )


def finish(bar="bar", parity=0):
    wait = f"mbarrier.try_wait.parity.shared::cta.b64 %q, [{bar}], {parity};\n"
    return (
        f"@%first {COMMIT.replace('[bar]', f'[{bar}]')}"
        + waited(wait)
        + "tcgen05.fence::after_thread_sync;\n"
    )


_labels = iter(range(10**6))


def waited(wait):
    label = f"AGAIN{next(_labels)}"
    return f"{label}:\n{wait}@!%q bra {label};\n"


def keep(n, width=None):
    """Each thread writes its lane's n columns to %out."""
    width = width or n
    text = f"mul.wide.u32 %at, %me, {4 * width};\nadd.u64 %at, %out, %at;\nadd.u32 %d, %tmem, %lane;\n"
    for first in range(0, n, 8):
        held = ", ".join(f"%r{i}" for i in range(8))
        text += f"add.u32 %x, %d, {first};\ntcgen05.ld.sync.aligned.32x32b.x8.b32 {{{held}}}, [%x];\n"
        text += "".join(f"st.global.b32 [%at+{4 * (first + i)}], %r{i};\n" for i in range(8))
    return text + "tcgen05.wait::ld.sync.aligned;\n"


def multiply(m, n, *, a_layout=("K", "128B"), b_layout=("K", "128B"), ab="f16", d="f32", start=0, **more):
    """One MMA of random whole numbers: (A, B, tensor memory afterwards)."""
    a, b = whole((m, K), 1), whole((n, K), 2)
    image = np.zeros(32768, np.uint8)
    a_desc = place(image, start, to_bits(a, ab), *a_layout)
    b_desc = place(image, 16384 + start, to_bits(b, ab), *b_layout)
    code = idesc(m, n, d=d, ab=ab, a_major=a_layout[0], b_major=b_layout[0])
    body = copy_in(len(image)) + FENCE + issue(a_desc, b_desc, code, **more) + finish() + keep(n)
    out = np.zeros((128, n), np.uint32)
    tcgen05.run(body, image, out, columns=max(32, 1 << (n - 1).bit_length()), smem=len(image))
    return a, b, out


def rows_of(m):
    """The lane of each row of D, by the document's figures of layouts D and F."""
    return np.arange(m) if m == 128 else np.array([32 * (r // 16) + r % 16 for r in range(64)])


LAYOUTS = [(major, swizzle) for major in ("K", "MN") for swizzle in SPANS]


@pytest.mark.parametrize("layout", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("operand", ["A", "B"])
def test_mma__reads_every_canonical_layout(layout, operand):
    a, b, out = multiply(128, 64, **{f"{operand.lower()}_layout": layout})
    np.testing.assert_array_equal(out.view(np.float32), a @ b.T)


@pytest.mark.parametrize("start", [0x200, 0x480])
@pytest.mark.parametrize("layout", [("K", "128B"), ("MN", "128B"), ("K", "64B")], ids="-".join)
def test_mma__swizzles_the_address_not_the_offset(layout, start):
    """The tile starts inside of the pattern that repeats every 1024 bytes, with a base offset of 0."""
    a, b, out = multiply(128, 64, a_layout=layout, start=start)
    np.testing.assert_array_equal(out.view(np.float32), a @ b.T)


def test_mma__a_step_along_k_moves_the_start_by_32_bytes():
    """K = 64 in one 128-byte swizzled tile: four instructions whose descriptors differ by 2."""
    a, b = whole((128, 64), 3), whole((64, 64), 4)
    image = np.zeros(32768, np.uint8)
    a_desc = place(image, 0, to_bits(a, "f16"), "K", "128B")
    b_desc = place(image, 16384, to_bits(b, "f16"), "K", "128B")
    body = copy_in(len(image)) + FENCE
    for step in range(4):
        body += issue(a_desc + 2 * step, b_desc + 2 * step, idesc(128, 64), accumulated=int(step > 0))
    out = np.zeros((128, 64), np.uint32)
    for seed in range(3):
        tcgen05.run(body + finish() + keep(64), image, out, smem=len(image), seed=seed)
        np.testing.assert_array_equal(out.view(np.float32), a @ b.T)


@pytest.mark.parametrize(("m", "n"), [(64, 8), (64, 256), (128, 8), (128, 24), (128, 256)])
def test_mma__places_rows_in_lanes(m, n):
    a, b, out = multiply(m, n, b_layout=("K", "none"))
    lanes = rows_of(m)
    np.testing.assert_array_equal(out[lanes].view(np.float32), a @ b.T)
    others = np.setdiff1d(np.arange(128), lanes)
    assert (out[others] == POISON).all()


def test_mma__of_64_rows_may_take_the_upper_half_of_each_warps_lanes():
    a, b, out = multiply(64, 16, lane=16)
    np.testing.assert_array_equal(out[rows_of(64) + 16].view(np.float32), a @ b.T)


@pytest.mark.parametrize(("ab", "d"), [("f16", "f32"), ("f16", "f16"), ("bf16", "f32")])
def test_mma__types(ab, d):
    a, b, out = multiply(128, 32, ab=ab, d=d)
    got = out.view(np.float32) if d == "f32" else out.astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(got.astype(np.float32), a @ b.T)


def test_mma__tf32_reads_32_bits_and_cuts_them():
    a, b = whole((128, 8), 1) + np.float32(2**-12), whole((16, 8), 2)
    image = np.zeros(32768, np.uint8)
    for start, values in ((0, a), (16384, b)):
        words = image.view(np.float32)
        layout = Layout(((8, len(values) // 8), (4, 2)), ((4, 64), (1, 32)))
        for mn, kk in np.ndindex(values.shape):
            words[start // 4 + layout((mn, kk))] = values[mn, kk]
    body = copy_in(len(image)) + FENCE
    body += issue(
        descriptor(0, 128, 256, "none"),
        descriptor(16384, 128, 256, "none"),
        idesc(128, 16, ab="tf32"),
        kind="tf32",
    )
    out = np.zeros((128, 16), np.uint32)
    tcgen05.run(body + finish() + keep(16), image, out, smem=len(image))
    cut = (a.view(np.uint32) & 0xFFFFE000).view(np.float32)
    np.testing.assert_array_equal(out.view(np.float32), cut @ b.T)


def test_mma__negates_by_the_instruction_descriptor():
    a, b = whole((128, K), 1), whole((16, K), 2)
    image = np.zeros(32768, np.uint8)
    descs = [place(image, at, to_bits(v, "f16"), "K", "none") for at, v in ((0, a), (16384, b))]
    out = np.zeros((128, 16), np.uint32)
    for negate, sign in (((1, 0), -1), ((0, 1), -1), ((1, 1), 1)):
        body = (
            copy_in(len(image)) + FENCE + issue(*descs, idesc(128, 16, negate=negate)) + finish() + keep(16)
        )
        tcgen05.run(body, image, out, smem=len(image))
        np.testing.assert_array_equal(out.view(np.float32), sign * (a @ b.T))


# --- accumulating, masks, A in tensor memory ----------------------------------------------------------------


def prepared(m=128, n=16):
    """(A, B, image, descriptors, kernel text up to the first MMA)."""
    a, b = whole((m, K), 1), whole((n, K), 2)
    image = np.zeros(32768, np.uint8)
    descs = [place(image, at, to_bits(v, "f16"), "K", "128B") for at, v in ((0, a), (16384, b))]
    return a, b, image, descs, copy_in(len(image)) + FENCE


def run(body, image, n=16, **options):
    out = np.zeros((128, n), np.uint32)
    return tcgen05.run(body, image, out, smem=len(image), **options)


@pytest.mark.parametrize("seed", range(4))
def test_mma__accumulates_where_the_predicate_holds(seed):
    a, b, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + issue(*descs, idesc(128, 16), accumulated=1)
    out = run(body + issue(*descs, idesc(128, 16), accumulated=1) + finish() + keep(16), image, seed=seed)
    np.testing.assert_array_equal(out.view(np.float32), 3 * (a @ b.T))


def test_mma__scale_input_d_scales_what_is_there():
    a, b, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + issue(*descs, idesc(128, 16), accumulated=1, scale=", 2")
    out = run(body + finish() + keep(16), image)
    np.testing.assert_array_equal(out.view(np.float32), 1.25 * (a @ b.T))


def test_mma__leaves_disabled_lanes_alone():
    a, b, image, descs, start = prepared()
    masks = (0x0000FFFF, 0, 0x80000001, 0xFFFFFFF0)
    body = (
        start
        + issue(*descs, idesc(128, 16))
        + issue(*descs, idesc(128, 16), accumulated=1)
        .replace("@%first", "".join(f"mov.b32 %r{i}, {m};\n" for i, m in enumerate(masks)) + "@%first")
        .replace(", %x, %q", ", %x, {%r0, %r1, %r2, %r3}, %q")
    )
    out = run(body + finish() + keep(16), image).view(np.float32)
    for lane in range(128):
        kept = masks[lane // 32] >> lane % 32 & 1
        np.testing.assert_array_equal(out[lane], (1 if kept else 2) * (a @ b.T)[lane])


@pytest.mark.parametrize("m", [64, 128])
def test_mma__takes_a_from_tensor_memory(m):
    a, b, image, descs, start = prepared(m)
    a_bits = to_bits(a, "f16").reshape(m, K // 2, 2).astype(np.uint32)
    packed = np.full((128, K // 2), POISON, np.uint32)
    packed[rows_of(m)] = a_bits[..., 0] | a_bits[..., 1] << 16
    both = np.concatenate([image, packed.view(np.uint8).ravel()])
    body = (
        start
        + "mul.wide.u32 %at, %me, 32;\nadd.u64 %at, %in, %at;\n"
        + "add.u32 %d, %tmem, %lane;\nadd.u32 %d, %d, 32;\n"
    )
    body += "".join(f"ld.global.b32 %r{i}, [%at+{len(image) + 4 * i}];\n" for i in range(8))
    body += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%d], {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7};\n"
    body += "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    body += "tcgen05.fence::after_thread_sync;\nadd.u32 %z, %tmem, 32;\n"
    out = np.zeros((128, 16), np.uint32)
    body += issue("[%z]", descs[1], idesc(m, 16)) + finish() + keep(16)
    tcgen05.run(body, both, out, smem=len(image))
    np.testing.assert_array_equal(out[rows_of(m)].view(np.float32), a @ b.T)


COLLECTED = [["fill"], ["discard"], ["fill", "use", "use", "lastuse"], ["fill", "lastuse", "fill", "discard"]]


@pytest.mark.parametrize("uses", COLLECTED, ids="-".join)
def test_mma__with_collector_hints_multiplies_alike(uses):
    a, b, image, descs, start = prepared()
    body = start
    for step, use in enumerate(uses):
        hint = f".collector::a::{use}"
        body += issue(*descs, idesc(128, 16), accumulated=int(step > 0), collector=hint)
    out = run(body + finish() + keep(16), image)
    np.testing.assert_array_equal(out.view(np.float32), len(uses) * (a @ b.T))


@pytest.mark.parametrize(
    "uses", [["use"], ["lastuse"], ["fill", "lastuse", "use"], ["fill", "discard", "use"]], ids="-".join
)
def test_mma__cannot_use_an_a_that_the_collector_does_not_hold(uses):
    _, _, image, descs, start = prepared()
    hints = [f".collector::a::{use}" for use in uses]
    body = start + "".join(issue(*descs, idesc(128, 16), collector=hint) for hint in hints)
    with pytest.raises(InvalidOperand, match=rf"\{hints[-1]}, but the collector buffer does not hold this A"):
        run(body + finish(), image)


def test_mma__cannot_use_another_a_from_the_collector():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16), collector=".collector::a::fill")
    body += issue(descs[0] + 2, descs[1], idesc(128, 16), collector=".collector::a::use")
    with pytest.raises(InvalidOperand, match="does not hold this A"):
        run(body + finish(), image)


# --- completion ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_commit__arrives_behind_all_earlier_operations(seed):
    """Two accumulators, one commit behind both: whoever waits finds both complete."""
    a, b, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + issue(*descs, idesc(128, 16), column=16)
    out = np.zeros((128, 32), np.uint32)
    tcgen05.run(body + finish() + keep(32), image, out, smem=len(image), seed=seed)
    np.testing.assert_array_equal(out.view(np.float32), np.tile(a @ b.T, 2))


def test_commit__of_another_thread_waits_for_nothing():
    """Thread 32 commits what thread 0 has issued: nothing orders the loads after the MMA."""
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + "bar.sync 0;\nsetp.eq.u32 %p, %me, 32;\n@%p " + COMMIT
    body += waited("mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n") + keep(16)
    for seed in range(6):
        recorder = Recorder()
        with pytest.raises(TensorMemoryWriteUnderWay, match=r"which the tcgen05\.mma"):
            run(body, image, seed=seed, recorder=recorder)
        (commit,) = recorder.trace().of("mma.commit").events
        assert commit["issues"] == []


def completions(body, image, seeds=12):
    """The orders in which MMAs complete: the positions of their issues, for each of some seeds."""
    orders = set()
    for seed in range(seeds):
        recorder = Recorder()
        run(body, image, seed=seed, recorder=recorder)
        issued = [event.index for event in recorder.trace().of("mma.issue")]
        orders.add(tuple(issued.index(event["issue"]) for event in recorder.trace().of("mma.complete")))
    return orders


def test_mma__of_two_accumulators_complete_in_either_order():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + issue(*descs, idesc(128, 16), column=16)
    assert completions(body + finish(), image) == {(0, 1), (1, 0)}


def test_mma__of_one_accumulator_complete_in_the_order_of_issue():
    _, _, image, descs, start = prepared()
    body = start + 3 * issue(*descs, idesc(128, 16)) + finish()
    assert completions(body, image) == {(0, 1, 2)}


def test_commit__arrives_once_for_each_that_is_executed():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + "@%first " + COMMIT + finish("bar+8")
    body += waited("mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n")
    # Nobody may still wait for phase 0 when the second commit completes phase 1.
    body += "bar.sync 0;\n@%first " + COMMIT
    run(body + waited("mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 1;\n"), image)
    # Not elected: each lane of a warp arrives.
    recorder = Recorder()
    run("@%p bra L;\n" + COMMIT + "L:\n", image, recorder=recorder)
    assert len(recorder.trace().of("mbarrier.arrive")) == 32


def reports(body, image, kind, seeds=12):
    """What a launch says that is wrong only for some orders of completion."""
    found = []
    for seed in range(seeds):
        try:
            run(body, image, seed=seed)
        except kind as error:
            found.append(str(error))
    assert found
    return found


def test_commit__is_of_its_own_threads_operations():
    """Threads 0 and 1 issue one each; who waits for thread 1's commit knows nothing of the other's."""
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + "setp.eq.u32 %first, %me, 1;\n"
    body += issue(*descs, idesc(128, 16), column=16) + finish() + keep(16)
    for report in reports(body, image, TensorMemoryHazard):
        assert "which the tcgen05.mma" in report


def test_mma__read_without_waiting_is_a_hazard():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + "bar.sync 0;\n" + keep(16)
    for report in reports(body, image, TensorMemoryHazard):
        assert "which the tcgen05.mma" in report
        assert "Wait for the mbarrier of a tcgen05.commit" in report


def test_mma__freed_before_it_is_complete_is_a_hazard():
    _, _, image, descs, start = prepared()
    found = reports(start + issue(*descs, idesc(128, 16)), image, TensorMemoryHazard)
    assert all("tcgen05.dealloc uses" in report for report in found)


def test_mma__operand_written_again_too_early_is_seen():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16)) + "mov.u32 %x, box;\nshl.b32 %y, %me, 4;\n"
    body += "add.u32 %x, %x, %y;\nbar.sync 0;\nst.shared.b32 [%x], 0;\n" + finish() + keep(16)
    for report in reports(body, image, OverwrittenSource):
        assert "which the tcgen05.mma that warp 0 issued" in report


# --- who issues ---------------------------------------------------------------------------------------------


def test_mma__is_executed_once_for_each_lane_that_is_not_elected():
    """A whole warp adds 32 times; the product of a first MMA alone would not show it."""
    a, b, image, descs, start = prepared()
    first = issue(*descs, idesc(128, 16))
    all_lanes = issue(*descs, idesc(128, 16), accumulated=1).replace("@%first tcgen05", "@%p tcgen05")
    body = start + first + "setp.eq.u32 %p, %warp, 0;\n" + all_lanes
    # The last lane's is the last of the accumulator's.
    body += "setp.eq.u32 %first, %me, 31;\n" + finish()
    out = run(body + keep(16), image)
    np.testing.assert_array_equal(out.view(np.float32), 33 * (a @ b.T))


@pytest.mark.parametrize("seed", range(3))
def test_mma__by_whichever_lane_elect_takes(seed):
    """elect.sync takes one lane, here among the upper half of a warp that has come together."""
    a, b, image, descs, start = prepared()
    add = issue(*descs, idesc(128, 16), accumulated=1).replace("@%first tcgen05", "@%p tcgen05")
    elected = "elect.sync _|%p, 0xFFFF0000;\n" + add
    elected += "@%p " + COMMIT + "UPPER:\n"
    body = start + issue(*descs, idesc(128, 16)) + finish("bar+8") + "bar.sync 0;\n"
    body += "mov.pred %p, 0;\nsetp.ne.u32 %q, %warp, 0;\n@%q bra UPPER;\nmov.u32 %x, %laneid;\n"
    body += "setp.lt.u32 %q, %x, 16;\n@%q bra UPPER;\n" + elected
    body += waited("mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n") + keep(16)
    out = run(body, image, seed=seed)
    np.testing.assert_array_equal(out.view(np.float32), 2 * (a @ b.T))


# --- rules --------------------------------------------------------------------------------------------------


def test_mma__needs_a_proxy_fence():
    _, _, image, descs, _ = prepared()
    body = copy_in(len(image)) + "bar.sync 0;\n" + issue(*descs, idesc(128, 16)) + finish() + keep(16)
    with pytest.raises(MissingProxyFence, match=r"A has a byte at shared offset 0x0 .in box"):
        run(body, image)


@pytest.mark.parametrize("seed", range(3))
def test_mma__of_many_blocks_needs_a_proxy_fence_in_each(seed):
    _, _, image, descs, _ = prepared()
    body = copy_in(len(image)) + "setp.ne.u32 %q, %cta, 5;\n@%q " + FENCE
    body += issue(*descs, idesc(128, 16)) + finish() + keep(16)
    out = np.zeros((8, 128, 16), np.uint32)
    with pytest.raises(
        MissingProxyFence, match=r"A has a byte at shared offset 0x0 .in box[\s\S]*\(5, 0, 0\)"
    ):
        tcgen05.run(body, np.stack([image] * 8), out, grid=8, smem=len(image), seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_mma__of_many_blocks_takes_each_blocks_own_matrices(seed):
    """The odd ones have theirs 8 KiB further on, and other numbers than the even ones."""
    pairs = [(whole((128, K), 2 * block), whole((16, K), 2 * block + 1)) for block in range(8)]
    images = np.zeros((8, 32768), np.uint8)
    for block, (image, (a, b)) in enumerate(zip(images, pairs, strict=True)):
        start = 8192 * (block % 2)
        place(image, start, to_bits(a, "f16"), "K", "none")
        place(image, 16384 + start, to_bits(b, "f16"), "K", "none")
    descs = [
        place(np.zeros(32768, np.uint8), at, np.zeros((n, K), np.uint16), "K", "none")
        for at, n in ((0, 128), (16384, 16))
    ]
    text = issue(*descs, idesc(128, 16))
    for name, desc in zip(("%a", "%b"), descs, strict=True):
        moved = (
            f"and.b32 %y, %cta, 1;\nmul.wide.u32 {name}, %y, {8192 >> 4};\nadd.u64 {name}, {name}, {desc};"
        )
        assert f"mov.b64 {name}, {desc};" in text
        text = text.replace(f"mov.b64 {name}, {desc};", moved)
    out = np.zeros((8, 128, 16), np.uint32)
    body = copy_in(32768) + FENCE + text + finish() + keep(16)
    tcgen05.run(body, images, out, grid=8, smem=32768, seed=seed)
    for found, (a, b) in zip(out, pairs, strict=True):
        np.testing.assert_array_equal(found.view(np.float32), a @ b.T)


def test_mma__needs_its_operands():
    _, _, image, descs, _ = prepared()
    body = copy_in(16384) + FENCE + issue(*descs, idesc(128, 16)) + finish() + keep(16)
    with pytest.raises(UninitializedRead, match=r"B has a byte at shared offset 0x4000 .* never written"):
        run(body, image)


def test_mma__of_bytes_never_written_is_not_reported_again_when_it_completes():
    _, _, image, descs, _ = prepared()
    body = copy_in(16384) + FENCE + issue(*descs, idesc(128, 16)) + finish() + keep(16)
    quiet = {"never written": "note"}
    assert run(body, image, hazards=quiet).shape == (128, 16)  # no OverwrittenSource


def test_mma__needs_an_accumulator_to_add_to():
    _, _, image, descs, start = prepared()
    body = start + issue(*descs, idesc(128, 16), accumulated=1) + finish() + keep(16)
    with pytest.raises(UninitializedRead, match=r"D is read from lane 0, column 0 .* enable-input-d false"):
        run(body, image)


def test_mma__stays_in_shared_memory():
    _, _, image, descs, start = prepared()
    with pytest.raises(AddressError, match=r"b-desc 0x[0-9a-f]+ reaches to byte \d+ of shared memory"):
        run(start + issue(descs[0], descs[1] + (30000 >> 4), idesc(128, 16)), image)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (1 << 14, "a-desc: bits 14 to 15 of the shared-memory descriptor: reserved"),
        (1 << 30, "bits 30 to 31"),
        (1 << 46, "bits 46 to 48 .* 0b000, but must be the constant 0b001"),
        (1 << 52, "leading dimension stride mode"),
        (1 << 60, "bits 53 to 60"),
        (1 << 61, r"swizzling mode \(bits 61 to 63\): 3 is not a mode"),
        (
            3 << 61,
            r"a-desc: swizzling mode \(bits 61 to 63\): 1, 128 bytes with 32-byte atoms: .* MN-major only",
        ),
    ],
)
def test_matrix_descriptor__names_the_field_that_is_wrong(change, match):
    _, _, image, descs, start = prepared()
    with pytest.raises(InvalidOperand, match=match):
        run(start + issue(descs[0] ^ change, descs[1], idesc(128, 16)), image)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (idesc(128, 16, extra=1), "sparsity selector"),
        (idesc(128, 16, extra=4), r"sparsity \(bit 2\)"),
        (idesc(128, 16, extra=8), "saturate"),
        (idesc(128, 16, extra=1 << 6), "bit 6 of"),
        (idesc(128, 16, extra=1 << 23), "bit 23 of"),
        (idesc(128, 16, extra=1 << 29), "bit 29 of"),
        (idesc(128, 16, extra=1 << 30), "maximum shift"),
        (idesc(128, 16, extra=2 << 4), r"dtype, the type of D \(bits 4 to 5\): 3; .*0 \(f16\), 1 \(f32\)"),
        (idesc(128, 16, ab="tf32"), r"atype, the type of A \(bits 7 to 9\): 2"),
        (idesc(128, 16, d="f16", ab="bf16"), r"dtype.*is for f16 operands only"),
        (idesc(96, 16), r"M \(bits 24 to 28\): 96; \.cta_group::1 has 64 or 128"),
        (idesc(256, 16), r"M \(bits 24 to 28\): 256"),
        (idesc(128, 0), r"N \(bits 17 to 22\): 0; .* multiple of 8 from 8 to 256"),
        (idesc(128, 264), r"N \(bits 17 to 22\): 264"),
    ],
)
def test_instruction_descriptor__names_the_field_that_is_wrong(value, match):
    _, _, image, descs, start = prepared()
    with pytest.raises(InvalidOperand, match=match):
        run(start + issue(*descs, value), image)


def test_mma__checks_where_d_lies():
    _, _, image, descs, start = prepared()
    with pytest.raises(
        TensorMemoryAccessError, match=r"D at 0x100000 starts in lane 16: .* must start in lane 0"
    ):
        run(start + issue(*descs, idesc(128, 16), lane=16), image)
    with pytest.raises(TensorMemoryAccessError, match="column 128 is not allocated"):
        run(start + issue(*descs, idesc(128, 16), column=120), image)


# --- numbers ------------------------------------------------------------------------------------------------


def numbers_of(kind, values):
    """Values rounded to a type of operand: as bits, and as numbers."""
    if kind == "f16":
        bits = values.astype(np.float16).view(np.uint16)
        return bits.astype(np.uint64), bits.view(np.float16).astype(np.float64)
    kept = 16 if kind == "bf16" else 13
    bits = values.astype(np.float32).view(np.uint32) >> kept << kept
    return (bits >> 16 if kind == "bf16" else bits).astype(np.uint64), bits.view(np.float32).astype(
        np.float64
    )


def drawn(case, shape, rng):
    """Operands for the model of sums: ordinary, of very different sizes, and such that they cancel."""
    values = rng.standard_normal(shape)
    if case == "spread":
        values = np.ldexp(values, rng.integers(-7, 7, shape))
    if case == "cancelling":
        values[..., 1::2] = -values[..., ::2] * (1 + 2.0**-9)
    return values


@pytest.mark.parametrize("case", ["ordinary", "spread", "cancelling"])
@pytest.mark.parametrize(
    ("kind", "accumulator"), [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32")]
)
def test_accumulate_in_turn__stays_within_the_stated_bound_of_the_published_model(kind, accumulator, case):
    rng = np.random.default_rng(5)
    k = 8 if kind == "tf32" else K
    a_bits, a = numbers_of(kind, drawn(case, (32, k), rng))
    b_bits, b = numbers_of(kind, np.abs(drawn("ordinary", (32, k), rng)))
    c = rng.standard_normal((32, 32)).astype(np.float32 if accumulator == "f32" else np.float16)
    core, into = TENSOR_CORES["sm_100"], FORMATS[accumulator]
    got = accumulate_in_turn([(a, b, False)], c.astype(np.float64), accumulator)
    c_bits = c.view(np.uint32 if accumulator == "f32" else np.uint16).astype(np.uint64)
    model = fused_float_products(a_bits, b_bits.T, c_bits, FORMATS[kind], into, core)

    def number(bits):
        narrow = bits.astype(np.uint32 if accumulator == "f32" else np.uint16)
        return narrow.view(np.float32 if accumulator == "f32" else np.float16).astype(np.float64)

    away = np.abs(number(got) - number(model))
    assert (away <= rounded_once_bound(a, b, c.astype(np.float64), into, core)).all()
    if accumulator == "f32":
        assert away.any(), "the two models round differently"


def test_accumulate_in_turn__specials():
    inf, nan = np.inf, np.nan
    a = np.array([[inf], [nan], [1.0], [65504.0]])
    b = np.array([[1.0], [0.0]])
    f32 = accumulate_in_turn([(a, b, False)], None, "f32")
    assert f32[0].tolist() == [0x7F800000, 0x7FFFFFFF]
    assert f32[1].tolist() == [0x7FFFFFFF, 0x7FFFFFFF]
    assert accumulate_in_turn([(2 * a[3:], b[:1], False)], None, "f16").tolist() == [[0x7C00]]
    assert accumulate_in_turn([(a[1:2], b, False)], None, "f16").tolist() == [[0x7FFF, 0x7FFF]]


# --- events -------------------------------------------------------------------------------------------------


def test_events__tell_of_issue_completion_and_commit():
    _, _, image, descs, start = prepared()
    recorder = Recorder()
    body = start + issue(*descs, idesc(128, 16)) + issue(*descs, idesc(128, 16), accumulated=1)
    run(body + finish() + keep(16), image, recorder=recorder)
    trace = recorder.trace()
    issues = trace.of("mma.issue").events
    assert [(e["m"], e["n"], e["k"], e["types"], e["accumulate"]) for e in issues] == [
        (128, 16, 16, "f32.f16.f16", False),
        (128, 16, 16, "f32.f16.f16", True),
    ]
    assert {e["idesc"] for e in issues} == {idesc(128, 16)}
    done = [e["issue"] for e in trace.of("mma.complete")]
    assert done == [e.index for e in issues]
    (commit,) = trace.of("mma.commit").events
    assert commit["barrier"]["name"] == "bar"
    assert set(commit["issues"]) <= {e.index for e in issues}
    arrival = next(e for e in trace.of("mbarrier.arrive"))
    assert arrival.index > max(e.index for e in trace.of("mma.complete"))


@pytest.mark.program("ptxas")
def test_ptxas__assembles_the_forms(tmp_path, find_program):
    body = "mov.b64 %a, 0;\nmov.b64 %b, 0;\n"
    for kind in ("f16", "tf32"):
        for a in ("%a", "[%y]"):
            for mask in ("", ", {%r0, %r1, %r2, %r3}"):
                for collector in ("", ".collector::a::fill"):
                    body += f"tcgen05.mma.cta_group::1.kind::{kind}{collector} [%d], {a}, %b, %x{mask}, %q;\n"
                body += f"tcgen05.mma.cta_group::1.kind::{kind} [%d], {a}, %b, %x{mask}, %q, 3;\n"
    body += COMMIT + "tcgen05.fence::before_thread_sync;\ntcgen05.fence::after_thread_sync;\n"
    (tmp_path / "k.ptx").write_text(tcgen05.kernel(body))
    done = subprocess.run(
        [find_program("ptxas"), "-arch=sm_100a", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
