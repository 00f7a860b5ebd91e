"""The steps of CuTe for tcgen05.mma: layouts, descriptors, partitions, tensor memory.

`make_tiled_mma` makes the MMA of one or two SMs and its partitions, `make_smem_layout_atom` and
`tile_to_mma_shape` lay an operand out in shared memory, `smem_descriptor` says where it lies and
`canonical_layout` reads such a descriptor back; `make_tma_atom_A_sm100` and `make_tma_atom_B_sm100` make the
TMA atoms that bring it there. `make_fragment_C` lays the accumulator out in tensor memory,
`make_tmem_fragment_A` an A that is read from there, and `make_tmem_copy` loads and stores them.
`legality` and `DIFFERENCES` say where the PTX ISA, CUTLASS and the CuTe DSL differ on what is legal.
Every function keeps the values on its way under CuTe's names and refuses what CUTLASS's assertions refuse.
Nothing here needs a GPU.
"""

from .canonical import CanonicalLayout, canonical_layout
from .errors import UmmaError
from .legality import DIFFERENCES, LEGAL_SHAPES, Legality, MmaRules, RuleDifference, Verdict, legality
from .mma import (
    CtaMma,
    TiledUmma,
    make_tiled_mma,
    partition_shape_A,
    partition_shape_B,
    partition_shape_C,
)
from .shared_memory import (
    SMEM_LAYOUT_ATOMS,
    DescriptorTensor,
    MmaShapeTrace,
    SmemDescriptorTrace,
    gmma_descriptor,
    make_smem_layout_atom,
    smem_desc_tensor,
    smem_descriptor,
    tile_to_mma_shape,
)
from .tensor_memory import (
    TMEM_COLUMNS,
    TMEM_LANES,
    FragmentTrace,
    TmemAllocator,
    TmemPlace,
    allocator1sm,
    allocator2sm,
    make_fragment_C,
    make_tmem_fragment_A,
    place_of,
    tmem_frg,
)
from .tma_atoms import (
    TMA_COPY_OPS,
    TmaAtomTrace,
    TmaCopyOp,
    make_tma_atom_A_sm100,
    make_tma_atom_B_sm100,
)
from .tmem_atoms import TMEM_LOADS, TMEM_STORES, TmemCopyOp
from .tmem_copy import TmemCopyTrace, make_tmem_copy

__all__ = [
    "DIFFERENCES",
    "LEGAL_SHAPES",
    "SMEM_LAYOUT_ATOMS",
    "TMA_COPY_OPS",
    "TMEM_COLUMNS",
    "TMEM_LANES",
    "TMEM_LOADS",
    "TMEM_STORES",
    "CanonicalLayout",
    "CtaMma",
    "DescriptorTensor",
    "FragmentTrace",
    "Legality",
    "MmaRules",
    "MmaShapeTrace",
    "RuleDifference",
    "SmemDescriptorTrace",
    "TiledUmma",
    "TmaAtomTrace",
    "TmaCopyOp",
    "TmemAllocator",
    "TmemCopyOp",
    "TmemCopyTrace",
    "TmemPlace",
    "UmmaError",
    "Verdict",
    "allocator1sm",
    "allocator2sm",
    "canonical_layout",
    "gmma_descriptor",
    "legality",
    "make_fragment_C",
    "make_smem_layout_atom",
    "make_tiled_mma",
    "make_tma_atom_A_sm100",
    "make_tma_atom_B_sm100",
    "make_tmem_copy",
    "make_tmem_fragment_A",
    "partition_shape_A",
    "partition_shape_B",
    "partition_shape_C",
    "place_of",
    "smem_desc_tensor",
    "smem_descriptor",
    "tile_to_mma_shape",
    "tmem_frg",
]
