"""The measured log of a GEMM on Hopper, value by value: CuTe C++'s own prints against our trace.

The log is of CUTLASS's wgmma_tma_sm90 for a 128 x 128 x 64 problem, both operands MN-major: the sizes are
arguments of the program, the tiles are part of its types.
"""

import pytest

from cutecourse.layout import Layout, get_nonswizzle_portion, group_modes, select, tile_to_shape
from cutecourse.tma import (
    Dynamic,
    TmaPartition,
    TmaTrace,
    cpp_str,
    dynamic,
    parse_cpp,
    tma_partition,
    trace_tma_atom,
)

MN_SW128 = Layout.parse("S<3,4,3> o 0 o (64,8):(1,64)")
TILE = (128, 64)
STAGES = 3
SMEM_A, SMEM_B = 0x7EF800000400, 0x7EF80000C400

ATOM = {
    "cta_v_tile": "(_128,_64):(_1@0,_1@1)",
    "smem_swizzle": "Sw<3,4,3>",
    "smem_layout": "((_64,_2),(_8,_8)):((_1,_512),(_64,_1024))",
    "inv_smem_layout": "(_64,_8,_2,_8):(_1,_128,_64,_1024)",
    "sidx2gmode_full": "(_64,_8,_2,_8):(_1@0,_1@1,_64@0,_8@1)",
    "smem_rank": "_2",
    "sidx2gmode": "(_64,_8):(_1@0,_1@1)",
    "tile_gstride": "(_64,_8):(_1,128)",
    "tma_gstride": "(_64,_8):(_1,128)",
    "tma_gbasis": "(_64,_8):(_1@0,_1@1)",
    "gmem_prob_shape": "[128, 64, 1, 1, 1]",
    "gmem_prob_stride[elem]": "[1, 128, 0, 0, 0]",
    "gmem_prob_stride[byte]": "[2, 256, 0, 0, 0]",
    "smem_box_shape pre-mcast": "[64, 8, 1, 1, 1]",
    "smem_box_shape post-mcast": "[64, 8, 1, 1, 1]",
    "tma_format": "6",
    "smem_swizzle(enum)": "3",
    "recast_ratio": "_16/_16",
    "gmem_tma_basis_stride": "(_1@0,_1@1)",
}
GMEM_RESULT = "ArithTuple(0,_0) o (((_64,_8),(_2,_8)),1):(((_1@0,_1@1),(_64@0,_8@1)),_64@1)"
SMEM_RESULT = "Sw<3,4,3>_smem_ptr[16b]({:#x}) o ((_512,_16),(_1,_3)):((_1,_512),(_0,_8192))"
PARTITION = {
    "inv_smem_layout": "(_64,_8,_2,_8):(_1,_128,_64,_1024)",
    "layout_v": "(((_64,_8,_2,_8),_1)):(((_1,_128,_64,_1024),_0))",
    "tma_layout_v": "_512:_1",
    "layout_V": "(((_64,_8),(_2,_8)):((_1,_128),(_64,_1024)))",
    "glayout_V": "(((_64,_8),(_2,_8)):((_1,_128),(_64,_1024)),_)",
    "slayout_V": "(((_64,_8),(_2,_8)):((_1,_128),(_64,_1024)),_)",
    "gtensor_v": GMEM_RESULT,
    "stensor_v": SMEM_RESULT.format(SMEM_A),
    "multicast_offset": "_0",
    "multicast_coord": "((_0,_0))",
    "gcoord": "((_0,_0),_0)",
    "scoord": "((_0,_0),_0)",
    "gresult": GMEM_RESULT,
    "sresult": SMEM_RESULT.format(SMEM_A),
}


@pytest.fixture
def atom() -> TmaTrace:
    smem = select(tile_to_shape(MN_SW128, (*TILE, STAGES)), [0, 1])
    return trace_tma_atom(parse_cpp("(128,64):(_1,128)"), smem, TILE, "f16")


@pytest.fixture
def partition(atom: TmaTrace) -> TmaPartition:
    # block (0, 0) is known at run time only; the tiles along K stay open
    tiles = atom.get_tma_tensor(dynamic(TILE)).local_tile(TILE, (Dynamic(0), None))
    smem = group_modes(tile_to_shape(MN_SW128, (*TILE, STAGES)), 0, 2)
    return tma_partition(atom, 0, Layout(1), smem, tiles.group_modes(0, 2))


@pytest.mark.parametrize("name", ATOM)
def test_log_of_the_atom__is_reproduced(atom: TmaTrace, name: str) -> None:
    assert atom.log()[name] == ATOM[name]


@pytest.mark.parametrize("name", PARTITION)
def test_log_of_the_partition__is_reproduced(partition: TmaPartition, name: str) -> None:
    assert partition.log(smem_address=SMEM_A)[name] == PARTITION[name]


def test_log_of_the_kernel__is_reproduced(atom: TmaTrace, partition: TmaPartition) -> None:
    smem, gmem = partition
    assert cpp_str(gmem) == GMEM_RESULT
    # B has the same tile in memory of its own
    assert partition.log(smem_address=SMEM_B)["sresult"] == SMEM_RESULT.format(SMEM_B)
    assert 2 * atom.tile_bytes == 32768
    assert int(smem.layout.shape[1][1]) == STAGES
    assert cpp_str(gmem.layout.shape[1]) == "1"  # one tile along K for three stages


def test_log__with_the_program_s_sizes_as_arguments(atom: TmaTrace) -> None:
    plain = trace_tma_atom(Layout(TILE, (1, 128)), atom.slayout, TILE, "f16")
    assert plain.log()["tile_gstride"] == "(_64,_8):(_1,_128)"
    assert plain.log(static_sizes=False) == atom.log()
    assert atom.log(static_sizes=True) == plain.log()


def test_smem_layout__is_cutlass_s_tile(atom: TmaTrace) -> None:
    assert str(get_nonswizzle_portion(atom.slayout)) == "((64,2),(8,8)):((1,512),(64,1024))"
