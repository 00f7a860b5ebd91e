"""Record what MMA-Sim makes of matrices, for the tests to compare the emulator's model of sums with.

    python tools/record_mmasim.py [--output FILE]

MMA-Sim is a model of tensor cores by P. Xie, Y. Wang, F. Yang and M. Yang (arXiv:2511.10909), under the MIT
License: `pip install mmasim`, which needs PyTorch. It is asked here and only its answers are kept; nothing of
it is part of this project, and no test needs it. Needs NumPy beside it.

For every form there are matrices of different kinds (`KINDS`): A (m, k), B (k, n) and C (m, n) as bits, and
for each generation D as MMA-Sim computes it. A NaN is kept as one and the same NaN.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "tests" / "emulator" / "recordings" / "mmasim.npz"

KINDS = ("ordinary", "any finite", "cancelling", "subnormal", "sparse", "large", "special")
FORMS = {
    "mma": {
        "shapes": [
            *(f"m16n8k{k}.{d}.f16.f16.{d}" for k in (8, 16) for d in ("f32", "f16")),
            *(f"m16n8k{k}.f32.bf16.bf16.f32" for k in (8, 16)),
            *(f"m16n8k{k}.f32.tf32.tf32.f32" for k in (4, 8)),
        ],
        "generations": ["Ampere", "Ada Lovelace", "Hopper", "Blackwell", "RTX Blackwell"],
    },
    "wgmma": {
        "shapes": [
            "m64n8k16.f32.f16.f16",
            "m64n8k16.f16.f16.f16",
            "m64n8k16.f32.bf16.bf16",
            "m64n8k8.f32.tf32.tf32",
        ],
        "generations": ["Hopper"],
    },
    "tcgen05.mma": {
        "shapes": [
            "m64n8k16.kind::f16.f32.f16.f16",
            "m64n8k16.kind::f16.f16.f16.f16",
            "m64n8k16.kind::f16.f32.bf16.bf16",
            "m64n8k8.kind::tf32.f32.tf32.tf32",
        ],
        "generations": ["Blackwell"],
    },
}
"""The forms that the emulator has too, by instruction, and the generations that MMA-Sim has for them."""
NARROW_FORMS = {
    "mma": {
        "shapes": [
            "m16n8k32.f32.e4m3.e4m3.f32",
            "m16n8k32.f16.e5m2.e4m3.f16",
            "m16n8k16.f32.e5m2.e5m2.f32",
        ],
        "generations": ["Ada Lovelace", "RTX Blackwell"],
    },
    "mma.kind": {
        "shapes": ["m16n8k32.kind::f8f6f4.f32.e3m2.e2m3.f32", "m16n8k32.kind::f8f6f4.f16.e2m1.e4m3.f16"],
        "generations": ["RTX Blackwell"],
    },
    "mma.block_scale": {
        "shapes": [
            "m16n8k32.kind::mxf8f6f4.block32.f32.e4m3.e2m1.f32.ue8m0",
            "m16n8k32.kind::mxf8f6f4.block32.f32.e3m2.e5m2.f32.ue8m0",
            "m16n8k64.kind::mxf4.block32.f32.e2m1.e2m1.f32.ue8m0",
            "m16n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.f32.ue8m0",
            "m16n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.f32.ue4m3",
        ],
        "generations": ["RTX Blackwell"],
    },
    "wgmma": {"shapes": ["m64n8k32.f32.e4m3.e4m3", "m64n8k32.f16.e5m2.e4m3"], "generations": ["Hopper"]},
    "tcgen05.mma": {
        "shapes": ["m64n8k32.kind::f8f6f4.f32.e4m3.e2m3", "m64n8k32.kind::f8f6f4.f16.e2m1.e3m2"],
        "generations": ["Blackwell"],
    },
    "tcgen05.mma.block_scale": {
        "shapes": [
            "m128n8k32.kind::mxf8f6f4.block32.f32.e5m2.e2m1.ue8m0",
            "m128n8k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3",
        ],
        "generations": ["Blackwell"],
    },
}
"""The same for elements of 8 bits and fewer. Their codes are kept, also of those that come in containers."""
REPEATS = {"mma": 2, "wgmma": 1, "tcgen05.mma": 1}

_FORMATS = {
    "f16": (16, 5, 10),
    "bf16": (16, 8, 7),
    "tf32": (32, 8, 23),
    "f32": (32, 8, 23),
    "e4m3": (8, 4, 3),
    "e5m2": (8, 5, 2),
    "e2m3": (6, 2, 3),
    "e3m2": (6, 3, 2),
    "e2m1": (4, 2, 1),
}
"""Bits, and bits of exponent and fraction, as they lie in memory."""
_SCALES = {"ue8m0": (118, 137), "ue4m3": (0, 0x7F)}
"""The codes of scale factors that are drawn: from, and up to but without."""


def drawn(kind: str, shape: tuple[int, ...], name: str, rng: np.random.Generator) -> Any:
    """Bits of a matrix of a format."""
    bits, exponent_bits, fraction_bits = _FORMATS[name]
    middle, last = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    exponent = rng.integers(middle - 3, middle + 4, shape)
    if kind == "any finite":
        exponent = rng.integers(0, last, shape)
    elif kind == "subnormal":
        exponent = rng.choice([0, 0, 1, middle], shape)
    elif kind == "large":
        exponent = rng.integers(last - 3, last, shape)
    elif kind == "special":
        exponent = np.where(rng.random(shape) < 0.02, last, exponent)
    exponent = np.clip(exponent, 0, last if bits < 8 else last - (kind != "special"))
    fraction = rng.integers(0, 1 << fraction_bits, shape)
    if kind == "special":
        fraction = np.where((exponent == last) & (rng.random(shape) < 0.7), 0, fraction)
    sign = rng.integers(0, 2, shape)
    found = (sign << (bits - 1)) | (exponent << fraction_bits) | fraction
    if name == "tf32":
        found = found >> 13 << 13
    if kind == "cancelling" and len(shape) == 2 and shape[1] > 1:
        # Neighbours along the rows differ in the sign and in the last places.
        near = (
            found[:, ::2]
            ^ (1 << (bits - 1))
            ^ (rng.integers(0, 2, found[:, ::2].shape) << (13 * (name == "tf32")))
        )
        found[:, 1::2] = near[:, : found[:, 1::2].shape[1]]
    if kind == "sparse":
        found = np.where(rng.random(shape) < 0.7, sign << (bits - 1), found)
    return found.astype(np.uint8 if bits <= 8 else np.uint16 if bits == 16 else np.uint32)


def operands(
    m: int, n: int, k: int, source: str, accumulator: str, repeats: int, seed: int, of_b: str = ""
) -> Iterator[tuple[Any, Any, Any]]:
    """Matrices of every kind. B of "cancelling" has rows in pairs of equals. `of_b` is B's own format."""
    rng = np.random.default_rng(seed)
    for kind in KINDS:
        for _ in range(repeats):
            a, b = drawn(kind, (m, k), source, rng), drawn(kind, (k, n), of_b or source, rng)
            if kind == "cancelling":
                b[1::2] = b[::2]
            yield a, b, drawn(kind, (m, n), accumulator, rng)


def computed(
    instruction: str, generation: str, shape: str, a: Any, b: Any, c: Any, types: tuple[str, str]
) -> Any:
    """D as MMA-Sim gives it."""
    import torch
    from mmasim import nv_ptx

    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "f32": torch.float32}
    operation = {"mma": nv_ptx.MMA, "wgmma": nv_ptx.WGMMA, "tcgen05.mma": nv_ptx.TCGen05MMA}[instruction]
    source, accumulator = types

    def tensor(values: Any, name: str) -> Any:
        signed = values.astype(np.int16 if values.itemsize == 2 else np.int32)
        return torch.from_numpy(signed).view(kinds[name])

    d = operation(generation, shape)(tensor(a, source), tensor(b, source), tensor(c, accumulator))
    narrow = accumulator == "f16"
    bits = d.contiguous().view(torch.int16 if narrow else torch.int32).numpy()
    found = bits.astype(np.uint16 if narrow else np.uint32)
    return np.where(torch.isnan(d).numpy(), found.dtype.type(0x7FFF if narrow else 0x7FFFFFFF), found)


def computed_narrow(
    instruction: str, generation: str, shape: str, types: tuple[str, str, str], given: tuple[Any, ...]
) -> Any:
    """D as MMA-Sim gives it from A, B, C and, with scale factors, those of A and B; all of them codes."""
    import torch
    from mmasim import nv_ptx

    floats = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "ue8m0": torch.float8_e8m0fnu}
    floats["ue4m3"] = torch.float8_e4m3fn
    known = {
        "mma.block_scale": nv_ptx.MMABlockScale,
        "wgmma": nv_ptx.WGMMA,
        "tcgen05.mma": nv_ptx.TCGen05MMA,
        "tcgen05.mma.block_scale": nv_ptx.TCGen05MMABlockScale,
    }
    make = known.get(instruction, nv_ptx.MMA)
    of_a, of_b, accumulator = types

    def tensor(codes: Any, name: str) -> Any:
        if name in floats:
            return torch.from_numpy(codes.view(np.int8)).view(floats[name])
        # In a container, 4 bits stand in the middle.
        return torch.from_numpy(codes << 2 if name == "e2m1" else codes)

    def packed(codes: Any) -> Any:
        """Two elements of 4 bits in a byte, the first one above, along the rows."""
        return torch.from_numpy(np.ascontiguousarray(codes[:, ::2] << 4 | codes[:, 1::2]))

    a, b, c, *scales = given
    if "k64" in shape:
        left, right = packed(a), packed(np.ascontiguousarray(b.T)).T
    else:
        left, right = tensor(a, of_a), tensor(b, of_b)
    narrow = accumulator == "f16"
    addend = torch.from_numpy(c.astype(np.int16 if narrow else np.int32))
    addend = addend.view(torch.float16 if narrow else torch.float32)
    factors = [tensor(codes, shape.rpartition(".")[2]) for codes in scales]
    d = make(generation, shape)(left, right, addend, *factors)
    bits = d.contiguous().view(torch.int16 if narrow else torch.int32).numpy()
    found = bits.astype(np.uint16 if narrow else np.uint32)
    return np.where(torch.isnan(d).numpy(), found.dtype.type(0x7FFF if narrow else 0x7FFFFFFF), found)


def narrow_forms() -> Iterator[tuple[str, Any]]:
    """The arrays of every narrow form, by name."""
    for instruction, forms in NARROW_FORMS.items():
        for seed, shape in enumerate(forms["shapes"]):
            size, *names = [part for part in shape.split(".") if "::" not in part]
            block = next((int(name[5:]) for name in names if name.startswith("block")), 0)
            accumulator, of_a, of_b = [name for name in names if not name.startswith("block")][:3]
            m, n, k = (int(part) for part in size[1:].replace("n", " ").replace("k", " ").split())
            made = list(operands(m, n, k, of_a, accumulator, 1, seed, of_b))
            if block:
                rng, (low, high) = np.random.default_rng(seed), _SCALES[names[-1]]
                scales = [
                    [
                        rng.integers(low, high, size).astype(np.uint8)
                        for size in ((m, k // block), (k // block, n))
                    ]
                    for _ in made
                ]
                made = [(*one, *two) for one, two in zip(made, scales, strict=True)]
            name = f"{instruction} {shape}"
            for index, operand in enumerate(("A", "B", "C", "SA", "SB")[: len(made[0])]):
                yield f"{name} {operand}", np.stack([one[index] for one in made])
            for generation in forms["generations"]:
                types = (of_a, of_b, accumulator)
                found = [computed_narrow(instruction, generation, shape, types, one) for one in made]
                yield f"{name} D {generation}", np.stack(found)


def main(given: list[str] | None = None) -> int:
    """Ask for every form and generation, and write the recording."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=RECORDING)
    options = parser.parse_args(given)
    kept: dict[str, Any] = {}
    for instruction, forms in FORMS.items():
        for seed, shape in enumerate(forms["shapes"]):
            size, *names = shape.split(".")
            names = [name for name in names if not name.startswith("kind")]
            m, n, k = (int(part) for part in size[1:].replace("n", " ").replace("k", " ").split())
            accumulator, source = names[0], names[1]
            made = list(operands(m, n, k, source, accumulator, REPEATS[instruction], seed))
            name = f"{instruction} {shape}"
            for operand, index in (("A", 0), ("B", 1), ("C", 2)):
                kept[f"{name} {operand}"] = np.stack([one[index] for one in made])
            for generation in forms["generations"]:
                found = [
                    computed(instruction, generation, shape, *one, (source, accumulator)) for one in made
                ]
                kept[f"{name} D {generation}"] = np.stack(found)
    kept.update(narrow_forms())
    header = {
        "program": f"mmasim {version('mmasim')}, arXiv:2511.10909, MIT License",
        "with": f"torch {version('torch').partition('+')[0]}, numpy {np.__version__}",
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "made_by": "tools/record_mmasim.py",
        "kinds": KINDS,
    }
    np.savez_compressed(options.output, header=np.array(json.dumps(header)), **kept)
    print(f"written: {options.output}, {options.output.stat().st_size} bytes, {len(kept)} arrays")
    return 0


if __name__ == "__main__":
    sys.exit(main())
