"""MMA and copy atoms by CUTLASS's names, who owns which cell, and their tilings over threads and tensors.

Everything here comes from CuTe (CUTLASS's headers); the emulator has the same maps from the PTX ISA,
and the tests bring the two together.
"""

from cutecourse.atoms.copy_atom import COPY_ATOMS, CopyAtom, copy_atom
from cutecourse.atoms.errors import AtomError, AtomNameError, OwnershipError, PartitionError, UnknownAtomError
from cutecourse.atoms.explaining import explain_cell, explain_owner, explain_partition
from cutecourse.atoms.mma_atom import CUTLASS_VERSION, CutlassSource, MmaAtom, ownership_map
from cutecourse.atoms.mma_table import MMA_ATOMS, SM89_ATOMS, mma_atom
from cutecourse.atoms.names import MmaName, NamePart, parse_mma_name
from cutecourse.atoms.pointers import (
    SmemPtr,
    as_position_independent_swizzle_layout,
    as_position_independent_swizzle_tensor,
    recast_ptr,
    recast_tensor,
)
from cutecourse.atoms.predicates import Predicate, domain_offset, predicate
from cutecourse.atoms.tensor import LayoutTensor
from cutecourse.atoms.tiled_copy import (
    ThrCopy,
    TiledCopy,
    copy_partition,
    make_cotiled_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_impl,
    make_tiled_copy_S,
    make_tiled_copy_tv,
    tidfrg,
)
from cutecourse.atoms.tiled_mma import (
    ThrMma,
    TiledMma,
    make_fragment_like,
    make_tiled_mma,
    partition,
    partition_fragment_C,
    thrfrg,
    tile_size,
)
from cutecourse.atoms.wgmma_table import WGMMA_ATOMS

__all__ = [
    "COPY_ATOMS",
    "CUTLASS_VERSION",
    "MMA_ATOMS",
    "SM89_ATOMS",
    "WGMMA_ATOMS",
    "AtomError",
    "AtomNameError",
    "CopyAtom",
    "CutlassSource",
    "LayoutTensor",
    "MmaAtom",
    "MmaName",
    "NamePart",
    "OwnershipError",
    "PartitionError",
    "Predicate",
    "SmemPtr",
    "ThrCopy",
    "ThrMma",
    "TiledCopy",
    "TiledMma",
    "UnknownAtomError",
    "as_position_independent_swizzle_layout",
    "as_position_independent_swizzle_tensor",
    "copy_atom",
    "copy_partition",
    "domain_offset",
    "explain_cell",
    "explain_owner",
    "explain_partition",
    "make_cotiled_copy",
    "make_fragment_like",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_C_atom",
    "make_tiled_copy_D",
    "make_tiled_copy_S",
    "make_tiled_copy_impl",
    "make_tiled_copy_tv",
    "make_tiled_mma",
    "mma_atom",
    "ownership_map",
    "parse_mma_name",
    "partition",
    "partition_fragment_C",
    "predicate",
    "recast_ptr",
    "recast_tensor",
    "thrfrg",
    "tidfrg",
    "tile_size",
]
