"""A CuTe DSL kernel that takes two tensor maps, a number between them, and a pointer that one of them shares.

out = a's tile times `scale`, plus b's tile; then thread t writes `scale` to a[t, 0], through the pointer.
"""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.memory import SmemAllocator

from cutecourse.kernels.spec import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.layout import Layout

TILE = (32, 64)
THREADS = 64


@cute.kernel
def two_maps(
    atom_a: cute.CopyAtom,
    tensor_a: cute.Tensor,
    scale: cutlass.Int32,
    mA: cute.Tensor,
    atom_b: cute.CopyAtom,
    tensor_b: cute.Tensor,
    mOut: cute.Tensor,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    layout = cute.make_layout(TILE, stride=(64, 1))
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Int32, layout, 128)
    sB = smem.allocate_tensor(cutlass.Int32, layout, 128)
    barrier = smem.allocate_array(cutlass.Int64)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    gA = cute.local_tile(tensor_a, TILE, (1, 0))
    gB = cute.local_tile(tensor_b, TILE, (0, 1))
    one = cute.make_layout(1)
    tAsA, tAgA = cpasync.tma_partition(atom_a, 0, one, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
    tBsB, tBgB = cpasync.tma_partition(atom_b, 0, one, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * cute.size_in_bytes(cutlass.Int32, layout))
        cute.copy(atom_a, tAgA, tAsA, tma_bar_ptr=barrier)
        cute.copy(atom_b, tBgB, tBsB, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    for i in range(tid, cute.size(sA), THREADS):
        mOut[i] = sA[i] * scale + sB[i]
    mA[tid, 0] = scale


@cute.jit
def host(mA: cute.Tensor, scale: cutlass.Int32, mB: cute.Tensor, mOut: cute.Tensor):
    layout = cute.make_layout(TILE, stride=(64, 1))
    load = cpasync.CopyBulkTensorTileG2SOp()
    atom_a, tensor_a = cpasync.make_tiled_tma_atom(load, mA, layout, TILE)
    atom_b, tensor_b = cpasync.make_tiled_tma_atom(load, mB, layout, TILE)
    two_maps(atom_a, tensor_a, scale, mA, atom_b, tensor_b, mOut).launch(
        grid=(1, 1, 1), block=(THREADS, 1, 1)
    )


def tiles(name, shape, array):
    return TensorMapSpec(
        name,
        "s32",
        shape,
        (shape[1], 1),
        smem_layout=Layout(TILE, (64, 1)),
        cta_tiler=TILE,
        array=array,
    )


LAUNCH = LaunchSpec(
    name="two_maps",
    language="cutedsl",
    kernel=two_maps,
    host=host,
    grid=(1, 1, 1),
    block=(THREADS, 1, 1),
    dynamic_smem=2 * 32 * 64 * 4 + 8,
    params=(
        tiles("a_map", (64, 64), "a"),
        Scalar("scale", "s32"),
        Tensor("a", "s32", (64, 64), (64, 1)),
        tiles("b_map", (32, 128), "b"),
        Tensor("out", "s32", TILE, (64, 1)),
    ),
    target="sm_90",
)
