"""A numba-cuda kernel to PTX, for any target and with no GPU.

Beside the kernels' own files, only this module imports numba.
"""

from __future__ import annotations

from typing import Any

from cutecourse.kernels.files import resolved
from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, compute_capability_of
from cutecourse.runtime.compiled import only_entry, with_lowered_version
from cutecourse.runtime.errors import CompileError, NoCompilerError

__all__ = ["array_layout", "compile_numba"]


def compile_numba(spec: LaunchSpec, target: str, line_info: bool = False) -> str:
    """Compile the specification's kernel for `target` and return the PTX module's text.

    numba mangles a counter into the kernel's name; it is replaced by the specification's name, and the
    module's `.version` lowered to PTX_VERSION, so that one kernel gives one text in each process.
    Errors: NoCompilerError if numba-cuda is missing, CompileError if it refuses the kernel.
    """
    try:
        from numba import cuda
        from numba.core.errors import NumbaError
        from numba.cuda import types
    except ImportError as error:
        raise NoCompilerError(
            f"{spec.name} is a numba-cuda kernel, and numba-cuda cannot be imported ({error}). "
            f"Install numba-cuda[cu13].",
            "numba-cuda",
        ) from error
    signature = types.void(*(_type(types, param) for param in spec.params))
    try:
        kernel = resolved(spec.kernel)
        function = getattr(kernel, "py_func", kernel)
        ptx, _ = cuda.compile(
            function,
            signature,
            device=False,
            abi="numba",
            cc=compute_capability_of(target),
            output="ptx",
            lineinfo=line_info,
        )
    except (NumbaError, RuntimeError, OSError) as error:
        raise CompileError(f"{spec.name}: numba-cuda did not compile it for {target}. {error}") from error
    return _settled(spec.name, ptx)


def array_layout(tensor: Tensor) -> str:
    """Give numba's letter for how an array lies in memory: C row-major, F column-major, A any strides."""
    if tensor.stride is None or len(tensor.extents) < 2:
        return "C" if tensor.stride in (None, (1,)) else "A"
    extents = tensor.extents
    if None in extents:
        return "A"
    closed = tuple(extent for extent in extents if extent is not None)
    strides = tensor.strides_for(closed)
    row_major = Tensor(tensor.name, tensor.dtype, closed).strides_for(closed)
    if strides == row_major:
        return "C"
    column_major = Tensor(tensor.name, tensor.dtype, closed[::-1]).strides_for(closed[::-1])[::-1]
    return "F" if strides == column_major else "A"


def _type(types: Any, param: Tensor | Scalar) -> Any:
    # numba-cuda has a bf16 of its own, and none of the other types that NumPy lacks.
    name = {"bf16": "bfloat16"}.get(param.dtype.name) or (
        param.dtype.name if param.dtype.coded else param.dtype.numpy.name
    )
    element = getattr(types, name, None)
    if element is None:
        raise CompileError(f"parameter {param.name}: numba-cuda has no type for {param.dtype}.")
    if isinstance(param, Scalar):
        return element
    return types.Array(element, len(param.extents), array_layout(param))


def _settled(name: str, ptx: str) -> str:
    mangled = only_entry(name, ptx)
    # The environment pointer, which numba emits beside each kernel, carries the same mangled name.
    environment = mangled.replace("_ZN", "_ZN08NumbaEnv", 1)
    ptx = ptx.replace(environment, f"NumbaEnv_{name}").replace(mangled, name)
    return with_lowered_version(ptx)
