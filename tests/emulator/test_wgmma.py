"""wgmma against NumPy: whole numbers are exact in every order, so each form has one right answer."""

import ml_dtypes
import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import InvalidOperand, UnsupportedInstruction
from tools.cases.wgmma_ptx import ROWS, Wgmma

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
SWIZZLES = ("none", "32B", "64B", "128B")


def matrices(kernel: Wgmma, tiles: int = 1):
    """A, B and C of small whole numbers, A and B K-major."""
    generator = np.random.default_rng(7)

    def whole(shape, name):
        return generator.integers(0 if name == "u8" else -4, 5, shape).astype(TYPES[name])

    k = kernel.k * kernel.steps
    return (
        whole((tiles, ROWS, k), kernel.a),
        whole((tiles, kernel.n, k), kernel.b_type),
        whole((tiles, ROWS, kernel.n), kernel.d),
    )


def result(kernel: Wgmma, a, b, c, *, text: str | None = None, **options):
    """D as the emulator computes it, and the launch."""
    d = np.full(c.shape, 77).astype(c.dtype)
    given_a = np.ascontiguousarray(a.transpose(0, 2, 1)) if kernel.trans_a else a
    given_b = np.ascontiguousarray(b.transpose(0, 2, 1)) if kernel.trans_b else b
    done = launch(
        kernel.ptx() if text is None else text,
        grid=len(a),
        block=128,
        args=[given_a, given_b, c, d],
        **options,
    )
    return d, done


def check(kernel: Wgmma, tiles: int = 1) -> None:
    a, b, c = matrices(kernel, tiles)
    d, done = result(kernel, a, b, c)
    product = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    wanted = kernel.scale_a * kernel.scale_b * product
    if kernel.accumulate:
        wanted += c.astype(np.float64)
    np.testing.assert_array_equal(d.astype(np.float64), wanted)
    assert not done.notes


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_wgmma__every_n(n):
    check(Wgmma(n=n), tiles=2)


@pytest.mark.parametrize("swizzle_b", SWIZZLES)
@pytest.mark.parametrize("swizzle_a", SWIZZLES)
def test_wgmma__every_pair_of_swizzles(swizzle_a, swizzle_b):
    check(Wgmma(n=24, swizzle_a=swizzle_a, swizzle_b=swizzle_b))


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize(
    ("d", "a", "b"),
    [
        ("f32", "f16", "f16"),
        ("f16", "f16", "f16"),
        ("f32", "bf16", "bf16"),
        ("f32", "tf32", "tf32"),
        ("f32", "e4m3", "e4m3"),
        ("f16", "e5m2", "e5m2"),
        ("f32", "e4m3", "e5m2"),
        ("f16", "e5m2", "e4m3"),
        ("s32", "s8", "s8"),
        ("s32", "u8", "u8"),
        ("s32", "s8", "u8"),
        ("s32", "u8", "s8"),
    ],
)
def test_wgmma__every_type_from_shared_memory_and_registers(d, a, b, in_registers):
    check(Wgmma(n=16, d=d, a=a, b=b, a_in_registers=in_registers))
    check(
        Wgmma(n=32, d=d, a=a, b=b, a_in_registers=in_registers, steps=4, swizzle_a="128B", swizzle_b="128B")
    )


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("transposes", [(False, True), (True, False), (True, True)])
def test_wgmma__transposed_operands(swizzle, transposes):
    trans_a, trans_b = transposes
    # 32 bytes of K are one instruction's where K comes first.
    for steps in (1, 2) if swizzle != "32B" or all(transposes) else (1,):
        check(
            Wgmma(n=128, swizzle_a=swizzle, swizzle_b=swizzle, trans_a=trans_a, trans_b=trans_b, steps=steps)
        )


def test_wgmma__signs_and_the_first_of_a_chain():
    check(Wgmma(n=8, scale_a=-1))
    check(Wgmma(n=8, scale_b=-1, accumulate=False))
    check(Wgmma(n=8, a="e5m2", scale_a=-1, scale_b=-1))
    check(Wgmma(n=8, d="f16", accumulate=False, steps=2))


@pytest.mark.parametrize("base", range(1, 8))
def test_wgmma__a_pattern_that_starts_where_the_tile_does(base):
    check(Wgmma(n=16, swizzle_a="128B", swizzle_b="128B", base=base, steps=2))


def test_wgmma__whole_numbers_wrap_or_saturate():
    for satfinite in (False, True):
        kernel = Wgmma(n=8, d="s32", a="s8", satfinite=satfinite)
        a = np.full((1, ROWS, 32), 127, np.int8)
        b = np.full((1, 8, 32), 127, np.int8)
        c = np.full((1, ROWS, 8), 2**31 - 1, np.int32)
        d, _ = result(kernel, a, b, c)
        wanted = 2**31 - 1 if satfinite else 2**31 - 1 + 32 * 127 * 127 - 2**32
        assert (d == wanted).all()


def edited(kernel: Wgmma, old: str, new: str) -> str:
    text = kernel.ptx()
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("m64n8k16", "m64n12k16", "N a multiple of 8"),
        ("m64n8k16", "m64n8k8", "K is 16"),
        (".f32.f16.f16", ".f32.f16.bf16", "no .f32.f16.bf16"),
        (".f32.f16.f16", ".s32.f16.f16", "no .s32.f16.f16"),
        ("m64n8k16.f32.f16.f16", "sp.m64n8k16.f32.f16.f16", "a sparse A"),
        ("m64n8k16.f32.f16.f16", "m64n8k256.s32.b1.b1.and.popc", ".b1 is not supported"),
    ],
)
def test_wgmma__refuses_forms_by_name(old, new, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        result(Wgmma(), *matrices(Wgmma()), text=edited(Wgmma(), old, new))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{%d0, %d1, %d2, %d3},\n", "{%d0, %d1, %d2},\n", "D takes 4 registers"),
        ("%p, 1, 1, 0, 0;", "%p, 1, 1, 0;", "takes 8 operands"),
        ("%p, 1, 1, 0, 0;", "%p, 2, 1, 0, 0;", "imm-scale-a is a constant: 1 or -1"),
        ("%p, 1, 1, 0, 0;", "%p, 1, 1, 0, 2;", "imm-trans-b is a constant: 0 or 1"),
        ("or.b64 %b_desc, %b_desc, 0x", "or.b64 %b_desc, %b_desc, 0x400", "bits 46 to 48"),
    ],
)
def test_wgmma__refuses_wrong_operands(old, new, why):
    with pytest.raises(InvalidOperand, match=why):
        result(Wgmma(), *matrices(Wgmma()), text=edited(Wgmma(), old, new))


@pytest.mark.gpu("sm_90a")
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize(
    ("d", "a", "b"),
    [
        ("f32", "f16", "f16"),
        ("f16", "f16", "f16"),
        ("f32", "bf16", "bf16"),
        ("f32", "tf32", "tf32"),
        ("f32", "e4m3", "e4m3"),
        ("f16", "e4m3", "e4m3"),
        ("f32", "e5m2", "e5m2"),
        ("f16", "e5m2", "e5m2"),
        ("f32", "e4m3", "e5m2"),
        ("f16", "e5m2", "e4m3"),
    ],
)
def test_wgmma__gpu_gives_the_same_bits(d, a, b, accumulate):
    """Many more numbers than are recorded: any bits, near numbers, special ones, each with each kind of C."""
    from tools.cases import ptx_cases
    from tools.cases.ptx_gpu import Gpu

    kernel = Wgmma(n=8, d=d, a=a, b=b, accumulate=accumulate)
    kinds, tiles = ["bits", "near", "middle", "wide", "tiny", "special"], 96
    names = {2: "u16", 4: "u32", 1: "u8"}

    def array(name, shape, seed, which, **more):
        floats = {"tf32": "f32"}.get(name, name)
        return {"dtype": floats, "shape": list(shape), "kinds": which, "seed": seed, **more}

    gpu = Gpu()
    wrong = []
    for turn in range(6):
        which = kinds[turn:] + kinds[:turn]
        args = {
            "a": array(a, (tiles, ROWS, kernel.k), 100 + turn, kinds),
            "b": array(b, (tiles, kernel.n, kernel.k), 200 + turn, kinds),
            "c": array(d, (tiles, ROWS, kernel.n), 300 + turn, which),
            "d": array(names[kernel.d_bytes], (tiles, ROWS, kernel.n), 0, "poison", out=True),
        }
        case = ptx_cases.Case("wgmma", kernel.ptx(), grid=tiles, block=128, args=args)
        difference = ptx_cases.difference(
            f"turn {turn}, d", ptx_cases.run_on_emulator(case)["d"], gpu.run(case)["d"], {}, any_nan=False
        )
        wrong += [difference] if difference else []
    assert not wrong, "\n".join(wrong)
