"""Ask the CuTe DSL about TMA: configurations as JSON in, one line of JSON an answer out.

Run as a process of its own: some configurations make the DSL's native code abort, and the caller then
starts another worker behind the one that did it.
"""

import json
import re
import sys
from typing import Any

import cutlass
import cutlass._mlir.dialects.cute_nvgpu as _cute_nvgpu_ir
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.nvgpu.cpasync.copy import CopyBulkTensorTileG2SMulticastNonExecTrait

DTYPES = {
    "s8": cutlass.Int8,
    "u8": cutlass.Uint8,
    "e4m3": cutlass.Float8E4M3FN,
    "u16": cutlass.Uint16,
    "f16": cutlass.Float16,
    "bf16": cutlass.BFloat16,
    "f32": cutlass.Float32,
    "tf32": cutlass.TFloat32,
    "f64": cutlass.Float64,
    "u32": cutlass.Uint32,
    "s32": cutlass.Int32,
    "u64": cutlass.Uint64,
    "s64": cutlass.Int64,
}


ANSWERED: list[dict[str, Any]] = []


def layout_of(text: str) -> Any:
    """A layout, or a swizzled one."""
    swizzled = re.match(r"S<(\d+),(\d+),(\d+)> o (\d+) o (.*)", text)
    if swizzled:
        b, m, s, offset = (int(swizzled[i]) for i in range(1, 5))
        return cute.make_composed_layout(cute.make_swizzle(b, m, s), offset, layout_of(swizzled[5]))
    shape, _, stride = text.partition(":")
    # the DSL prints (4) for a tuple of one
    one = re.compile(r"\((-?\d+)\)")
    return cute.make_layout(eval(one.sub(r"(\1,)", shape)), stride=eval(one.sub(r"(\1,)", stride)))


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(part) for part in value) if isinstance(value, list) else value


def show(value: Any) -> str:
    return cute.pretty_str(value)


def tensor_layout(tensor: Any) -> str:
    """A tensor's layout as its type prints it."""
    return str(tensor.type).split('"')[-2]


def answer_case(case: dict[str, Any]) -> dict[str, Any]:
    element = DTYPES[case["dtype"]]
    gmem = cute.make_tensor(
        cute.make_ptr(element, 0, cute.AddressSpace.gmem, assumed_align=16), layout_of(case["gtensor"])
    )
    tiler = as_tuple(case["tiler"])
    multicast = case["multicast"]
    op = cpasync.CopyBulkTensorTileG2SMulticastOp() if multicast > 1 else cpasync.CopyBulkTensorTileG2SOp()
    internal = DTYPES[case["internal"]] if case["internal"] else None
    slayout = layout_of(case["slayout"])
    if cute.rank(slayout) == len(tiler):
        atom, tma_tensor = cpasync.make_tiled_tma_atom(
            op, gmem, slayout, tiler, multicast, internal_type=internal
        )
    else:
        atom, tma_tensor = mma_atom(op, gmem, slayout, tiler, multicast)
    kind = str(atom._trait.value.type)
    answer: dict[str, Any] = {
        "tma_gbasis": re.search(r'tma_gbasis = <"([^"]*)">', kind)[1],  # type: ignore[index]
        "copy_bits": int(re.search(r"copy_bits = (\d+)", kind)[1]),  # type: ignore[index]
        "tma_format": re.search(r"tma_format = (\w+)", kind)[1],  # type: ignore[index]
        "tma_tensor": show(tma_tensor.layout),
        "tma_start": show(tma_tensor.iterator),
    }
    if "staged" in case:
        smem = cute.make_tensor(
            cute.make_ptr(element, 0, cute.AddressSpace.smem, assumed_align=1024), layout_of(case["staged"])
        )
        rest = rest_coord(gmem.shape, tiler)
        tiles = cute.group_modes(cute.local_tile(tma_tensor, tiler, rest), 0, len(tiler))
        answer["tiles"] = show(tiles.layout)
        answer["parts"] = []
        for cta in range(multicast):
            ts, tg = cpasync.tma_partition(atom, cta, cute.make_layout(multicast), smem, tiles)
            answer["parts"].append([show(ts.layout), show(tg.layout), show(tg.iterator)])
    return answer


def rest_coord(shape: Any, tiler: Any) -> Any:
    """A coordinate that leaves all tiles open."""
    return tuple(None for _ in shape) if isinstance(shape, tuple) else (None,)


def mma_atom(op: Any, gmem: Any, slayout: Any, tiler: Any, multicast: int) -> Any:
    """make_tiled_tma_atom for a layout with other modes than the tiler: all in one, as the DSL wants it."""
    whole = cute.group_modes(slayout, 0, cute.rank(slayout))
    cta_v_map = cute.composition(cute.make_identity_layout(gmem.shape), tiler)
    made, tma_tensor = _cute_nvgpu_ir.atom_make_non_exec_tiled_tma_load(
        gmem.value,
        getattr(whole, "value", whole),
        cute.group_modes(cta_v_map, 0, cute.rank(cta_v_map)),
        op._to_ir(),
        num_multicast=multicast,
    )
    trait = CopyBulkTensorTileG2SMulticastNonExecTrait(made)
    return cute.atom.CopyAtom(op, trait), tma_tensor


def masks(case: dict[str, Any]) -> None:
    """Print the DSL's mask of every CTA: a value of the compiled program, so it is printed when it runs."""
    cluster = cute.tiled_divide(cute.make_layout(as_tuple(case["cluster"])), (case["thr_id"],))
    extents = [cute.size(cluster, mode=[mode]) for mode in range(4)]
    for index in range(cute.size(cluster)):
        crd, left = [], index
        for extent in extents:
            crd.append(left % extent)
            left //= extent
        for mode in (1, 2):
            mask = cpasync.create_tma_multicast_mask(cluster, tuple(crd), mode)
            cute.printf("mask {} {} {}", index, mode, mask)


def evaluate_all(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        try:
            answer = ["ok", answer_case(case)]
        except Exception as error:  # noqa: BLE001 - whatever the DSL raises is its answer
            answer = ["refused", {"refused": f"{type(error).__name__}: {error}"}]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
        ANSWERED.append(case)


@cute.jit
def run(cases: cutlass.Constexpr):
    evaluate_all(cases)


def trace_only(cases: list[dict[str, Any]]) -> None:
    """The cases inside of one function of the DSL, which answers while it is traced.

    The function has no use but its trace; what the compiler says of it afterwards does not matter (it cannot
    lower every coordinate of a mode with one element).
    """
    before = len(ANSWERED)
    try:
        run(cases)
    except Exception:
        if len(ANSWERED) < before + len(cases):
            raise


@cute.jit
def print_masks(cases: cutlass.Constexpr):
    for case in cutlass.range_constexpr(len(cases)):
        masks(cases[case])


if __name__ == "__main__":
    everything = json.load(sys.stdin)
    if "cluster" in everything[0]:
        print_masks(everything)
    else:
        for begin in range(0, len(everything), 40):
            trace_only(everything[begin : begin + 40])
