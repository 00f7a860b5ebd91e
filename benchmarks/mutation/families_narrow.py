"""Right kernels of the newer instructions: bytes and scale factors, maps that change, blocks on demand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mutation.family import Family
from cutecourse.block_scales import FORMATS, packed, placed, quantise
from cutecourse.dtypes import decode, dtype, encode
from cutecourse.kernels import LaunchSpec, Tensor, TensorMapSpec, scaled_persistent
from cutecourse.kernels.scaled_ladder import exact_operands
from cutecourse.tma import TensorMapEncoding
from tools.cases import ptx_cases

_KINDS = {
    # the kind, its instruction descriptor for 128x64, and the type of A, B and C
    "f8f6f4": ("kind::f8f6f4", 0x8100010, "e4m3", "f32"),
    "i8": ("kind::i8", 0x81004A0, "s8", "s32"),
    "mxf8f6f4": ("kind::mxf8f6f4.block_scale", 0x8900000, "e4m3", "f32"),
}
_K_TILES, _BYTES, _BYTES_OF_SCALES = 4, 128 * 32 + 64 * 32, 2 * 512


def _narrow(kind: str) -> Family:
    """A GEMM of bytes, with scale factors where the kind has them."""
    form, idesc, element, out = _KINDS[kind]
    scaled = kind.startswith("mx")
    text = _template()
    if not scaled:
        text = re.sub(r"[^\n]*// of scales\n", "", text)
    for name, value in {
        "KIND": form,
        "IDESC": hex(idesc),
        "BYTES": str(_BYTES + scaled * _BYTES_OF_SCALES),
        "SCALES": "[%sfa], [%sfb]," if scaled else "",
    }.items():
        text = re.sub(rf"\b{name}\b", value, text)
    a_map, b_map = (
        TensorMapEncoding(dtype("u8"), (128, rows), (128,), (32, rows), swizzle="32B") for rows in (128, 64)
    )
    spec = LaunchSpec(
        name="narrow_gemm",
        language="ptx",
        ptx=text,
        entry="narrow_gemm",
        target="sm_100a",
        params=(
            TensorMapSpec.encoded("a", "u8", (128, 128), (128, 1), a_map),
            TensorMapSpec.encoded("b", "u8", (64, 128), (128, 1), b_map),
            Tensor("scales_a", "u8", (_K_TILES, 512)),
            Tensor("scales_b", "u8", (_K_TILES, 512)),
            Tensor("c", out, (128, 64)),
        ),
        grid=(1, 1, 1),
        block=(128, 1, 1),
    )
    rng = np.random.default_rng(20)
    codes = [encode(rng.integers(-8, 8, (rows, 128)).astype(np.float32), element) for rows in (128, 64)]
    factors = [rng.integers(126, 130, (rows, _K_TILES)).astype(np.uint8) for rows in (128, 64)]
    values = [decode(held, element).astype(np.float64) for held in codes]
    if scaled:
        values = [
            value * decode(one, "ue8m0").astype(np.float64).repeat(32, axis=1)
            for value, one in zip(values, factors, strict=True)
        ]
    arrays = {
        "a": codes[0].view(np.uint8),
        "b": codes[1].view(np.uint8),
        "scales_a": _placed(factors[0]),
        "scales_b": _placed(factors[1]),
        "c": np.zeros((128, 64), np.float32 if out == "f32" else np.int32),
    }
    expected = (values[0] @ values[1].T).astype(arrays["c"].dtype)
    return Family(f"narrow_gemm, {kind}", "tcgen05 narrow", spec, arrays, {"c": expected})


def _template() -> str:
    return (Path(__file__).parent / "kernels" / "narrow_gemm.ptx").read_text(encoding="ascii")


def _placed(factors: Any) -> Any:
    """Scale factors as .32x128b.warpx4 takes them: for each k-tile 512 bytes, four rows to 16 of them."""
    held = np.full((_K_TILES, 32, 4, 4), 0xEE, np.uint8)
    for row, one in enumerate(factors):
        held[:, row % 32, row // 32, 0] = one
    return held.reshape(_K_TILES, 512)


def _case(name: str, target: str, params: tuple[Any, ...], **launch: Any) -> LaunchSpec:
    """One of the emulator's cases."""
    ptx = ptx_cases.load(name).ptx
    title = name.replace("/", "_")
    return LaunchSpec(
        name=title, language="ptx", ptx=ptx, entry="kernel", target=target, params=params, **launch
    )


def _launch_control() -> list[Family]:
    """Blocks that take others from the grid: alone, and in clusters of two."""
    alone = _case(
        "launch_control/one_block", "sm_100", (Tensor("times", "u32", (48, 32)),), grid=(6, 4, 2),
        block=(32, 1, 1),
    )  # fmt: skip
    pairs = _case(
        "launch_control/cluster", "sm_100a", (Tensor("times", "u32", (40, 32)),), grid=(4, 10, 1),
        block=(32, 1, 1), cluster=(2, 1, 1),
    )  # fmt: skip
    return [
        Family(
            name,
            "launch control",
            spec,
            {"times": np.zeros((blocks, 32), np.uint32)},
            {"times": np.ones((blocks, 32), np.uint32)},
        )
        for name, spec, blocks in (("launch control", alone, 48), ("launch control, pairs", pairs, 40))
    ]


def _map_replaced() -> Family:
    encoding = TensorMapEncoding(dtype("u16"), (64, 8), (128,), (64, 4))
    spec = _case(
        "tensor/map_replaced",
        "sm_90a",
        (
            Tensor("a", "u16", (8, 64), (64, 1)),
            Tensor("b", "u16", (16, 128)),
            Tensor("g", "u32", (32,)),
            TensorMapSpec.encoded("m", "u16", (8, 64), (64, 1), encoding, array="a"),
            Tensor("d", "u8", (1024,)),
        ),
        grid=(1, 1, 1),
        block=(128, 1, 1),
    )
    rng = np.random.default_rng(21)
    a, b = (rng.integers(0, 1 << 16, shape).astype(np.uint16) for shape in ((8, 64), (16, 128)))
    arrays = {"a": a, "b": b, "g": np.zeros(32, np.uint32), "d": np.zeros(1024, np.uint8)}
    moved = np.concatenate([b[9:13, :64].reshape(-1).view(np.uint8), np.full(512, 165, np.uint8)])
    return Family("map_replaced", "tensor map changed", spec, arrays, {"d": moved})


def _persistent(form: str, sms: int) -> Family:
    """A GEMM of blocks with scale factors, with roles and two accumulators: three tiles for one pair."""
    spec = scaled_persistent.spec(128 * sms, 384, 192, form=form, sms=sms)
    given, product = exact_operands(spec, form, seed=22)
    expected = encode((given["alpha"] * product).astype(np.float32), "bf16")
    return Family(f"scaled_persistent, {form}", "tcgen05 block scales", spec, given, {"d": expected})


def _quantising(form: str, sms: int) -> Family:
    """The same GEMM, with a result in blocks that the next one can load."""
    out = FORMATS[form]
    spec = scaled_persistent.spec(128 * sms, 384, 192, form=form, sms=sms, quantises=form)
    given, product = exact_operands(spec, form, seed=22)
    codes, factors = quantise(given["alpha"] * product, out)
    expected = {"d": packed(codes, out), "sfd": placed(factors)}
    return Family(f"scaled_persistent, {form}, quantises", "quantising", spec, given, expected)


def newer_families() -> list[Family]:
    """These kernels."""
    return [
        *map(_narrow, _KINDS),
        _persistent("mxf8", 2),
        _persistent("nvf4", 1),
        _quantising("mxf8", 2),
        _quantising("nvf4", 1),
        *_launch_control(),
        _map_replaced(),
    ]
