"""Ask the CuTe DSL about atoms and their tilings: cases as JSON in, one line of JSON an answer out.

Run as a process of its own: some cases make the DSL's native code abort, and the caller then starts
another worker behind the case that did it. A case has the form that `cpp/regenerate.py` describes.
"""

import contextlib
import json
import re
import sys
from typing import Any

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import CopyUniversalOp, OperandMajorMode, cpasync, warp, warpgroup

F16, BF16, F32, S8 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32, cutlass.Int8
MMA_OPS = {
    "SM80_16x8x8_F16F16F16F16_TN": lambda: warp.MmaF16BF16Op(F16, F16, (16, 8, 8)),
    "SM80_16x8x16_F16F16F16F16_TN": lambda: warp.MmaF16BF16Op(F16, F16, (16, 8, 16)),
    "SM80_16x8x8_F32F16F16F32_TN": lambda: warp.MmaF16BF16Op(F16, F32, (16, 8, 8)),
    "SM80_16x8x16_F32F16F16F32_TN": lambda: warp.MmaF16BF16Op(F16, F32, (16, 8, 16)),
    "SM80_16x8x8_F32BF16BF16F32_TN": lambda: warp.MmaF16BF16Op(BF16, F32, (16, 8, 8)),
    "SM80_16x8x16_F32BF16BF16F32_TN": lambda: warp.MmaF16BF16Op(BF16, F32, (16, 8, 16)),
    "SM80_16x8x4_F32TF32TF32F32_TN": lambda: warp.MmaTF32Op((16, 8, 4)),
    "SM80_16x8x8_F32TF32TF32F32_TN": lambda: warp.MmaTF32Op((16, 8, 8)),
}
FP8 = {"E4M3": cutlass.Float8E4M3FN, "E5M2": cutlass.Float8E5M2}


def wgmma_op(name: str) -> Any:
    """An operation of wgmma with both operands K-major, by CUTLASS's name."""
    found = re.match(r"SM90_(\d+)x(\d+)x(\d+)_(\w+?)_(SS|RS)", name)
    assert found is not None
    m, n, k, types, source = found.groups()
    d, a, b = re.findall(r"BF16|F16|F32|E4M3|E5M2", types)
    known = {"F16": F16, "BF16": BF16, "F32": F32, **FP8}
    place = warpgroup.OperandSource.SMEM if source == "SS" else warpgroup.OperandSource.RMEM
    shape, major = (int(m), int(n), int(k)), OperandMajorMode.K
    if a in FP8:
        return warpgroup.MmaF8Op(known[a], known[b], known[d], shape, place, major, major)
    return warpgroup.MmaF16BF16Op(known[a], known[d], shape, place, major, major)


DTYPES = {"f16": F16, "f32": F32, "s8": S8, "f64": cutlass.Float64}


def layout_of(text: str) -> Any:
    """A layout, a swizzled layout, or with no colon in the text an identity layout."""
    swizzled = re.match(r"S<(\d+),(\d+),(\d+)> o (\d+) o (.*)", text)
    if swizzled:
        b, m, s, offset = (int(swizzled[i]) for i in range(1, 5))
        return cute.make_composed_layout(cute.make_swizzle(b, m, s), offset, layout_of(swizzled[5]))
    shape, _, stride = text.partition(":")
    return cute.make_layout(eval(shape), stride=eval(stride))


def tensor_of(text: str) -> Any:
    """A tensor that counts: its elements are their own offsets (or coordinates)."""
    if ":" not in text:
        return cute.make_identity_tensor(eval(text))
    return cute.make_tensor(0, layout_of(text))


def copy_atom(name: str, dtype: str) -> Any:
    value = DTYPES[dtype]
    ldmatrix = re.fullmatch(r"SM75_U(?:32|16)x(\d)_LDSM_([NT])", name)
    if ldmatrix:
        transposed = ldmatrix[2] == "T"
        matrices = int(ldmatrix[1]) // (2 if transposed else 1)
        return cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transposed, matrices), value)
    bits = int(re.search(r"uint(\d+)_t", name)[1])  # type: ignore[index]
    op = cpasync.CopyG2SOp() if "CP_ASYNC" in name else CopyUniversalOp()
    return cute.make_copy_atom(op, value, num_bits_per_copy=bits)


def tiled_mma(case: dict[str, Any]) -> Any:
    tiles = tuple(layout_of(t) if isinstance(t, str) else t for t in case["permutation"])
    return cute.make_tiled_mma(MMA_OPS[case["op"]](), layout_of(case["atom_layout"]), tiles)


def show(value: Any) -> str:
    return cute.pretty_str(value)


def part(answer: dict[str, str], name: str, thread: int, tensor: Any) -> None:
    answer[f"{name}@{thread}.layout"] = show(tensor.layout)
    answer[f"{name}@{thread}.offset"] = show(tensor.iterator)


def mma_layouts(mma: Any) -> dict[str, str]:
    return {
        "thr_layout_vmnk": show(mma.thr_layout_vmnk),
        "tile_shape": show(tuple(mma.get_tile_size(i) for i in range(3))),
        "layout_a_tv": show(mma.tv_layout_A_tiled),
        "layout_b_tv": show(mma.tv_layout_B_tiled),
        "layout_c_tv": show(mma.tv_layout_C_tiled),
    }


def copy_parts(answer: dict[str, str], copy: Any, source: str, destination: str, threads: list[int]) -> None:
    answer["tiler_mn"] = show(copy.tiler_mn)
    answer["layout_tv"] = show(copy.layout_tv_tiled)
    answer["layout_s_tv"] = show(copy.layout_src_tv_tiled)
    answer["layout_d_tv"] = show(copy.layout_dst_tv_tiled)
    for thread in threads:
        part(answer, "s", thread, copy.get_slice(thread).partition_S(tensor_of(source)))
        part(answer, "d", thread, copy.get_slice(thread).partition_D(tensor_of(destination)))


def answer_case(case: dict[str, Any]) -> dict[str, str]:
    kind = case["kind"]
    if kind == "mma_atom":
        op = case["op"]
        atom = cute.make_mma_atom(MMA_OPS[op]() if op in MMA_OPS else wgmma_op(op))
        return {
            "shape_mnk": show(atom.shape_mnk),
            "thr_id": show(atom.thr_id),
            "layout_a": show(atom.tv_layout_A),
            "layout_b": show(atom.tv_layout_B),
            "layout_c": show(atom.tv_layout_C),
        }
    if kind == "copy_atom":
        atom = copy_atom(case["op"], case["dtype"])
        return {
            "thr_id": show(atom.thr_id),
            "layout_src": show(atom.layout_src_tv),
            "layout_dst": show(atom.layout_dst_tv),
        }
    if kind == "tiled_mma":
        mma = tiled_mma(case)
        answer = mma_layouts(mma)
        for operand, cut in zip("abc", (mma._thrfrg_A, mma._thrfrg_B, mma._thrfrg_C), strict=True):
            text = case[operand]
            if ":" in text and not text.startswith("S"):
                answer[f"thrfrg_{operand}"] = show(cut(layout_of(text)))
        for thread in case["slices"]:
            thr = mma.get_slice(thread)
            part(answer, "a", thread, thr.partition_A(tensor_of(case["a"])))
            part(answer, "b", thread, thr.partition_B(tensor_of(case["b"])))
            part(answer, "c", thread, thr.partition_C(tensor_of(case["c"])))
        shapes = (mma.partition_shape_A, mma.partition_shape_B, mma.partition_shape_C)
        for operand, shape_of in zip("abc", shapes, strict=True):
            try:
                answer[f"shape_{operand}"] = show(shape_of(tensor_of(case[operand]).shape))
            except Exception:  # noqa: BLE001 - it refuses where the partition itself does not
                answer[f"shape_{operand}"] = "refused"
        return answer
    answer: dict[str, str] = {}
    if kind == "moved":
        part(answer, "t", 0, cute.domain_offset(tuple(case["coord"]), tensor_of(case["tensor"])))
        return answer
    if kind == "pointer":
        return pointer(case)
    if kind == "fragment_like":
        start = cute.make_ptr(F16, 0, cute.AddressSpace.smem, assumed_align=16)
        return {
            "fragment": show(
                cute.make_fragment_like(cute.make_tensor(start, layout_of(case["layout"]))).layout
            )
        }
    copy = tiled_copy(case)
    if kind == "retile":
        registers = cute.make_rmem_tensor(layout_of(case["fragment"]), DTYPES[case["dtype"]])
        return {"retile": show(copy.retile(registers).layout)}
    source, destination = (case.get(side, case.get("tensor")) for side in "sd")
    copy_parts(answer, copy, source, destination, case["slices"])
    return answer


def pointer(case: dict[str, Any]) -> dict[str, str]:
    """A tensor behind a swizzled pointer, recast; the pointer's type is all that the DSL tells of it here."""
    unsigned = {"u8": cutlass.Uint8, "u16": cutlass.Uint16, "u32": cutlass.Uint32, "u64": cutlass.Uint64}
    swizzle = cute.make_swizzle(*case["swizzle"])
    start = cute.make_ptr(
        unsigned[case["dtype"]], 0, cute.AddressSpace.smem, assumed_align=4096, swizzle_=swizzle
    )
    tensor = cute.make_tensor(start, layout_of(case["layout"]))
    recast = cute.recast_tensor(tensor, unsigned[case["new"]])
    return {
        "recast.layout": show(recast.layout),
        "pointer": str(start.type),
        "recast_ptr": str(cute.recast_ptr(start, dtype=unsigned[case["new"]]).type),
        "recast_ptr, swizzle": str(cute.recast_ptr(start, swizzle, unsigned[case["new"]]).type),
    }


def tiled_copy(case: dict[str, Any]) -> Any:
    kind = case["kind"]
    if kind in ("mma_copy", "retile"):
        make = {
            "a": cute.make_tiled_copy_A,
            "b": cute.make_tiled_copy_B,
            "c": cute.make_tiled_copy_C,
            "C_atom": cute.make_tiled_copy_C_atom,
        }[case["operand"]]
        return make(copy_atom(case["copy"], case["dtype"]), tiled_mma(case))
    atom = copy_atom(case["op"], case["dtype"])
    if kind == "side_copy":
        make = {"s": cute.make_tiled_copy_S, "d": cute.make_tiled_copy_D}[case["side"]]
        return make(atom, tiled_copy(case["base"]))
    if kind == "tiled_copy":
        return cute.make_tiled_copy_tv(atom, layout_of(case["thr"]), layout_of(case["val"]))
    return cute.make_cotiled_copy(atom, layout_of(case["atom_tv"]), layout_of(case["data"]))


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


@cute.jit
def print_less(number: cutlass.Constexpr, a: cutlass.Constexpr, b: cutlass.Constexpr):
    """Print the comparison when the compiled function runs: the DSL does not know it earlier."""
    cute.printf("less {} {}\n", number, cutlass.Int32(cute.elem_less(a, b)))


def nested(value: Any) -> Any:
    """JSON's lists as tuples."""
    return tuple(nested(part) for part in value) if isinstance(value, list) else value


def compare_all(pairs: list[Any]) -> None:
    """One line a pair, in any order: what `elem_less` says, and nothing where the DSL refuses."""
    for number, (a, b) in enumerate(pairs):
        with contextlib.suppress(Exception):
            print_less(number, nested(a), nested(b))


if __name__ == "__main__":
    everything = json.load(sys.stdin)
    if sys.argv[1:] == ["--less"]:
        compare_all(everything)
        sys.exit()
    # A batch a function: one function with thousands of operations gets slow.
    for begin in range(0, len(everything), 40):
        run(everything[begin : begin + 40])
