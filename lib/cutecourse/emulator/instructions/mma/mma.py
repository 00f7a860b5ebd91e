"""mma.sync: a warp multiplies two small matrices, in the shapes and types of SM80 to SM120."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import DType, b8, dtype
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.facts import Facts
from cutecourse.emulator.core.kinds import Mask
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.registry import instruction
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.core.warp_values import require_whole_warps, whole_warps
from cutecourse.emulator.instructions.mma.fragments import Fragment, mma_fragment
from cutecourse.emulator.instructions.mma.scales import Scaling, take_scaling
from cutecourse.emulator.numbers.formats import FORMATS
from cutecourse.emulator.numbers.tensor_core_sums import (
    TENSOR_CORES,
    bit_products,
    byte_float_products,
    fused_float_products,
    integer_products,
    scaled_float_products,
    sequential_f64_products,
)

__all__ = ["MMA_FORMS", "MmaForm", "operation_of", "pack_elements", "unpack_elements"]


@dataclass(frozen=True)
class MmaForm:
    """A shape m x n x k, the types of D, A, B and C, and the kind, by their names in PTX."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    c: str
    kind: str = ""

    @property
    def shape(self) -> str:
        """The shape's modifier."""
        return f"m{self.m}n{self.n}k{self.k}"

    def element(self, operand: str) -> DType:
        """The type of operand "A", "B", "C" or "D"."""
        return dtype({"A": self.a, "B": self.b, "C": self.c, "D": self.d}[operand])

    def held(self, operand: str) -> DType:
        """The element as registers hold it: .kind::f8f6f4 and mxf8f6f4 have containers of 8 bits."""
        return b8 if self.kind.endswith("f8f6f4") and operand in "AB" else self.element(operand)

    def fragment(self, operand: str) -> Fragment:
        """The fragment of operand "A", "B", "C" or "D"."""
        return mma_fragment(operand, self.m, self.n, self.k, self.held(operand).bits)


_FP8 = ("e4m3", "e5m2")
_NARROW = (*_FP8, "e2m3", "e3m2", "e2m1")
_KINDS = ("kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4")


def _forms() -> dict[tuple[str, ...], MmaForm]:
    found = [
        *(MmaForm(16, 8, k, acc, "f16", "f16", acc) for k in (8, 16) for acc in ("f16", "f32")),
        *(MmaForm(16, 8, k, "f32", "bf16", "bf16", "f32") for k in (8, 16)),
        *(MmaForm(16, 8, k, "f32", "tf32", "tf32", "f32") for k in (4, 8)),
        *(
            MmaForm(16, 8, k, acc, a, b, acc)
            for k in (16, 32)
            for acc in ("f16", "f32")
            for a in _FP8
            for b in _FP8
        ),
        MmaForm(8, 8, 4, "f64", "f64", "f64", "f64"),
        *(MmaForm(16, 8, k, "f64", "f64", "f64", "f64") for k in (4, 8, 16)),
    ]
    for bits, shapes in ((8, ((8, 16), (16, 16), (16, 32))), (4, ((8, 32), (16, 32), (16, 64)))):
        found += [
            MmaForm(m, 8, k, "s32", f"{a}{bits}", f"{b}{bits}", "s32")
            for m, k in shapes
            for a in "su"
            for b in "su"
        ]
    found += [MmaForm(m, 8, k, "s32", "b1", "b1", "s32") for m, k in ((8, 128), (16, 128), (16, 256))]
    for a in _NARROW:
        for b in _NARROW:
            found += [MmaForm(16, 8, 32, acc, a, b, acc, "f8f6f4") for acc in ("f16", "f32")]
            found.append(MmaForm(16, 8, 32, "f32", a, b, "f32", "mxf8f6f4"))
    found += [MmaForm(16, 8, 64, "f32", "e2m1", "e2m1", "f32", kind) for kind in ("mxf4", "mxf4nvf4")]
    return {(form.shape, form.d, form.a, form.b, form.c, form.kind): form for form in found}


MMA_FORMS = _forms()
"""Every form by (shape, type of D, of A, of B, of C, kind); the kind is empty without .kind."""

_SHAPES = tuple(dict.fromkeys(form.shape for form in MMA_FORMS.values()))
_TYPES = ("f16", "bf16", "tf32", "f32", "f64", *_NARROW, "s8", "u8", "s4", "u4", "b1", "s32")


def unpack_elements(registers: NDArray[Any], element: DType) -> NDArray[Any]:
    """Split registers into elements: a float's bits as unsigned numbers, an integer's value as int64."""
    if element.bits >= 32:
        values = registers
    else:
        per_register = 32 // element.bits
        shifts = np.arange(per_register, dtype=np.uint32) * np.uint32(element.bits)
        values = (registers[..., None] >> shifts) & np.uint32((1 << element.bits) - 1)
        values = values.reshape(*registers.shape[:-1], -1)
    if element.kind == "float":
        return values
    whole = values.astype(np.int64)
    if element.kind == "int":
        half = 1 << (element.bits - 1)
        whole = (whole ^ half) - half
    return whole


def pack_elements(elements: NDArray[Any], element: DType) -> NDArray[Any]:
    """(..., elements) -> (..., registers) as uint32, or as uint64 for elements of 64 bits."""
    bits = elements.astype(np.uint64)
    if element.bits == 64:
        return bits
    per_register = 32 // element.bits
    low = bits & np.uint64((1 << element.bits) - 1)
    grouped = low.reshape(*elements.shape[:-1], -1, per_register)
    shifts = np.arange(per_register, dtype=np.uint64) * np.uint64(element.bits)
    packed: NDArray[np.uint32] = (grouped << shifts).sum(axis=-1, dtype=np.uint64).astype(np.uint32)
    return packed


@instruction("mma.sync", facts=Facts(category="MMA"))
def mma_sync(site: Site) -> Step:
    """Multiply two small matrices and add a third: D = A * B + C, each spread over the registers of one warp.

    Shapes:     A is m x k row by row, B is k x n column by column, C and D are m x n;
                `emulator.instructions.mma.fragments` says which lane holds which element. .kind::f8f6f4 and
                .kind::mxf8f6f4 have each element in a container of 8 bits: 6 bits in its lower ones, 4 bits
                in its middle. With .block_scale, `mma.scales` says which lane gives which scale factor.
    Errors:     UnsupportedInstruction for a shape and types that cannot be combined, InvalidOperand for a
                wrong number of registers or a selector, DivergedWarp if some lanes of a warp do not take
                part.
    Simplified: nothing for integers and f64. The other floats follow a published model of one GPU
                generation's tensor cores, `launch(..., arithmetic="sm_90")`, in
                `emulator.numbers.tensor_core_sums`; no GPU has confirmed it for e4m3 and e5m2 here. Forms
                with .kind follow that of sm_120, the only one that has them.
    Source:     PTX ISA 9.0, mma (#warp-level-matrix-instructions-mma).
    """
    site.expect("aligned")
    kind = (site.one_of(*_KINDS) or "").removeprefix("kind::")
    scaling = take_scaling(site, kind)
    shape = site.expect(*_SHAPES)
    if not (site.has("row") and site.has("col")):
        site.unsupported("the layouts of A and B must be .row.col")
    names = [site.type(*_TYPES) for _ in range(4)]
    form = MMA_FORMS.get((shape, *names, kind))
    if form is None:
        wanted = (shape, kind)
        known = sorted(
            {f"{f.d}.{f.a}.{f.b}.{f.c}" for f in MMA_FORMS.values() if (f.shape, f.kind) == wanted}
        )
        asked = f".{shape}" + (f".kind::{kind}" if kind else "")
        site.unsupported(f"{asked} takes the types {', '.join(known) or 'of no form'}")
    operation = operation_of(site, form, scaling)
    site.converge()

    held = {}
    for index, operand in enumerate("DABC"):
        element, fragment = form.held(operand), form.fragment(operand)
        rows_of = "u64" if element.bits == 64 else "u32"
        slots = site.destinations(index, rows_of) if operand == "D" else site.sources(index, rows_of)
        if len(slots) != fragment.n_registers:
            site.invalid(
                f"{site.instruction.name} takes {fragment.n_registers} registers for {operand},"
                f" and {len(slots)} are given"
            )
        held[operand] = (rows_of, slots, element, fragment)

    def step(bundle: Bundle, mask: Mask) -> None:
        require_whole_warps(site, bundle, mask)
        warps = whole_warps(bundle, mask)

        def matrix(operand: str) -> NDArray[Any]:
            rows_of, slots, element, fragment = held[operand]
            rows = bundle.rows[rows_of]
            registers = np.stack([rows[slot][warps] for slot in slots], axis=-1)
            found: NDArray[Any] = fragment.gather(unpack_elements(registers, element))
            if element is not b8:
                return found
            bits = form.element(operand).bits
            # An element of 4 bits stands in the middle of its container, all others below.
            return found >> (2 if bits == 4 else 0) & ((1 << bits) - 1)

        result = operation(bundle, warps, matrix("A"), matrix("B"), matrix("C"))
        rows_of, slots, element, fragment = held["D"]
        packed = pack_elements(fragment.scatter(result), element)
        for index, slot in enumerate(slots):
            bundle.rows[rows_of][slot][warps] = packed[..., index]

    return step


def operation_of(site: Site, form: MmaForm, scaling: Scaling | None) -> Any:
    """The function of (bundle, warps, A, B, C) that gives D, chosen by the form and the modifiers."""
    if form.a == "b1":
        gate = site.expect("xor", "and")
        if not site.has("popc"):
            site.unsupported("single-bit types need .popc")
        return lambda _, __, a, b, c: bit_products(a, b, c, exclusive_or=gate == "xor")
    if dtype(form.d).kind == "int":
        satfinite = site.has("satfinite")
        return lambda _, __, a, b, c: integer_products(a, b, c, satfinite=satfinite)
    if form.d == "f64":
        site.one_of("rn")
        return lambda _, __, a, b, c: sequential_f64_products(a, b, c)
    source, other, accumulator = FORMATS[form.a], FORMATS[form.b], FORMATS[form.d]
    if scaling is not None:
        return lambda bundle, warps, a, b, c: scaled_float_products(
            a, b, c, (source, other), scaling.factors(bundle, warps), scaling.kind
        )

    def multiply(bundle: Bundle, _: Any, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
        core = TENSOR_CORES["sm_120" if form.kind else bundle.machine.arithmetic]
        if source.bits == 8 and not form.kind:
            return byte_float_products(a, b, c, source, accumulator, core, other)
        return fused_float_products(a, b, c, source, accumulator, core, source_of_b=other)

    return multiply
