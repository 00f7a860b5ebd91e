"""tcgen05.mma of narrow types and of integers, and scale factors: numbers, places, rules and hazards.

No Blackwell has run these: the numbers are compared with the formats of ml_dtypes and with sums in NumPy.
"""

import re
import subprocess

import ml_dtypes
import numpy as np
import pytest

from cutecourse.dtypes import DTYPES, decode
from cutecourse.emulator.errors import (
    InvalidOperand,
    TensorMemoryHazard,
    TensorMemoryLanesError,
    UninitializedRead,
    UnsupportedInstruction,
)
from support import tcgen05
from support.tcgen05 import COMMIT, FENCE, copy_in, descriptor, done

CODES = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
INTEGERS = {"u8": 0, "s8": 1}
A_AT, B_AT, SFA_AT, SFB_AT = 0, 4096, 12288, 12800
IMAGE_BYTES = 14336
D_AT, SFA_COLUMN, SFB_COLUMN = 0, 256, 260
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
SCALED = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


def instruction(m, n, *, a, b, d=0, scales=0, ids=(0, 0), extra=0):
    """An instruction descriptor with the codes of the types."""
    value = d << 4 | a << 7 | b << 10 | n >> 3 << 17 | scales << 23 | m >> 4 << 24 | extra
    return value | ids[0] << 29 | ids[1] << 4


def codes_of(kind, shape, seed):
    """Random codes of a type that are numbers."""
    found = np.random.default_rng(seed).integers(0, 1 << DTYPES[kind].bits, shape).astype(np.uint8)
    if kind in INTEGERS:
        return found
    return np.where(np.isfinite(decode(found, kind)), found, 0).astype(np.uint8)


def values_of(codes, kind):
    """The numbers that codes stand for, by ml_dtypes."""
    known = {"s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    known |= {
        "e2m3": ml_dtypes.float6_e2m3fn,
        "e3m2": ml_dtypes.float6_e3m2fn,
        "e2m1": ml_dtypes.float4_e2m1fn,
    }
    known |= {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}
    return codes.view(known[kind]).astype(np.float64)


def rows_of_bytes(codes, kind, *, packed):
    """Each row's codes as they lie in 32 bytes: 16 (packed: 32) in each 16 bytes, lowest bits first."""
    bits, per_chunk = DTYPES[kind].bits, 32 if packed else 16
    rows = []
    for row in codes.reshape(-1, codes.shape[1] // per_chunk, per_chunk).tolist():
        numbers = [sum(code << (bits * place) for place, code in enumerate(chunk)) for chunk in row]
        rows.append(b"".join(number.to_bytes(16, "little") for number in numbers))
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(codes), 32)


def put(image, at, rows):
    """Rows of 32 bytes, K-major without a swizzle; gives the descriptor."""
    row, chunk = np.arange(len(rows))[:, None], np.arange(2)[None, :]
    places = at + row % 8 * 16 + row // 8 * 256 + chunk * 128
    image.reshape(-1, 16)[places // 16] = rows.reshape(-1, 2, 16)
    return descriptor(at, 128, 256)


def put_scales(image, at, scales, first):
    """Scale factors (rows, blocks) as CUTLASS has them for .32x128b.warpx4: 128 rows in 512 bytes."""
    words = np.full((-(-len(scales) // 128), 32, 4, 4), 0xEE, np.uint8)
    for row, factors in enumerate(scales):
        words[row // 128, row % 32, row % 128 // 32, first : first + len(factors)] = factors
    held = words.reshape(-1)
    image[at : at + held.size] = held
    return [descriptor(at + 512 * block, 128, 128) for block in range(len(words))]


def copy_scales(descriptors, column):
    return "".join(
        f"add.u32 %z, %tmem, {column + 4 * block};\nmov.b64 %at, {one};\n"
        "@%first tcgen05.cp.cta_group::1.32x128b.warpx4 [%z], %at;\n"
        for block, one in enumerate(descriptors)
    )


def issue(form, a, b, code, *, scales=""):
    return (
        f"mov.b64 %a, {a};\nmov.b64 %b, {b};\nadd.u32 %d, %tmem, {D_AT};\nmov.b32 %x, {code};\n"
        f"add.u32 %y, %tmem, {SFA_COLUMN};\nadd.u32 %z, %tmem, {SFB_COLUMN};\nsetp.ne.u32 %q, 0, 0;\n"
        f"@%first tcgen05.mma.cta_group::1.{form} [%d], %a, %b, %x{scales}, %q;\n"
    )


def keep(n):
    """Each thread writes its lane's n columns to %out."""
    text = f"tcgen05.fence::after_thread_sync;\nmul.wide.u32 %at, %me, {4 * n};\nadd.u64 %at, %out, %at;\n"
    held = ", ".join(f"%r{i}" for i in range(8))
    for first in range(0, n, 8):
        text += f"add.u32 %x, %tmem, %lane;\nadd.u32 %x, %x, {first};\n"
        text += f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{held}}}, [%x];\n"
        text += "".join(f"st.global.b32 [%at+{4 * (first + i)}], %r{i};\n" for i in range(8))
    return text + "tcgen05.wait::ld.sync.aligned;\n"


def run(body, image, n, **options):
    out = np.zeros((128, n), np.uint32)
    text = copy_in(len(image)) + FENCE + "bar.sync 0;\n" + body + done() + keep(n)
    return tcgen05.run(text, image, out, columns=512, smem=len(image), **options)


def operands(a_kind, b_kind, n, k, *, packed=False):
    """An image with random A and B: image, descriptors, numbers."""
    image = np.zeros(IMAGE_BYTES, np.uint8)
    a, b = codes_of(a_kind, (128, k), 1), codes_of(b_kind, (n, k), 2)
    descs = [
        put(image, at, rows_of_bytes(codes, kind, packed=packed))
        for at, codes, kind in ((A_AT, a, a_kind), (B_AT, b, b_kind))
    ]
    return image, descs, values_of(a, a_kind), values_of(b, b_kind)


# --- narrow floats and integers -----------------------------------------------------------------------------


@pytest.mark.parametrize("b_kind", CODES)
@pytest.mark.parametrize("a_kind", CODES)
def test_f8f6f4__multiplies_every_pair_of_formats(a_kind, b_kind):
    image, descs, a, b = operands(a_kind, b_kind, 16, 32)
    out = run(
        issue("kind::f8f6f4", *descs, instruction(128, 16, a=CODES[a_kind], b=CODES[b_kind], d=1)), image, 16
    )
    np.testing.assert_array_equal(out.view(np.float32), (a @ b.T).astype(np.float32))


@pytest.mark.parametrize(("b_kind", "filled"), [("e2m1", 8), ("e2m3", 12)])
def test_f8f6f4__needs_no_padding(b_kind, filled):
    """The last 8 or 4 of 16 bytes hold no element: nobody writes them. Each byte before them is needed."""
    image, descs, a, b = operands("e4m3", b_kind, 16, 32)
    code = instruction(128, 16, a=CODES["e4m3"], b=CODES[b_kind], d=1)

    def product(number):
        stores = "".join(
            f"ld.global.b32 %r0, [%at+{first}];\nst.shared.b32 [%x+{first}], %r0;\n"
            for first in range(0, number, 4)
        )
        only_b = (
            f"setp.lt.u32 %q, %me, 32;\n@!%q bra NONE;\nmul.wide.u32 %at, %me, 16;\nadd.u64 %at, %in, %at;\n"
            f"shl.b32 %x, %me, 4;\nmov.u32 %y, box;\nadd.u32 %x, %x, %y;\n"
            f"add.u64 %at, %at, {B_AT};\nadd.u32 %x, %x, {B_AT};\n{stores}NONE:\n"
        )
        text = copy_in(B_AT) + only_b + FENCE + "bar.sync 0;\n" + issue("kind::f8f6f4", *descs, code)
        out = np.zeros((128, 16), np.uint32)
        return tcgen05.run(text + done() + keep(16), image, out, columns=512, smem=len(image))

    np.testing.assert_array_equal(product(filled).view(np.float32), (a @ b.T).astype(np.float32))
    with pytest.raises(UninitializedRead, match="B has a byte"):
        product(filled - 4)


def test_f8f6f4__sums_in_f16():
    image, descs, a, b = operands("e2m1", "e2m1", 16, 32)
    out = run(
        issue("kind::f8f6f4", *descs, instruction(128, 16, a=5, b=5)),
        image,
        16,
        hazards={"sum read in another type": "off"},
    )
    np.testing.assert_array_equal(out.astype(np.uint16).view(np.float16), (a @ b.T).astype(np.float16))


@pytest.mark.parametrize("b_kind", INTEGERS)
@pytest.mark.parametrize("a_kind", INTEGERS)
def test_i8__multiplies_integers(a_kind, b_kind):
    image, descs, a, b = operands(a_kind, b_kind, 16, 32)
    code = instruction(128, 16, a=INTEGERS[a_kind], b=INTEGERS[b_kind], d=2)
    out = run(issue("kind::i8", *descs, code), image, 16)
    np.testing.assert_array_equal(out.view(np.int32), (a @ b.T).astype(np.int32))


@pytest.mark.parametrize("saturate", [False, True])
def test_i8__wraps_or_saturates(saturate):
    image, descs, a, b = operands("u8", "u8", 16, 32)
    code = instruction(128, 16, a=0, b=0, d=2, extra=saturate << 3)
    start = "mov.b32 %r0, 0x7fffff00;\nadd.u32 %d, %tmem, %lane;\n"
    for column in range(16):
        start += f"add.u32 %x, %d, {column};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {{%r0}};\n"
    start += "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    start += "tcgen05.fence::after_thread_sync;\n"
    adds = issue("kind::i8", *descs, code).replace("%q, 0, 0", "%q, 1, 0")
    out = run(start + adds, image, 16).view(np.int32)
    total = (a @ b.T).astype(np.int64) + 0x7FFFFF00
    wanted = np.minimum(total, 2**31 - 1) if saturate else (total + 2**31) % 2**32 - 2**31
    assert (total > 2**31 - 1).any()
    np.testing.assert_array_equal(out, wanted)


def test_a_in_tensor_memory__holds_four_elements_in_a_column():
    image, descs, a, b = operands("e4m3", "e5m2", 16, 32)
    # Row r of A lies at its place in shared memory; a copy of 128 rows of 256 bits brings it to lane r.
    start = f"mov.b64 %at, {descs[0]};\nadd.u32 %y, %tmem, 64;\n"
    start += "@%first tcgen05.cp.cta_group::1.128x256b [%y], %at;\n"
    text = issue("kind::f8f6f4", *descs, instruction(128, 16, a=0, b=1, d=1)).replace(
        "%a, %b, %x", "[%r9], %b, %x"
    )
    out = run(start + "add.u32 %r9, %tmem, 64;\n" + text, image, 16)
    np.testing.assert_array_equal(out.view(np.float32), (a @ b.T).astype(np.float32))


# --- scale factors ------------------------------------------------------------------------------------------


FORMS = [
    # kind, modifiers, type of scale factors, blocks in a row, first byte of A's and of B's
    ("mxf8f6f4", "", "ue8m0", 1, 0, 0),
    ("mxf8f6f4", ".scale_vec::1X", "ue8m0", 1, 3, 1),
    ("mxf8f6f4", ".block32", "ue8m0", 1, 2, 2),
    ("mxf4", "", "ue8m0", 2, 0, 2),
    ("mxf4", ".scale_vec::2X", "ue8m0", 2, 2, 0),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0", 2, 2, 2),
    ("mxf4nvf4", ".scale_vec::4X", "ue8m0", 4, 0, 0),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3", 4, 0, 0),
    ("mxf4nvf4", ".block16", "ue4m3", 4, 0, 0),
]


def scaled(
    kind, modifiers, type_, blocks, a_first, b_first, *, n=40, a_kind="e2m1", b_kind="e2m1", change=None
):
    """Run a product with scale factors: what came out, and what has to."""
    k, packed = SCALED[kind], kind != "mxf8f6f4"
    image, descs, a, b = operands(a_kind, b_kind, n, k, packed=packed)
    rng = np.random.default_rng(3)
    low, high = (120, 135) if type_ == "ue8m0" else (0, 0x7F)
    sfa, sfb = (rng.integers(low, high, (rows, blocks)).astype(np.uint8) for rows in (128, n))
    body = copy_scales(put_scales(image, SFA_AT, sfa, a_first), SFA_COLUMN)
    body += copy_scales(put_scales(image, SFB_AT, sfb, b_first), SFB_COLUMN)
    types = (1, 1) if packed else (CODES[a_kind], CODES[b_kind])
    code = instruction(128, n, a=types[0], b=types[1], scales=type_ == "ue8m0", ids=(a_first, b_first))
    body += issue(f"kind::{kind}.block_scale{modifiers}", *descs, code, scales=", [%y], [%z]")
    if change is not None:
        body = change(body)
    a = a * values_of(sfa, type_).repeat(k // blocks, axis=1)
    b = b * values_of(sfb, type_).repeat(k // blocks, axis=1)
    return run(body, image, n).view(np.float32), (a @ b.T).astype(np.float32)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}{form[1]}-{form[2]}-{form[4]}{form[5]}")
def test_block_scale__multiplies_each_block_by_its_factors(form):
    np.testing.assert_array_equal(*scaled(*form))


@pytest.mark.parametrize("n", [8, 128, 256])
def test_block_scale__of_every_width_of_b(n):
    np.testing.assert_array_equal(*scaled(*FORMS[0], n=n, a_kind="e4m3", b_kind="e3m2"))


@pytest.mark.parametrize(("m", "n"), [(256, 48), (128, 256), (128, 96)])
def test_block_scale__of_a_pair_takes_its_rows_of_a_and_all_of_b_in_each_cta(m, n):
    """With M = 128, as in CUTLASS's 2cta_mma_blockscale_m128, each half of B has warps of its own."""
    rng = np.random.default_rng(4)
    a, b = codes_of("e4m3", (m, 32), 1), codes_of("e4m3", (n, 32), 2)
    sfa, sfb = (rng.integers(120, 135, (rows, 1)).astype(np.uint8) for rows in (m, n))
    images = np.zeros((2, IMAGE_BYTES), np.uint8)
    for image, *parts in zip(images, np.split(a, 2), np.split(b, 2), np.split(sfa, 2), strict=True):
        descs = [
            put(image, at, rows_of_bytes(codes, "e4m3", packed=False))
            for at, codes in ((A_AT, parts[0]), (B_AT, parts[1]))
        ]
        copies = copy_scales(put_scales(image, SFA_AT, parts[2], 0), SFA_COLUMN)
        if m == 256:
            copies += copy_scales(put_scales(image, SFB_AT, sfb, 0), SFB_COLUMN)
            continue
        first, _ = (
            put_scales(image, SFB_AT + 512 * half, factors, 0)[0]
            for half, factors in enumerate(np.split(sfb, 2))
        )
        copy = copy_scales([first], SFB_COLUMN)
        copies += copy.replace("32x128b.warpx4", "64x128b.warpx2::01_23")
    code = instruction(m, n, a=0, b=0, scales=1)
    product = issue("kind::mxf8f6f4.block_scale", *descs, code, scales=", [%y], [%z]")
    body = copy_in(IMAGE_BYTES) + FENCE + SYNC
    body += "setp.eq.u32 %p, %rank, 0;\nand.pred %p, %p, %first;\n"
    body += (copies + product).replace("@%first", "@%p").replace("cta_group::1", "cta_group::2")
    body += (
        ".reg .b16 %h;\nmov.b16 %h, 3;\n@%p tcgen05.commit.cta_group::2.mbarrier::arrive::one"
        ".shared::cluster.multicast::cluster.b64 [bar], %h;\nAGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
    )
    columns = n if m == 256 else n // 2
    out = np.zeros((2, 128, columns), np.uint32)
    tcgen05.run(body + keep(columns), images, out, grid=2, cluster=2, group=2, columns=512, smem=IMAGE_BYTES)
    scaled_a, scaled_b = (
        values_of(codes, "e4m3") * values_of(factors, "ue8m0") for codes, factors in ((a, sfa), (b, sfb))
    )
    wanted = (scaled_a @ scaled_b.T).astype(np.float32)
    found = out.view(np.float32)
    if m == 128:
        found = np.concatenate([found[:, :64], found[:, 64:]], axis=2)
    np.testing.assert_array_equal(found.reshape(m, n), wanted)


@pytest.mark.parametrize("form", [FORMS[3], FORMS[8]], ids=lambda form: form[0])
def test_block_scale__of_4_bits_ignores_the_bit_behind_the_type_of_b(form):
    """The CuTe DSL's Tcgen05MxOmmaInstrDesc sets it: the version of sparsity."""

    def change(body):
        code = re.search(r"mov\.b32 %x, (\d+);", body).group(1)
        return body.replace(f"mov.b32 %x, {code};", f"mov.b32 %x, {int(code) | 1 << 12};")

    np.testing.assert_array_equal(*scaled(*form, change=change))


def test_block_scale__ignores_the_data_id_in_an_address():
    """CUTLASS leaves it in the two upper bits."""

    def change(body):
        return body.replace(
            f"add.u32 %y, %tmem, {SFA_COLUMN};", f"add.u32 %y, %tmem, {SFA_COLUMN | 2 << 30};"
        )

    np.testing.assert_array_equal(*scaled(*FORMS[0], change=change))


def test_block_scale__nan_as_a_factor_makes_its_row_nan():
    image, descs, *_ = operands("e2m1", "e2m1", 8, 64, packed=True)
    sfa = np.full((128, 2), 127, np.uint8)
    sfa[5, 1] = 255
    body = copy_scales(put_scales(image, SFA_AT, sfa, 0), SFA_COLUMN)
    body += copy_scales(put_scales(image, SFB_AT, sfa[:8] & 127, 0), SFB_COLUMN)
    body += issue(
        "kind::mxf4.block_scale", *descs, instruction(128, 8, a=1, b=1, scales=1), scales=", [%y], [%z]"
    )
    nan = np.isnan(run(body, image, 8).view(np.float32)).all(axis=1)
    assert np.flatnonzero(nan).tolist() == [5]


def test_scale_factors__that_nobody_has_copied_are_reported():
    with pytest.raises(UninitializedRead, match="scale factors of B"):
        scaled(
            *FORMS[0],
            change=lambda body: body.replace(
                f"add.u32 %z, %tmem, {SFB_COLUMN};\nmov", f"add.u32 %z, %tmem, {SFB_COLUMN + 16};\nmov"
            ),
        )


def test_scale_factors__read_before_a_store_of_them_has_a_fence_are_reported():
    """A warp's tcgen05.st of scale factors needs a wait and fences before the product, as A does."""
    image, descs, *_ = operands("e2m1", "e2m1", 8, 64, packed=True)
    store = "mov.b32 %r0, 0x7f7f7f7f;\nadd.u32 %d, %tmem, %lane;\n"
    for column in [*range(SFA_COLUMN, SFA_COLUMN + 4), SFB_COLUMN]:
        store += f"add.u32 %x, %d, {column};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {{%r0}};\n"
    order = "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    order += "tcgen05.fence::after_thread_sync;\n"
    product = issue(
        "kind::mxf4.block_scale", *descs, instruction(128, 8, a=1, b=1, scales=1), scales=", [%y], [%z]"
    )
    run(store + order + product, image, 8)
    with pytest.raises(TensorMemoryHazard, match="scale factors of A"):
        run(store + product, image, 8, seed=1)


def test_scale_factors__must_be_the_same_for_all_four_warps():
    image, descs, *_ = operands("e2m1", "e2m1", 8, 64, packed=True)
    store = "add.u32 %d, %tmem, %lane;\n"
    for column in [*range(SFA_COLUMN, SFA_COLUMN + 4), SFB_COLUMN]:
        store += f"add.u32 %x, %d, {column};\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%x], {{%warp}};\n"
    store += "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n"
    store += "tcgen05.fence::after_thread_sync;\n"
    product = issue(
        "kind::mxf4.block_scale", *descs, instruction(128, 8, a=1, b=1, scales=1), scales=", [%y], [%z]"
    )
    with pytest.raises(InvalidOperand, match="differ between the lanes of warps 0 and 1 in row 0"):
        run(store + product, image, 8)


def test_scale_factors__start_in_lane_0():
    def change(body):
        return body.replace(
            f"add.u32 %y, %tmem, {SFA_COLUMN};", f"add.u32 %y, %tmem, {SFA_COLUMN + (32 << 16)};"
        )

    with pytest.raises(TensorMemoryLanesError, match="must start in lane 0"):
        scaled(*FORMS[0], change=change)


@pytest.mark.parametrize("form", [FORMS[0], FORMS[3], FORMS[7]], ids=lambda form: form[0])
def test_block_scale__with_a_in_tensor_memory(form):
    """A copy of 128 rows of 256 bits brings row r of A to lane r, as it lies in shared memory."""

    def change(body):
        a = re.search(r"mov\.b64 %a, (\d+);", body).group(1)
        start = f"mov.b64 %at, {a};\nadd.u32 %r9, %tmem, 128;\n"
        start += "@%first tcgen05.cp.cta_group::1.128x256b [%r9], %at;\n"
        return start + body.replace("[%d], %a, %b", "[%d], [%r9], %b")

    a_kind = "e4m3" if form[0] == "mxf8f6f4" else "e2m1"
    np.testing.assert_array_equal(*scaled(*form, a_kind=a_kind, change=change))


@pytest.mark.parametrize("a_kind", ["e2m1", "e2m3", "e3m2"])
@pytest.mark.parametrize("scaled_too", [True, False])
def test_a_in_tensor_memory__is_unpacked_on_its_way_there(a_kind, scaled_too):
    """The copy gives each element a byte, and the product reads that byte."""
    form = "b4x16_p64" if DTYPES[a_kind].bits == 4 else "b6x16_p32"

    def change(body):
        a = re.search(r"mov\.b64 %a, (\d+);", body).group(1)
        start = f"mov.b64 %at, {a};\nadd.u32 %r9, %tmem, 128;\n"
        start += f"@%first tcgen05.cp.cta_group::1.128x256b.b8x16.{form} [%r9], %at;\n"
        return start + body.replace("[%d], %a, %b", "[%d], [%r9], %b")

    if scaled_too:
        np.testing.assert_array_equal(*scaled(*FORMS[0], a_kind=a_kind, change=change))
        return
    image, descs, a, b = operands(a_kind, "e5m2", 16, 32)
    code = instruction(128, 16, a=CODES[a_kind], b=CODES["e5m2"], d=1)
    out = run(change(issue("kind::f8f6f4", *descs, code)), image, 16)
    np.testing.assert_array_equal(out.view(np.float32), (a @ b.T).astype(np.float32))


# --- rules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "code", "match"),
    [
        ("kind::f8f6f4", instruction(128, 16, a=2, b=0, d=1), r"atype.*: 2; .kind::f8f6f4 has 0 \(e4m3\)"),
        ("kind::f8f6f4", instruction(128, 16, a=5, b=0, d=1, extra=1 << 15), "a matrix of e2m1 is K-major"),
        ("kind::f8f6f4", instruction(128, 16, a=0, b=0, d=2), "dtype"),
        (
            "kind::f8f6f4",
            instruction(128, 8, a=0, b=0, d=1, extra=1 << 16),
            "MN-major matrix of 8-bit elements",
        ),
        ("kind::i8", instruction(128, 16, a=0, b=0, d=1), r"dtype.*: 1; .kind::i8 has 2 \(s32\)"),
        ("kind::i8", instruction(128, 16, a=0, b=0, d=2, extra=1 << 13), "negate A"),
        ("kind::i8", instruction(128, 24, a=0, b=0, d=2), "multiple of 16"),
        ("kind::i8", instruction(64, 40, a=0, b=0, d=2), "above 32 it must be a multiple of 16"),
        ("kind::mxf4.block_scale", instruction(128, 16, a=5, b=1, scales=1), r"atype.*has 1 \(e2m1\)"),
        ("kind::mxf4.block_scale", instruction(128, 16, a=1, b=1), r"scale matrix type \(bit 23\)"),
        ("kind::mxf4.block_scale", instruction(64, 16, a=1, b=1, scales=1), "M .* has 128"),
        ("kind::mxf4.block_scale", instruction(128, 16, a=1, b=1, scales=1, ids=(1, 0)), "of A.*1; .*0 or 2"),
        ("kind::mxf4.block_scale", instruction(128, 16, a=1, b=1, scales=1, extra=1 << 31), "K size"),
        ("kind::mxf8f6f4.block_scale", instruction(128, 16, a=0, b=0, scales=1, extra=4), "sparsity"),
    ],
)
def test_instruction_descriptor__names_the_field_that_is_wrong(form, code, match):
    image, descs, *_ = operands("e4m3", "e4m3", 16, 32)
    with pytest.raises(InvalidOperand, match=match):
        run(issue(form, *descs, code, scales=", [%y], [%z]" if "block" in form else ""), image, 16)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("kind::mxf4 [%d], %a, %b, %x, [%y], [%z], %q", "needs .block_scale"),
        ("kind::f16.block_scale [%d], %a, %b, %x, [%y], [%z], %q", "has no .block_scale"),
        ("kind::mxf4nvf4.block_scale [%d], %a, %b, %x, [%y], [%z], %q", "takes .scale_vec::2X"),
        ("kind::mxf4.block_scale.scale_vec::4X [%d], %a, %b, %x, [%y], [%z], %q", "takes .scale_vec::2X"),
    ],
)
def test_forms__that_there_are_not_are_refused(text, match):
    with pytest.raises(UnsupportedInstruction, match=match):
        run(f"tcgen05.mma.cta_group::1.{text};\n", np.zeros(IMAGE_BYTES, np.uint8), 8)


def test_scale_input_d__is_for_f16_and_tf32():
    with pytest.raises(InvalidOperand, match="has no scale-input-d"):
        run(
            "tcgen05.mma.cta_group::1.kind::f8f6f4 [%d], %a, %b, %x, %q, 3;\n",
            np.zeros(IMAGE_BYTES, np.uint8),
            8,
        )


@pytest.mark.program("ptxas")
def test_ptxas__assembles_the_forms(tmp_path, find_program):
    body = "mov.b64 %a, 0;\nmov.b64 %b, 0;\n"
    for kind in ("f8f6f4", "i8"):
        body += f"tcgen05.mma.cta_group::1.kind::{kind} [%d], %a, %b, %x, %q;\n"
        body += f"tcgen05.mma.cta_group::1.kind::{kind} [%d], [%y], %b, %x, {{%r0, %r1, %r2, %r3}}, %q;\n"
    for kind, modifiers, *_ in FORMS:
        form = f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale{modifiers}"
        body += f"{form} [%d], %a, %b, %x, [%y], [%z], %q;\n"
    (tmp_path / "k.ptx").write_text(tcgen05.kernel(body + COMMIT))
    done = subprocess.run(
        [find_program("ptxas"), "-arch=sm_100a", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
