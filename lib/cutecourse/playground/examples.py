"""The examples of the playground: right kernels and broken ones, each with its launch filled in.

All are PTX written by hand: one text that is only here, and the twins of the chapters' kernels, some of them
with one change that breaks them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cutecourse.kernels import (
    copy_async,
    micro_gemm,
    tma_load,
    tma_pipeline,
    transpose_shared,
    umma_two_sm,
    wgmma_one,
)
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.kernels.twinning import twin
from cutecourse.playground.form import read

__all__ = ["EXAMPLES", "Example"]

VECTOR_ADD = """\
// c[i] = a[i] + b[i] for i < n, one thread for each element.
.version 8.0
.target sm_80
.address_size 64

.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %outside;
    .reg .b32 %block, %threads, %thread, %i, %n;
    .reg .b64 %a, %b, %c, %offset;
    .reg .f32 %x, %y;

    mov.u32             %block, %ctaid.x;
    mov.u32             %threads, %ntid.x;
    mov.u32             %thread, %tid.x;
    mad.lo.u32          %i, %block, %threads, %thread;
    ld.param.u32        %n, [n];
    setp.ge.u32         %outside, %i, %n;
    @%outside bra       END;

    ld.param.u64        %a, [a];
    ld.param.u64        %b, [b];
    ld.param.u64        %c, [c];
    cvta.to.global.u64  %a, %a;
    cvta.to.global.u64  %b, %b;
    cvta.to.global.u64  %c, %c;
    mul.wide.u32        %offset, %i, 4;
    add.u64             %a, %a, %offset;
    add.u64             %b, %b, %offset;
    add.u64             %c, %c, %offset;
    ld.global.f32       %x, [%a];
    ld.global.f32       %y, [%b];
    add.f32             %x, %x, %y;
    st.global.f32       [%c], %x;
END:
    ret;
}
"""
_VECTOR_ADD = LaunchSpec(
    "vector_add",
    "ptx",
    grid=(4, 1, 1),
    block=(64, 1, 1),
    params=(*(Tensor(name, "f32", (256,)) for name in "abc"), Scalar("n", "u32")),
    ptx=VECTOR_ADD,
)


@dataclass(frozen=True)
class Example:
    """A text with its launch.

    look      what the reader should look at in the results, one or two sentences.
    edits     what is replaced in the text; each must be there once.
    fields    fields of arguments that are not as the specification gives them, by the parameters' names.
    ends      "" for a right kernel, else the hazard that is reported.
    """

    name: str
    title: str
    look: str
    spec: LaunchSpec
    edits: tuple[tuple[str, str], ...] = ()
    fields: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    limit: str = ""
    ends: str = ""

    @cached_property
    def text(self) -> str:
        """The PTX text."""
        text = self.spec.ptx or ""
        for right, wrong in self.edits:
            assert text.count(right) == 1, f"{self.name}: {right!r} is there {text.count(right)} times"
            text = text.replace(right, wrong)
        return text

    def state(self) -> dict[str, Any]:
        """The form as the page shows it: `read`'s, with the values of the example."""
        form = read(self.text, self.spec.entry)
        launch = {"grid": self.spec.grid, "block": self.spec.block, "cluster": self.spec.cluster}
        form["launch"] = {
            **{name: ",".join(map(str, extents)).removesuffix(",1,1") for name, extents in launch.items()},
            "dynamic_smem": str(self.spec.dynamic_smem),
        }
        for place, (parameter, given) in enumerate(zip(form["parameters"], self.spec.params, strict=True)):
            chosen = _argument(given, seed=place)
            if chosen.get("fill") == "random" and parameter["argument"].get("fill") == "zeros":
                chosen["fill"] = "zeros"  # the kernel only writes it
            parameter["argument"] = {**chosen, **self.fields.get(parameter["name"], {})}
        form["sources"] = {}
        return {"text": self.text, "limit": self.limit, **form}


def _argument(given: Any, seed: int) -> dict[str, str]:
    if isinstance(given, Scalar):
        return {"kind": "number", "value": "1"}
    if isinstance(given, TensorMapSpec):
        encoding = given.encoding
        return {
            "kind": "map",
            "dtype": encoding.dtype.name,
            "shape": "x".join(map(str, reversed(encoding.dims))),
            "fill": "random",
            "seed": str(seed),
            "box": ",".join(map(str, encoding.box)),
            "swizzle": encoding.swizzle,
            "outside": encoding.oob_fill,
        }
    return {
        "kind": "array",
        "dtype": given.dtype.name,
        "shape": "x".join(map(str, _stored(given))),
        "fill": "random",
        "seed": str(seed),
    }


def _stored(tensor: Tensor) -> tuple[int, ...]:
    """The extents of a compact tensor in the order of its memory, the contiguous one last."""
    extents = tuple(extent for extent in tensor.extents if extent is not None)
    strides = tensor.strides_for(extents)
    ordered = tuple(extent for _, extent in sorted(zip(strides, extents, strict=True), reverse=True))
    assert math.prod(ordered) == tensor.cosize_for(extents), f"{tensor.name} is not compact"
    return ordered


_PIPELINE = twin(tma_pipeline.pipeline_spec(128, 256))
_TRANSPOSE = twin(transpose_shared.spec(64, 64))

_ARRIVE = "    mbarrier.arrive.shared::cta.b64 _, [%barrier + 32784];\n"

EXAMPLES = (
    Example(
        "vector_add",
        "Vector addition",
        "4 CTAs of 64 threads, but n is 250: the last 6 elements of c keep their zeros.",
        _VECTOR_ADD,
        fields={"a": {"fill": "arange"}, "b": {"fill": "ones"}, "n": {"value": "250"}},
    ),
    Example(
        "mma_sync",
        "One mma.sync",
        "One warp multiplies 16x16 by 16x8. C is stored column by column: the 8 rows shown are its columns.",
        twin(micro_gemm),
    ),
    Example(
        "transpose",
        "A transpose with bank conflicts",
        "The result is right. The memory report shows why it is slow: each read of shared memory takes 32 "
        "wavefronts where 1 would do.",
        _TRANSPOSE,
        fields={"source": {"fill": "arange"}},
    ),
    Example(
        "tma_load",
        "One TMA load",
        "One instruction loads the tile that begins at row 64 and column 128. The timeline shows its bytes "
        "in flight.",
        twin(tma_load),
        fields={"a": {"fill": "arange"}},
    ),
    Example(
        "tma_pipeline",
        "A TMA pipeline of two stages",
        "The timeline shows how producer and consumers wait for each other at the barriers full and empty.",
        _PIPELINE,
        fields={"a": {"fill": "ones"}},
    ),
    Example(
        "wgmma",
        "wgmma on Hopper",
        "Four warps share each MMA of 64x256x16. Both operands come from shared memory through descriptors.",
        twin(wgmma_one),
    ),
    Example(
        "two_sm",
        "tcgen05 with two SMs",
        "Two CTAs share one MMA of 256x256x16. In the timeline, the bytes of both CTAs arrive at the "
        "leader's barrier.",
        twin(umma_two_sm),
    ),
    Example(
        "missing_wait",
        "Missing wait",
        "The last wait_group is gone. Which load reads bytes that may not be there yet?",
        twin(copy_async.spec(32, 128)),
        edits=(("    cp.async.wait_group 0;\n", ""),),
        ends="never written",
    ),
    Example(
        "race",
        "A race for a stage",
        "The consumers say that a stage is empty before they have read it. The report names both sides: the "
        "reads and the TMA load that refills the stage.",
        _PIPELINE,
        edits=(
            (_ARRIVE, ""),
            ("    @!%done bra         UNTIL_FULL;\n", f"    @!%done bra         UNTIL_FULL;\n{_ARRIVE}"),
        ),
        ends="stage reused early",
    ),
    Example(
        "no_barrier",
        "Missing bar.sync",
        "The bar.sync between writing and reading the tile is gone. The report names the stores that should "
        "come first. One run is enough to find the bug.",
        _TRANSPOSE,
        edits=(("    bar.sync            0;\n", ""),),
        ends="never written",
    ),
    Example(
        "deadlock",
        "Deadlock from a wrong parity",
        "The producer waits for the wrong parity at a fresh barrier. The report says who waits where, and "
        "for how many arrivals.",
        _PIPELINE,
        edits=(("xor.b32             %before, %parity, 1; ", "mov.b32             %before, %parity;    "),),
        ends="deadlock",
    ),
    Example(
        "bytes",
        "Too many bytes expected",
        "The barrier expects 16384 bytes, but the copy brings only 8192. The report counts the missing "
        "bytes.",
        twin(tma_load),
        edits=(("[%full], 8192;\n    @%elected cp", "[%full], 16384;\n    @%elected cp"),),
        ends="transaction bytes",
    ),
    Example(
        "uninitialised",
        "A read of memory that nobody wrote",
        "The loop that copies A ends after half of its iterations, and an ld.shared reads the rest.",
        twin(micro_gemm),
        edits=(("mov.u32             %left, 8;", "mov.u32             %left, 4;"),),
        ends="never written",
    ),
    Example(
        "swizzle",
        "Wrong swizzle",
        "The text is right, but a's tensor map has no swizzle. The MMA's descriptor asks for the "
        "128-byte swizzle.",
        twin(umma_two_sm),
        fields={"a": {"swizzle": "none"}},
        ends="another layout",
    ),
    Example(
        "endless",
        "An endless loop",
        "The loop that sums a row never gets to the next column. The launch ends at the instruction "
        "limit, and the report names the lines that ran most often. To end a longer run, press Stop.",
        _PIPELINE,
        edits=(("    add.u32             %column, %column, 2;\n", ""),),
        limit="20000",
        ends="endless",
    ),
)
"""The examples in the order of the page, the right ones first."""
