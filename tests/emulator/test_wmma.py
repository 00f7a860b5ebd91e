"""wmma: every shape, type and layout against NumPy, what is refused, and memory that nobody wrote."""

import numpy as np
import pytest

from cutecourse.dtypes import decode, dtype, encode
from cutecourse.emulator import launch
from cutecourse.emulator.errors import (
    AlignmentError,
    DivergedWarp,
    InvalidOperand,
    NonUniformOperand,
    UninitializedRead,
    UnsupportedInstruction,
)

SHAPES = {
    "m16n16k16": (16, 16, 16),
    "m8n32k16": (8, 32, 16),
    "m32n8k16": (32, 8, 16),
    "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4),
    "m8n8k32": (8, 8, 32),
    "m8n8k128": (8, 8, 128),
}
REGISTERS = {
    # of A, of B and of C with f32 or s32, from the tables of fragments in the PTX ISA, "wmma.mma"
    ("m16n16k16", "f16"): (8, 8, 8), ("m8n32k16", "f16"): (8, 8, 8), ("m32n8k16", "f16"): (8, 8, 8),
    ("m16n16k16", "bf16"): (4, 4, 8), ("m8n32k16", "bf16"): (2, 8, 8), ("m32n8k16", "bf16"): (8, 2, 8),
    ("m16n16k16", "s8"): (2, 2, 8), ("m8n32k16", "s8"): (1, 4, 8), ("m32n8k16", "s8"): (4, 1, 8),
    ("m16n16k8", "tf32"): (4, 4, 8), ("m8n8k4", "f64"): (1, 1, 2), ("m8n8k32", "s4"): (1, 1, 2),
    ("m8n8k128", "b1"): (1, 1, 2),
}  # fmt: skip
ALIKE = {"u8": "s8", "u4": "s4"}
WORDS = {"f16": "f16", "bf16": "bf16", "tf32": "f32", "f32": "f32", "f64": "f64"}


def text(shape, a, c, d, *, layouts=("row", "col", "row"), strides=("", "", ""), space="global", change=None):
    """A kernel that loads A, B and C, multiplies, and stores D."""
    n_a, n_b, n_c = REGISTERS[shape, ALIKE.get(a, a)]
    kind, name = ("b64", "d") if a == "f64" else ("b32", "r")

    def registers(which, count, narrow=False):
        return "{" + ", ".join(f"%{which}{name}{i}" for i in range(count // 2 if narrow else count)) + "}"

    in_a, in_b = registers("a", n_a), registers("b", n_b)
    in_c, in_d = registers("c", n_c, c == "f16"), registers("e", n_c, d == "f16")
    types = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{a}.{c}"
    popc, rounding = ".xor.popc" * (a == "b1"), ".rn" * (a == "f64")
    of_space = "" if space == "generic" else f".{space}"
    to, (by_a, by_b, by_c) = f"sync.aligned.{{}}.{shape}{of_space}", layouts
    made = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
    .reg .{kind} %a{name}<9>, %b{name}<9>, %c{name}<9>, %e{name}<9>;
    .reg .b64 %p<5>;
    ld.param.u64 %p0, [a];
    ld.param.u64 %p1, [b];
    ld.param.u64 %p2, [c];
    ld.param.u64 %p3, [d];
    wmma.load.a.{to.format(by_a)}.{a} {in_a}, [%p0]{strides[0]};
    wmma.load.b.{to.format(by_b)}.{a} {in_b}, [%p1]{strides[1]};
    wmma.load.c.{to.format(by_c)}.{c} {in_c}, [%p2]{strides[2]};
    wmma.mma{popc}.sync.aligned.{by_a}.{by_b}.{shape}{rounding}.{types} {in_d}, {in_a}, {in_b}, {in_c};
    wmma.store.d.{to.format(by_c)}.{d} [%p3], {in_d}{strides[2]};
    ret;
}}
"""
    old, new = change or ("", "")
    assert old in made
    return made.replace(old, new)


def codes(values, kind):
    """Numbers as they lie in memory."""
    if kind in WORDS:
        return np.ascontiguousarray(encode(values.astype(np.float64), WORDS[kind]).reshape(values.shape))
    bits = dtype(kind).bits
    if bits >= 8:
        return values.astype(dtype(kind).numpy)
    per_byte = 8 // bits
    grouped = (values & ((1 << bits) - 1)).reshape(*values.shape[:-1], -1, per_byte)
    return (grouped << (np.arange(per_byte) * bits)).sum(-1).astype(np.uint8)


def drawn(random, kind, *shape):
    """Small whole numbers, whose sums every accumulator holds exactly."""
    low, high = {"u8": (0, 256), "u4": (0, 16), "s8": (-128, 128), "s4": (-8, 8), "b1": (0, 2)}.get(
        kind, (-4, 5)
    )
    return random.integers(low, high, shape)


def laid_out(matrix, layout, pad=0):
    """A matrix by rows or by columns, its rows as much longer as `pad` says."""
    by = matrix if layout == "row" else matrix.T
    return np.concatenate([by, np.full((by.shape[0], pad), 1)], axis=1) if pad else np.ascontiguousarray(by)


PAD = 16
"""Elements behind each row of C and of D, which a store must leave alone."""
FORMS = [
    (shape, a, c, d)
    for shape in ("m16n16k16", "m8n32k16", "m32n8k16")
    for a, c, d in [
        *(("f16", c, d) for c in ("f16", "f32") for d in ("f16", "f32")),
        ("bf16", "f32", "f32"), ("s8", "s32", "s32"), ("u8", "s32", "s32"),
    ]
] + [
    ("m16n16k8", "tf32", "f32", "f32"), ("m8n8k4", "f64", "f64", "f64"), ("m8n8k32", "s4", "s32", "s32"),
    ("m8n8k32", "u4", "s32", "s32"), ("m8n8k128", "b1", "s32", "s32"),
]  # fmt: skip


@pytest.mark.parametrize("layouts", [("row", "col", "row"), ("col", "row", "col")], ids="-".join)
@pytest.mark.parametrize(("shape", "a", "c", "d"), FORMS, ids=lambda one: one)
def test_wmma__agrees_with_numpy(shape, a, c, d, layouts):
    if a in {"s4", "u4", "b1"} and layouts[0] == "col":
        layouts = ("row", "col", "col")
    (m, n, k), random = SHAPES[shape], np.random.default_rng(7)
    left, right, added = drawn(random, a, m, k), drawn(random, a, k, n), drawn(random, c, m, n)
    pad = 128 // dtype(a).bits if a != "b1" else 128
    strides = [
        f", {laid_out(x, layout).shape[1] + pad}" for x, layout in zip((left, right), layouts, strict=False)
    ]
    args = [codes(laid_out(x, layout, pad), a) for x, layout in zip((left, right), layouts, strict=False)]
    args.append(codes(laid_out(added, layouts[2], PAD), c))
    out = codes(laid_out(added * 0 + 99, layouts[2], PAD), d)
    strides.append(f", {out.shape[1]}")
    launch(text(shape, a, c, d, layouts=layouts, strides=strides), grid=1, block=32, args=[*args, out])
    product = left @ right
    if a == "b1":
        product = (left[:, :, None] ^ right[None]).sum(1)
    found = np.asarray(decode(out, d)).reshape(out.shape) if d in WORDS else out
    np.testing.assert_array_equal(found, laid_out(product + added, layouts[2], PAD))


THREAD = ".reg .b32 %t; mov.u32 %t, %tid.x;"
APART = f"ld.param.u64 %p1, [b]; {THREAD} mad.wide.u32 %p1, %t, 16, %p1;"
SOME = f"    .reg .pred %q; {THREAD} setp.lt.u32 %q, %t, 5;\n    @%q ret;\n    wmma.load.a"


def run(**how):
    zeros = [np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float32)]
    made = text("m16n16k16", "f16", "f32", "f32", **how)
    launch(made, grid=1, block=32, args=[*zeros, np.zeros((16, 16), np.float32)])


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (("[%p0]", "[%p0+8]"), AlignmentError, "the address 0x.* is not a multiple of 16"),
        (("[%p0]", "[%p0], 20"), AlignmentError, "the stride of 40 bytes is not a multiple of 16"),
        (("ld.param.u64 %p1, [b];", APART), NonUniformOperand, "the address must be the same in all lanes"),
        (("load.a.sync.aligned.row.m16n16k16", "load.a.sync.aligned.row.m16n16k8"), UnsupportedInstruction,
         "A of .m16n16k8 has the types tf32"),
        ((".f32.f32 ", ".f32.bf16.bf16.f16 "), UnsupportedInstruction, "no form with A of bf16"),
        ((".f32.f32 ", ".f32.f16.f16.f32 "), UnsupportedInstruction, "no form with A of f16"),
        (("{%ar0, %ar1, ", "{%ar0, "), InvalidOperand, "takes 8 registers for A, and 7 are given"),
    ],
)  # fmt: skip
def test_wmma__refuses(change, kind, words):
    with pytest.raises(kind, match=words):
        run(change=change)


@pytest.mark.parametrize(
    ("shape", "a", "stride"), [("m8n8k32", "s4", 36), ("m8n8k32", "s4", 33), ("m8n8k128", "b1", 144)]
)
def test_wmma__refuses_a_stride_within_a_word(shape, a, stride):
    m, n, k = SHAPES[shape]
    made = text(shape, a, "s32", "s32", layouts=("row", "col", "row"), strides=(f", {stride}", "", ""))
    args = [
        np.zeros((m, 64), np.uint8),
        np.zeros((n, k), np.uint8),
        *(np.zeros((m, n), np.int32) for _ in "cd"),
    ]
    with pytest.raises(AlignmentError, match="the stride of"):
        launch(made, grid=1, block=32, args=args)


def test_wmma__refuses_elements_of_four_bits_in_another_layout():
    made = text("m8n8k32", "s4", "s32", "s32").replace("mma.sync.aligned.row.col", "mma.sync.aligned.col.row")
    with pytest.raises(UnsupportedInstruction, match="less than 8 bits"):
        launch(made, grid=1, block=32, args=[np.zeros(512, np.uint8)] * 4)


def test_wmma__needs_all_lanes_of_a_warp():
    with pytest.raises(DivergedWarp, match="by all 32 lanes"):
        run(change=("    wmma.load.a", SOME))


def test_wmma__sees_shared_memory_that_nobody_wrote():
    shared = ("    ld.param.u64 %p0, [a];", "    .shared .align 32 .b8 tile[512];\n    mov.u64 %p0, tile;")
    made = text("m16n16k16", "f16", "f32", "f32", change=shared)
    made = made.replace(
        "load.a.sync.aligned.row.m16n16k16.global", "load.a.sync.aligned.row.m16n16k16.shared"
    )
    zeros = [np.zeros((16, 16), np.float16)] * 2 + [np.zeros((16, 16), np.float32)] * 2
    with pytest.raises(UninitializedRead, match="tile"):
        launch(made, grid=1, block=32, args=zeros)
