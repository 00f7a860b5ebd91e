"""What CuTe does with a tensor, a shared-memory layout and a tiler to make a TMA descriptor, step by step.

`trace_tma_atom` makes an atom and keeps every value on the way (`TmaTrace`); its `encoding` holds the
arguments of the driver's cuTensorMapEncodeTiled and the driver's rules (`TensorMapEncoding.check`).
`Dynamic`, `dynamic` and `cpp_str` tell numbers that C++ knows when it compiles from those it does not.
Nothing here needs a GPU.
"""

from .atom import TmaTrace, trace_tma_atom
from .encoding import DATA_TYPES, TensorMapEncoding
from .errors import TmaError
from .gbasis import coalesce_256
from .static import Dynamic, cpp_str, dynamic, is_static, parse_cpp, static

__all__ = [
    "DATA_TYPES",
    "Dynamic",
    "TensorMapEncoding",
    "TmaError",
    "TmaTrace",
    "coalesce_256",
    "cpp_str",
    "dynamic",
    "is_static",
    "parse_cpp",
    "static",
    "trace_tma_atom",
]
