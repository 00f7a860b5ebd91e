"""Ask the CuTe DSL about tcgen05: configurations as JSON in, one line of JSON an answer out."""

import json
import re
import sys
from typing import Any

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)

DTYPES = {
    "e4m3": cutlass.Float8E4M3FN,
    "f16": cutlass.Float16,
    "bf16": cutlass.BFloat16,
    "f32": cutlass.Float32,
    "tf32": cutlass.TFloat32,
    "s32": cutlass.Int32,
}
MAJORS = {"K": OperandMajorMode.K, "MN": OperandMajorMode.MN}


def as_tuple(value: Any) -> Any:
    return tuple(as_tuple(part) for part in value) if isinstance(value, list) else value


def show(value: Any) -> str:
    return cute.pretty_str(value)


def found(pattern: str, text: str) -> str:
    """What the pattern's group matches. Errors: LookupError where the DSL prints its atoms another way."""
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"the DSL's text has no {pattern}: {text}")
    return match[1]


def tiled_mma(case: dict[str, Any]) -> Any:
    """The tiled MMA of a case."""
    group = tcgen05.CtaGroup.ONE if case["sms"] == 1 else tcgen05.CtaGroup.TWO
    majors = [MAJORS[case.get("a_major", "K")], MAJORS[case.get("b_major", "K")]]
    source = tcgen05.OperandSource.TMEM if case.get("a_from") == "tmem" else tcgen05.OperandSource.SMEM
    op = tcgen05.MmaF16BF16Op(
        DTYPES[case["ab"]],
        DTYPES[case["c"]],
        (case["m"], case["n"], case.get("k", 16)),
        group,
        source,
        *majors,
    )
    return cute.make_tiled_mma(op)


def tma_atom(case: dict[str, Any], mma: Any) -> dict[str, Any]:
    """The TMA atom of an operand, and what the DSL makes of the shared memory that it fills."""
    element = DTYPES[case["ab"]]
    shape, stride = as_tuple(case["gmem"])
    gmem = cute.make_tensor(
        cute.make_ptr(element, 0, cute.AddressSpace.gmem, assumed_align=16),
        cute.make_layout(shape, stride=stride),
    )
    tiler = as_tuple(case["tiler"])
    which = case["operand"]
    taken = (tiler[0], tiler[2]) if which == "A" else (tiler[1], tiler[2])
    mma_shape = mma.partition_shape_A(taken) if which == "A" else mma.partition_shape_B(taken)
    kind = getattr(tcgen05.SmemLayoutAtomKind, case["atom"])
    slayout = tcgen05.tile_to_mma_shape(tcgen05.make_smem_layout_atom(kind, element), mma_shape)
    group = tcgen05.CtaGroup.TWO if case["copy_sms"] == 2 else tcgen05.CtaGroup.ONE
    cluster = cute.tiled_divide(cute.make_layout(as_tuple(case["cluster"])), (mma.thr_id,))
    if case["multicast"]:
        op: Any = cpasync.CopyBulkTensorTileG2SMulticastOp(group)
    else:
        op = cpasync.CopyBulkTensorTileG2SOp(group)
    make = make_tiled_tma_atom_A if which == "A" else make_tiled_tma_atom_B
    made = make(op, gmem, slayout, tiler, mma, cluster.shape)
    atom, coords = made[0], made[1]
    text = str(atom._trait.value.type)
    return {
        "slayout": show(slayout),
        "tma_gbasis": found(r'tma_gbasis = <"([^"]*)">', text),
        "copy_bits": int(found(r"copy_bits = (\d+)", text)),
        "thr_id": show(atom.thr_id),
        "tma_tensor": show(coords.layout),
    }


def tmem_copy(case: dict[str, Any], mma: Any) -> dict[str, Any]:
    """The tiled copy of a fragment and a thread's parts of it and of a tensor of coordinates."""
    shape = as_tuple(case["shape"])
    fragment = mma.make_fragment_C(shape)
    kind, shape_name, repetitions, packed = case["op"]
    more: list[Any] = [getattr(tcgen05.Repetition, f"x{repetitions}")]
    if packed:
        more.append(tcgen05.Pack.PACK_16b_IN_32b if kind == "Ld" else tcgen05.Unpack.UNPACK_32b_IN_16b)
    op = getattr(tcgen05, f"{kind}{shape_name}Op")(*more)
    atom = cute.make_copy_atom(op, DTYPES[case["c"]])
    copy = tcgen05.make_tmem_copy(atom, fragment)
    answer = {
        "fragment": show(fragment.layout),
        "layout_src": show(copy.layout_src_tv_tiled),
        "layout_dst": show(copy.layout_dst_tv_tiled),
    }
    coords = cute.make_identity_tensor(shape)
    for thread in (42,):
        thr = copy.get_slice(thread)
        registers = thr.partition_D(coords) if kind == "Ld" else thr.partition_S(coords)
        memory = thr.partition_S(fragment) if kind == "Ld" else thr.partition_D(fragment)
        answer[f"registers{thread}"] = f"{show(registers.iterator)} o {show(registers.layout)}"
        answer[f"memory{thread}"] = show(memory.layout)
    return answer


def answer_case(case: dict[str, Any]) -> dict[str, Any]:
    if case["kind"] == "atom":
        kind = getattr(tcgen05.SmemLayoutAtomKind, case["atom"])
        atom = tcgen05.make_smem_layout_atom(kind, DTYPES[case["dtype"]])
        answer = {"atom": show(atom)}
        if case["shape"]:
            answer["result"] = show(tcgen05.tile_to_mma_shape(atom, as_tuple(case["shape"])))
        return answer
    mma = tiled_mma(case)
    if case["kind"] == "legal":
        return {"shape_mnk": show(mma.shape_mnk)}
    if case["kind"] == "tma_atom":
        return tma_atom(case, mma)
    if case["kind"] == "tmem_copy":
        return tmem_copy(case, mma)
    tiler = as_tuple(case["tiler"])
    answer = {
        "thr_id": show(mma.thr_id),
        "shape_mnk": show(mma.shape_mnk),
        "thr_layout_vmnk": show(mma.thr_layout_vmnk),
        "layout_a": show(mma.tv_layout_A),
        "layout_b": show(mma.tv_layout_B),
        "layout_c": show(mma.tv_layout_C),
        "shape_A": show(mma.partition_shape_A((tiler[0], tiler[2]))),
        "shape_B": show(mma.partition_shape_B((tiler[1], tiler[2]))),
        "shape_C": show(mma.partition_shape_C((tiler[0], tiler[1]))),
    }
    fragment = mma.make_fragment_C(mma.partition_shape_C((tiler[0], tiler[1])))
    answer["fragment"] = show(fragment.layout)
    answer["columns"] = str(tcgen05.find_tmem_tensor_col_offset(fragment))
    for cta in range(case["sms"]):
        thr = mma.get_slice(cta)
        for operand, x, y in (("A", 0, 2), ("B", 1, 2), ("C", 0, 1)):
            coords = cute.make_identity_tensor((tiler[x], tiler[y]))
            part = getattr(thr, f"partition_{operand}")(coords)
            answer[f"part_{operand}{cta}"] = f"{show(part.iterator)} o {show(part.layout)}"
    return answer


def evaluate_all(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        try:
            answer = ["ok", answer_case(case)]
        except Exception as error:  # noqa: BLE001 - whatever the DSL raises is its answer
            answer = ["refused", {"refused": f"{type(error).__name__}: {error}"}]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


@cute.jit
def run(cases: cutlass.Constexpr):
    evaluate_all(cases)


if __name__ == "__main__":
    run(json.load(sys.stdin))
