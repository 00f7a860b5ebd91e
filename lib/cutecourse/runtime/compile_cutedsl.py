"""A CuTe DSL host function to PTX, for any target and with no GPU.

Beside the kernels' own files, only this module imports cutlass.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from typing import Any

from cutecourse.dtypes import DType
from cutecourse.kernels.files import resolved
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor
from cutecourse.runtime.compiled import with_lowered_version
from cutecourse.runtime.errors import CompileError, NoCompilerError

__all__ = ["ASSUMED_ALIGN_BYTES", "compile_cutedsl", "compile_host"]

# What cuMemAlloc gives is aligned to 256 bytes; 16 lets the compiler use its widest loads.
ASSUMED_ALIGN_BYTES = 16

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FOLDER = re.compile(r"(?<=--> )\S*/(?=[^/\s]+:\d+:\d+)")
_NAMES = {
    "f16": "Float16",
    "bf16": "BFloat16",
    "tf32": "TFloat32",
    "f32": "Float32",
    "f64": "Float64",
    "e4m3": "Float8E4M3FN",
    "e5m2": "Float8E5M2",
    **{f"s{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"Uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"b{bits}": f"Uint{bits}" for bits in (8, 16, 32, 64)},
}


def compile_cutedsl(spec: LaunchSpec, target: str, line_info: bool = False) -> str:
    """Compile the specification's host function for `target` and return the PTX module's text.

    The kernel is given the specification's name, which keeps the text readable and the same in each process.
    Errors: NoCompilerError if the CuTe DSL is missing, CompileError if it refuses the kernel.
    """
    ptx: str | None = compile_host(spec, target, line_info).__ptx__
    if ptx is None:
        raise CompileError(f"{spec.name}: the CuTe DSL compiled it for {target} but kept no PTX.")
    return with_lowered_version(ptx)


def compile_host(spec: LaunchSpec, target: str, line_info: bool = False) -> Any:
    """Compile the host function and return the CuTe DSL's own object, which holds more than the PTX.

    The tensors are stand-ins that have a type and a layout and no memory, so nothing of a GPU is needed.
    Errors: NoCompilerError if the CuTe DSL is missing, CompileError if it refuses the kernel.
    """
    try:
        import cutlass
        from cutlass import cute
        from cutlass.base_dsl.compiler import DumpDir
    except ImportError as error:
        raise NoCompilerError(
            f"{spec.name} is a CuTe DSL kernel, and the CuTe DSL cannot be imported ({error}). "
            f"Install nvidia-cutlass-dsl.",
            "the CuTe DSL",
        ) from error
    arguments = [_stand_in(cutlass, param) for param in spec.arguments.values()]
    # Keeping the PTX also writes it to a file, by default into the reader's current directory. As an option
    # of this compile, and not as an environment variable, it works whoever imported cutlass first.
    with tempfile.TemporaryDirectory(prefix="cutecourse-") as folder:
        options: tuple[Any, ...] = (cute.GPUArch(target), cute.KeepPTX(True), DumpDir(folder))
        if line_info:
            options = (*options, cute.GenerateLineInfo(True))
        try:
            kernel, host = resolved(spec.kernel), resolved(spec.host)
            if kernel is not None:
                kernel.set_name_prefix(spec.name, remove_cutlass_symbol=True, keep_mangled_name=False)
            return cute.compile[options](host, *arguments)
        except Exception as error:
            raise CompileError(
                f"{spec.name}: the CuTe DSL did not compile it for {target}: {plain_reason(error)}"
            ) from error


def plain_reason(error: BaseException) -> str:
    """The compiler's reason in one line, without its colours, its suggestions and the files' folders."""
    text = _FOLDER.sub("", _COLOURS.sub("", str(error)))
    lines = itertools.takewhile(lambda line: "suggestion:" not in line, text.splitlines())
    return " ".join(" ".join(lines).split())


def _stand_in(cutlass: Any, param: Tensor | Scalar) -> Any:
    from cutlass.cute.runtime import make_fake_tensor

    numeric = getattr(cutlass, _name(param.dtype))
    if isinstance(param, Scalar):
        return numeric(0)
    stride = param.stride if param.stride is not None else (1,)
    return make_fake_tensor(numeric, param.shape, stride, assumed_align=ASSUMED_ALIGN_BYTES)


def _name(dtype: DType) -> str:
    name = _NAMES.get(dtype.name)
    if name is None:
        raise CompileError(f"the CuTe DSL has no type for {dtype}; these it has: {', '.join(_NAMES)}.")
    return name
