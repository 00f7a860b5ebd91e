"""mma.sync with .kind: elements of 8, 6 and 4 bits, and scale factors.

No GPU of compute capability 12.0 has run these. The numbers are compared with the formats of ml_dtypes and
with sums in NumPy, the places with the formulas of the PTX ISA and with the layouts of CUTLASS.
"""

import importlib.util
import re
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import InvalidOperand, UnsupportedInstruction
from cutecourse.emulator.instructions.mma.mma import MMA_FORMS

NARROW = {
    "e4m3": (8, ml_dtypes.float8_e4m3fn),
    "e5m2": (8, ml_dtypes.float8_e5m2),
    "e2m3": (6, ml_dtypes.float6_e2m3fn),
    "e3m2": (6, ml_dtypes.float6_e3m2fn),
    "e2m1": (4, ml_dtypes.float4_e2m1fn),
}
SCALED = [
    # kind, modifier, types of A and B, type of the scale factors, blocks, K
    ("mxf8f6f4", "", "e4m3", "e2m1", "ue8m0", 1, 32),
    ("mxf8f6f4", ".scale_vec::1X", "e3m2", "e5m2", "ue8m0", 1, 32),
    ("mxf4", "", "e2m1", "e2m1", "ue8m0", 2, 64),
    ("mxf4", ".scale_vec::2X", "e2m1", "e2m1", "ue8m0", 2, 64),
    ("mxf4nvf4", ".scale_vec::2X", "e2m1", "e2m1", "ue8m0", 2, 64),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue4m3", 4, 64),
    ("mxf4nvf4", ".scale_vec::4X", "e2m1", "e2m1", "ue8m0", 4, 64),
]
ZERO = "{0, 0} {0, 0}"
GROUP, THREAD = np.arange(32) // 4, np.arange(32) % 4


def kernel(instruction: str, *, half: bool = False, selectors: str = "", target: str = "sm_120a") -> str:
    """Each lane loads its registers of A, B and C and two words of scale factors, and stores D.

    `selectors` are those of A and of B, as in "{0, 1} {0, 3}"; without them there are no scale factors.
    """
    c = "{%c0, %c1}" if half else "{%c0, %c1, %c2, %c3}"
    operands = f"{c}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {c}"
    if selectors:
        of_a, of_b = re.findall(r"\{.*?\}", selectors)
        operands += f", %sa, {of_a}, %sb, {of_b}"
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %a<4>, %b<2>, %c<4>, %sa, %sb, %lane;
    .reg .b16 %h<4>;
    .reg .b64 %from, %to;
    mov.u32 %lane, %tid.x;
    ld.param.u64 %from, [in];
    mad.wide.u32 %from, %lane, 48, %from;
    ld.param.u64 %to, [out];
    mad.wide.u32 %to, %lane, 16, %to;
    ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%from];
    ld.global.v4.b32 {{%b0, %b1, %sa, %sb}}, [%from+16];
    ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%from+32];
    cvt.u16.u32 %h0, %lane;
    mov.b16 %h1, 0;
    mov.b16 %h2, 7;
    {instruction} {operands};
    st.global.v4.b32 [%to], {{%c0, %c1, %c2, %c3}};
    ret;
}}
"""


def codes_and_values(kind: str, shape: tuple[int, int], seed: int):
    """Random codes of a type and their numbers by ml_dtypes: 0, or 1/4 to 8, so that sums are exact."""
    bits, dtype = NARROW[kind]
    every = np.arange(1 << bits, dtype=np.uint8)
    size = np.abs(every.view(dtype).astype(np.float64))
    codes = np.random.default_rng(seed).choice(every[(size == 0) | (size >= 0.25) & (size <= 8)], shape)
    return codes, codes.view(dtype).astype(np.float64)


def registers(rows: np.ndarray, kind: str, k: int) -> np.ndarray:
    """A matrix (rows, k) of codes as each lane's registers: the ISA's formulas for A and B by 8 or 4 bits.

    Register r of a lane has rows groupID + 8 * (r % 2) of A, and columns 4 or 8 * threadID and on.
    """
    bits = 4 if k == 64 else 8
    each = 32 // bits
    held = rows.astype(np.uint32)
    if bits == 8 and kind == "e2m1":
        held = held << 2  # the central bits of the container
    above = len(rows) // 8
    words = np.zeros((32, 2 * above), np.uint32)
    for register in range(2 * above):
        row, col = GROUP + 8 * (register % above), each * THREAD + 4 * each * (register // above)
        for element in range(each):
            words[:, register] |= held[row, col + element] << (bits * element)
    return words


def image(a, b, c, kinds, k, scales=None):
    """Each lane's twelve words: A, B, two words of scale factors, C. `c` is (16, 8) f32."""
    found = np.zeros((32, 12), np.uint32)
    found[:, :4] = registers(a, kinds[0], k)
    found[:, 4:6] = registers(b, kinds[1], k)
    if scales is not None:
        found[:, 6:8] = scales
    found[:, 8:] = accumulators(c).view(np.uint32)
    return found


def accumulators(c: np.ndarray) -> np.ndarray:
    """C or D (16, 8) as each lane's four elements."""
    rows = GROUP[:, None] + np.array([0, 0, 8, 8])
    return np.ascontiguousarray(c[rows, 2 * THREAD[:, None] + np.array([0, 1, 0, 1])])


def run(text: str, given: np.ndarray, **options) -> np.ndarray:
    out = np.zeros((32, 4), np.uint32)
    launch(text, grid=1, block=32, args=[given, out], **options)
    return out


@pytest.mark.parametrize("b_kind", NARROW)
@pytest.mark.parametrize("a_kind", NARROW)
def test_f8f6f4__multiplies_every_pair_of_formats(a_kind, b_kind):
    (a, x), (b, y) = codes_and_values(a_kind, (16, 32), 1), codes_and_values(b_kind, (8, 32), 2)
    c = np.random.default_rng(3).integers(-9, 9, (16, 8)).astype(np.float32)
    form = f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{a_kind}.{b_kind}.f32"
    out = run(kernel(form), image(a, b, c, (a_kind, b_kind), 32))
    np.testing.assert_array_equal(out.view(np.float32), accumulators(x @ y.T + c))


def test_f8f6f4__sums_in_f16():
    (a, x), (b, y) = codes_and_values("e2m1", (16, 32), 1), codes_and_values("e2m3", (8, 32), 2)
    form = "mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f16.e2m1.e2m3.f16"
    given = image(a, b, np.zeros((16, 8), np.float32), ("e2m1", "e2m3"), 32)
    out = run(kernel(form, half=True), given)[:, :2].copy().view(np.float16)
    np.testing.assert_array_equal(out, accumulators((x @ y.T).astype(np.float16)))


def test_f8f6f4__ignores_the_padding_of_a_container():
    (a, _), (b, _) = codes_and_values("e2m1", (16, 32), 1), codes_and_values("e3m2", (8, 32), 2)
    form = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32"
    given = image(a, b, np.zeros((16, 8), np.float32), ("e2m1", "e3m2"), 32)
    padded = given.copy()
    padded[:, :4] |= 0xC3C3C3C3
    padded[:, 4:6] |= 0xC0C0C0C0
    np.testing.assert_array_equal(run(kernel(form), given), run(kernel(form), padded))


# --- scale factors ------------------------------------------------------------------------------------------


def scale_words(of_a, of_b, selectors, seed=5):
    """Words with the factors at the places that the selectors name, and random bytes elsewhere."""
    (byte_a, thread_a), (byte_b, thread_b) = selectors
    words = np.random.default_rng(seed).integers(0, 256, (32, 2, 4)).astype(np.uint8)
    blocks = of_a.shape[1]
    for row in range(16):  # rows 8 and on come from the next lane
        lane = 4 * (row % 8) + 2 * thread_a + row // 8
        words[lane, 0, byte_a : byte_a + blocks] = of_a[row]
    for column in range(8):
        words[4 * column + thread_b, 1, byte_b : byte_b + blocks] = of_b[column]
    return words.view(np.uint32)[..., 0]


def scaled(kind, modifier, a_kind, b_kind, s_kind, blocks, k, selectors, *, text_selectors=""):
    """What came out, and what has to: numbers whose sums are exact."""
    rng = np.random.default_rng(4)
    (a, x), (b, y) = codes_and_values(a_kind, (16, k), 1), codes_and_values(b_kind, (8, k), 2)
    if k == 32:  # few enough bits for an exact sum
        a[:, 2:], x[:, 2:] = 0, 0
    low, high = (126, 129) if s_kind == "ue8m0" else (0x30, 0x40)
    of_a, of_b = (rng.integers(low, high, (rows, blocks)).astype(np.uint8) for rows in (16, 8))
    dtype = ml_dtypes.float8_e8m0fnu if s_kind == "ue8m0" else ml_dtypes.float8_e4m3fn
    c = rng.integers(-9, 9, (16, 8)).astype(np.float32)
    form = f"mma.sync.aligned.m{16}n8k{k}.row.col.kind::{kind}.block_scale{modifier}"
    form += f".f32.{a_kind}.{b_kind}.f32.{s_kind}"
    chosen = text_selectors or "{{{}, {}}} {{{}, {}}}".format(*selectors[0], *selectors[1])
    given = image(a, b, c, (a_kind, b_kind), k, scale_words(of_a, of_b, selectors))
    out = run(kernel(form, selectors=chosen), given)
    x = x * of_a.view(dtype).astype(np.float64).repeat(k // blocks, axis=1)
    y = y * of_b.view(dtype).astype(np.float64).repeat(k // blocks, axis=1)
    return out.view(np.float32), accumulators(x @ y.T + c)


@pytest.mark.parametrize("form", SCALED, ids=lambda form: f"{form[0]}{form[1]}-{form[4]}")
@pytest.mark.parametrize("threads", [(0, 0), (1, 1), (0, 3), (1, 2)])
def test_block_scale__takes_the_factors_that_the_selectors_name(form, threads):
    blocks = form[5]
    bytes_ = range(0, 4, blocks)
    selectors = (bytes_[-1], threads[0]), (bytes_[threads[1] % len(bytes_)], threads[1])
    found, wanted = scaled(*form, selectors)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) > 50


def test_block_scale__selectors_may_be_registers():
    np.testing.assert_array_equal(
        *scaled(*SCALED[2], ((0, 0), (0, 0)), text_selectors="{%h1, %h1} {%h1, %h1}")
    )


@pytest.mark.parametrize(
    ("selectors", "match"),
    [
        ("{1, 0} {0, 0}", r"byte-id-a is 1; with 2 scale factors for each row it is 0 or 2"),
        ("{0, 2} {0, 0}", "thread-id-a is 2; .*0 or 1"),
        ("{0, 0} {0, 4}", "thread-id-b is 4; .*0 or 1 or 2 or 3"),
        ("{0, 0} {%h2, 0}", "byte-id-b is 7"),
        ("{0, %h0} {0, 0}", "thread-id-a is 1; .*the same in all lanes"),
    ],
)
def test_block_scale__a_selector_that_names_nothing_is_an_error(selectors, match):
    with pytest.raises(InvalidOperand, match=match):
        scaled(*SCALED[2], ((0, 0), (0, 0)), text_selectors=selectors)


def test_block_scale__nan_as_a_factor_makes_its_row_nan():
    (a, _), (b, _) = codes_and_values("e2m1", (16, 64), 1), codes_and_values("e2m1", (8, 64), 2)
    of_a = np.full((16, 2), 127, np.uint8)
    of_a[9, 1] = 255
    words = scale_words(of_a, of_a[:8], ((0, 0), (0, 0)))
    form = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
    given = image(a, b, np.zeros((16, 8), np.float32), ("e2m1", "e2m1"), 64, words)
    nan = np.isnan(run(kernel(form, selectors="{0, 0} {0, 0}"), given).view(np.float32))
    np.testing.assert_array_equal(nan, accumulators(np.arange(16)[:, None] == np.full((1, 8), 9)))


# --- forms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "selectors", "match"),
    [
        ("m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e4m3.f32", "", "mxf8f6f4 needs .block_scale"),
        ("m16n8k32.row.col.kind::f8f6f4.block_scale.f32.e4m3.e4m3.f32", "", "f8f6f4 has no .block_scale"),
        ("m16n8k16.row.col.block_scale.f32.f16.f16.f32", "", "without .kind has no .block_scale"),
        ("m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", ZERO, "takes .scale_vec::2X"),
        ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue4m3", ZERO, "takes .ue8m0"),
        ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e4m3.e4m3.f32.ue8m0", ZERO, "takes the types f32.e2m1"),
        ("m16n8k32.row.col.f32.e2m1.e2m1.f32", "", "m16n8k32 takes the types"),
        ("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", "{0} {0, 0}", "scale-a-data are"),
    ],
)  # fmt: skip
def test_forms__that_there_are_not_are_refused(form, selectors, match):
    with pytest.raises((UnsupportedInstruction, InvalidOperand), match=match):
        run(kernel(f"mma.sync.aligned.{form}", selectors=selectors), np.zeros((32, 12), np.uint32))


def test_forms__are_those_of_cutlass_sm120_atoms():
    package = importlib.util.find_spec("cutlass_library")
    assert package is not None, "nvidia-cutlass brings the headers: install the test requirements"
    header = Path(package.origin).parent / "source" / "include" / "cute" / "arch" / "mma_sm120.hpp"
    texts = set(re.findall(r'"(mma\.sync[\w.:]+) *"?', header.read_text(encoding="utf-8")))
    assert len(texts) > 50
    given = np.zeros((32, 12), np.uint32)
    kinds = set()
    for text in texts:
        half = ".f16." in text
        run(kernel(text, half=half, selectors="{0, 0} {0, 0}" if "block_scale" in text else ""), given)
        kinds.add(re.search(r"kind::(\w+)", text).group(1))
    # CUTLASS takes mxf4nvf4 for what mxf4 can do too.
    assert kinds == {form.kind for form in MMA_FORMS.values()} - {"", "mxf4"}


@pytest.mark.program("ptxas")
def test_ptxas__assembles_the_forms(tmp_path, find_program):
    texts = [kernel("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32")]
    for kind, modifier, a_kind, b_kind, s_kind, blocks, k in SCALED:
        if (blocks, s_kind) == (4, "ue8m0"):
            continue  # PTX has it from 9.1 on
        form = f"mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale{modifier}"
        form += f".f32.{a_kind}.{b_kind}.f32.{s_kind}"
        texts.append(kernel(form, selectors="{0, 1} {0, 3}" if blocks == 4 else "{2, 1} {2, 3}"))
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.ptx").write_text(text)
        done = subprocess.run(
            [find_program("ptxas"), "-arch=sm_120a", "-o", tmp_path / "k.cubin", tmp_path / f"{number}.ptx"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (text, done.stderr)
