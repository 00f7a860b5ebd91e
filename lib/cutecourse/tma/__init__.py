"""The steps by which CuTe makes a TMA descriptor from a tensor, a shared-memory layout and a tiler.

`trace_tma_atom` makes an atom and keeps every value on the way (`TmaTrace`); its `encoding` holds the
arguments of the driver's cuTensorMapEncodeTiled and the driver's rules (`TensorMapEncoding.check`).
`tma_partition` divides a tile into instructions (`TmaPartition`), `tma_coords` lists them with their
coordinates, and `smem_image` gives the bytes of shared memory after a load. `make_cluster_layout_vmnk`,
`create_tma_multicast_mask` and `multicast_ctas` say which CTA of a cluster sends what to which.
`swizzle_notations` writes a swizzle as CuTe, TMA and the MMAs' descriptors do. `Dynamic`,
`dynamic`, `parse_cpp` and `cpp_str` mark the numbers that C++ knows only when the program runs.
Nothing here needs a GPU.
"""

from .atom import TmaTrace, trace_tma_atom
from .encoding import DATA_TYPES, TensorMapEncoding
from .errors import TmaError
from .gbasis import coalesce_256
from .image import TmaInstruction, smem_image, tma_coords
from .multicast import MulticastCta, create_tma_multicast_mask, make_cluster_layout_vmnk, multicast_ctas
from .notations import SwizzleNotations, swizzle_notations
from .partition import TmaPartition, tma_partition
from .static import Dynamic, cpp_str, dynamic, is_static, parse_cpp, static

__all__ = [
    "DATA_TYPES",
    "Dynamic",
    "MulticastCta",
    "SwizzleNotations",
    "TensorMapEncoding",
    "TmaError",
    "TmaInstruction",
    "TmaPartition",
    "TmaTrace",
    "coalesce_256",
    "cpp_str",
    "create_tma_multicast_mask",
    "dynamic",
    "is_static",
    "make_cluster_layout_vmnk",
    "multicast_ctas",
    "parse_cpp",
    "smem_image",
    "static",
    "swizzle_notations",
    "tma_coords",
    "tma_partition",
    "trace_tma_atom",
]
