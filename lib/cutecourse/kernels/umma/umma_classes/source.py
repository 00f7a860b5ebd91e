"""A GEMM for a B200 or B300 whose barriers and tensor memory are kept by the classes of the CuTe DSL.

    python source.py M N K      PTX and the emulator, on any machine; on a B200 or B300 a check and a time

D (M, N) = A (M, K) times B (N, K) transposed, f16 operands, f32 sums, D in bf16. It is umma_persistent's
kernel: pairs of SMs that stay, two accumulators, roles for load, MMA and store. Four classes of
`cutlass.pipeline` and `cutlass.memory` take the place of its barriers:

    PipelineTmaUmma     full and empty: TMA fills a stage, MMAs release it
    PipelineUmmaAsync   acc_full and acc_empty: MMAs fill an accumulator, warps that store release it
    PipelineTmaStore    the bulk groups of a warp that stores
    TmemAllocator       the columns, their address, and who frees them when
"""

import sys
import tempfile
from functools import cache

import cutlass
from cutlass import cute
from cutlass.base_dsl.compiler import DumpDir
from cutlass.cute.nvgpu import (
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.cute.runtime import from_dlpack, make_fake_tensor
from cutlass.experimental.primitives import nvvm_wrapper as nvvm
from cutlass.memory import SmemAllocator, TmemAllocator
from cutlass.pipeline import (
    Agent,
    CooperativeGroup,
    NamedBarrier,
    PipelineTmaStore,
    PipelineTmaUmma,
    PipelineUmmaAsync,
    pipeline_init_arrive,
    pipeline_init_wait,
)

MNK = (512, 768, 128)
CTA_ROWS = 128  # of A and of D, in shared and in tensor memory
COLUMNS = 256  # of an MMA's result, and so of an accumulator
K_TILE = 64
STAGES = 3
ACCUMULATORS = 2
STORING_WARPS = 4  # each for 32 lanes of tensor memory; two further warps load and multiply
THREADS = 32 * (STORING_WARPS + 2)
PIECE = (32, 64)  # what one TMA store writes: the rows of one warp, and 128 bytes of each
PIECES = COLUMNS // PIECE[1]
BUFFERS = 2  # for pieces, in each warp


def make_mma(sms):
    """The MMA of one SM or of a pair: 128 rows for each SM, 256 columns, 16 deep."""
    return cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (CTA_ROWS * sms, COLUMNS, 16),
            tcgen05.CtaGroup.TWO if sms == 2 else tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
            OperandMajorMode.K,
        )
    )


@cute.kernel
def umma_classes(
    atom_a: cute.CopyAtom,
    tma_a: cute.Tensor,
    atom_b: cute.CopyAtom,
    tma_b: cute.Tensor,
    atom_d: cute.CopyAtom,
    tma_d: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
    layout_d: cute.ComposedLayout,
    sms: cutlass.Constexpr,
):
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    smem = SmemAllocator()
    sA = smem.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, swizzle=layout_a.inner)
    sB = smem.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, swizzle=layout_b.inner)
    sD = smem.allocate_tensor(cutlass.BFloat16, layout_d.outer, 1024, swizzle=layout_d.inner)
    tile_barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)  # all full, then all empty
    acc_barriers = smem.allocate_array(cutlass.Int64, 2 * ACCUMULATORS)

    ctas = cute.make_layout((sms, 1, 1, 1))  # (SMs of an MMA, clusters' M, N, K)
    tile_bytes = cute.size_in_bytes(cutlass.Float16, cute.select(layout_a, mode=[0, 1, 2]))
    tile_bytes += cute.size_in_bytes(cutlass.Float16, cute.select(layout_b, mode=[0, 1, 2]))
    loads, tiles_read = PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=CooperativeGroup(Agent.Thread),
        consumer_group=CooperativeGroup(Agent.Thread),  # one commit releases a stage
        tx_count=sms * tile_bytes,
        barrier_storage=tile_barriers,
        cta_layout_vmnk=ctas,
        defer_sync=True,
    ).make_participants()
    products, sums_read = PipelineUmmaAsync.create(
        num_stages=ACCUMULATORS,
        producer_group=CooperativeGroup(Agent.Thread),
        consumer_group=CooperativeGroup(Agent.Thread, STORING_WARPS * sms),  # one thread of each warp
        barrier_storage=acc_barriers,
        cta_layout_vmnk=ctas,
        defer_sync=True,
    ).make_participants()
    stores = PipelineTmaStore.create(num_stages=BUFFERS, producer_group=CooperativeGroup(Agent.Thread, 32))
    tmem = TmemAllocator(
        barrier_for_retrieve=NamedBarrier(barrier_id=1, num_threads=THREADS), is_two_cta=sms == 2
    )
    pipeline_init_arrive(ctas)  # fences the inits for all of the above
    pipeline_init_wait(ctas)

    tiled_mma = make_mma(sms)
    thr_mma = tiled_mma.get_slice(rank)
    tile = (CTA_ROWS * sms, COLUMNS, K_TILE)
    gA = cute.local_tile(tma_a, (tile[0], K_TILE), (None, None))  # (rows, 64, tiles along M, k-tiles)
    gB = cute.local_tile(tma_b, (tile[1], K_TILE), (None, None))
    tCrA = tiled_mma.make_fragment_A(sA)  # (1, 1, 4, stages)
    tCrB = tiled_mma.make_fragment_B(sB)
    shape = cute.append(tiled_mma.partition_shape_C(tile[:2]), ACCUMULATORS)
    tCtC = tiled_mma.make_fragment_C(shape)  # (MmaC, 1, 1, accumulators)
    tmem.allocate(ACCUMULATORS * COLUMNS)
    tmem.wait_for_alloc()
    tCtC = cute.make_tensor(tmem.retrieve_ptr(cutlass.Float32), tCtC.layout)
    k_tiles, tiles_m = cute.size(gA, mode=[3]), cute.size(gA, mode=[2])
    # The pairs take turns: each begins with the tile of its own number, then skips as many as there are.
    first, pairs = cute.arch.block_idx()[0] // sms, cute.arch.grid_dim()[0] // sms
    count = tiles_m * cute.size(gB, mode=[2])

    if warp == STORING_WARPS:
        tCgA = thr_mma.partition_A(gA)
        tCgB = thr_mma.partition_B(gB)
        tAsA, tAgA = cpasync.tma_partition(
            atom_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 3), cute.group_modes(tCgA, 0, 3)
        )
        tBsB, tBgB = cpasync.tma_partition(
            atom_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 3), cute.group_modes(tCgB, 0, 3)
        )
        for number in cutlass.range(first, count, pairs, unroll=1):
            from_a = tAgA[None, number % tiles_m, None]
            from_b = tBgB[None, number // tiles_m, None]
            for k in cutlass.range(k_tiles, unroll=1):
                free = loads.acquire_and_advance()  # waits for empty; the leader expects the bytes of both
                cute.copy(atom_a, from_a[None, k], tAsA[None, free.index], tma_bar_ptr=free.barrier)
                cute.copy(atom_b, from_b[None, k], tBsB[None, free.index], tma_bar_ptr=free.barrier)
        loads.tail()
    elif warp == STORING_WARPS + 1:
        if rank == 0:
            for _ in cutlass.range(first, count, pairs, unroll=1):
                acc = products.acquire_and_advance()
                nvvm.tcgen05_fence("after_thread_sync")
                sums = tCtC[None, None, None, acc.index]
                tiled_mma.set(tcgen05.Field.ACCUMULATE, False)
                for _ in cutlass.range(k_tiles, unroll=1):
                    loaded = tiles_read.wait_and_advance()
                    for k_block in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                        now = (None, None, k_block, loaded.index)
                        cute.gemm(tiled_mma, sums, tCrA[now], tCrB[now], sums)
                        tiled_mma.set(tcgen05.Field.ACCUMULATE, True)
                    loaded.release()  # a commit, to both CTAs' empty
                acc.commit()
            products.tail()
    else:
        # tmem -> rmem: a warp reads its 32 lanes, a thread one row, 64 columns at a time
        load = tcgen05.make_tmem_copy(
            cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32),
            tCtC[None, None, None, 0],
        ).get_slice(tid)
        tDtC = load.partition_S(tCtC)
        tDcD = load.partition_D(thr_mma.partition_C(cute.make_identity_tensor(tile[:2])))
        tDrS = cute.make_rmem_tensor(tDcD[None, 0, 0, 0].shape, cutlass.Float32)
        sums = cute.make_tensor(tDrS.iterator, cute.make_layout(PIECE[1]))  # the same registers, as one row
        rounded = cute.make_rmem_tensor(PIECE[1], cutlass.BFloat16)
        # rmem -> smem -> gmem: a thread writes its row, TMA reads all 32
        gD = cute.local_tile(tma_d, PIECE, (None, None))  # (32, 64, along M, along N)
        tDsD, tDgD = cpasync.tma_partition(
            atom_d, 0, cute.make_layout(1), cute.group_modes(sD, 0, 2), cute.group_modes(gD, 0, 2)
        )
        for number in cutlass.range(first, count, pairs, unroll=1):
            row = (number % tiles_m * sms + rank) * STORING_WARPS + warp  # of pieces
            first_piece = number // tiles_m * PIECES
            full = sums_read.wait_and_advance()
            nvvm.tcgen05_fence("after_thread_sync")
            for i in cutlass.range(PIECES, unroll=1):
                piece, buffer = first_piece + i, warp * BUFFERS + i % BUFFERS
                cute.copy(load, tDtC[None, i, 0, 0, full.index], tDrS)
                cute.arch.fence_view_async_tmem_load()
                if i == PIECES - 1:
                    nvvm.tcgen05_fence("before_thread_sync")
                    with cute.arch.elect_one():
                        full.release()
                rounded.store(sums.load().to(cutlass.BFloat16))
                with cute.arch.elect_one():  # this thread stores: TMA has read what the buffer held
                    stores.producer_acquire()
                cute.arch.sync_warp()
                cute.autovec_copy(rounded, sD[tid % 32, None, buffer])
                cute.arch.fence_proxy("async.shared", space="cta")
                cute.arch.sync_warp()
                with cute.arch.elect_one():
                    if cute.elem_less((row, piece), gD.shape[2:]):  # else it lies outside of D
                        cute.copy(atom_d, tDsD[None, buffer], tDgD[None, row, piece])
                    stores.producer_commit()
        with cute.arch.elect_one():
            stores.producer_tail()

    cute.arch.sync_threads()  # all warps of this CTA have loaded their sums
    tmem.relinquish_alloc_permit()
    tmem.free(tCtC.iterator)  # a pair's two allocating warps meet at a barrier first


@cache
def host_for(sms: int, pairs: int):
    """The host function for `sms` SMs to an MMA; at most `pairs` of them share the tiles."""

    @cute.jit
    def host(mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor):
        tiled_mma = make_mma(sms)
        tile = (CTA_ROWS * sms, COLUMNS, K_TILE)
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
        layout_a = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_A((tile[0], K_TILE)), STAGES), order=(1, 2, 3)
        )
        layout_b = tcgen05.tile_to_mma_shape(
            atom, cute.append(tiled_mma.partition_shape_B((tile[1], K_TILE)), STAGES), order=(1, 2, 3)
        )
        # Rows of 128 bytes, swizzled as TMA reads them: 32 of them for each warp and buffer.
        layout_d = cute.make_ordered_layout((*PIECE, STORING_WARPS * BUFFERS), order=(1, 0, 2))
        layout_d = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, layout_d)
        load = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO if sms == 2 else tcgen05.CtaGroup.ONE)
        atom_a, tma_a = make_tiled_tma_atom_A(load, mA, layout_a, tile, tiled_mma)
        atom_b, tma_b = make_tiled_tma_atom_B(load, mB, layout_b, tile, tiled_mma)
        store = cpasync.CopyBulkTensorTileS2GOp()
        atom_d, tma_d = cpasync.make_tiled_tma_atom(store, mD, cute.select(layout_d, mode=[0, 1]), PIECE)
        tiles = cute.ceil_div(mD.shape, tile[:2])
        umma_classes(atom_a, tma_a, atom_b, tma_b, atom_d, tma_d, layout_a, layout_b, layout_d, sms).launch(
            grid=(min(pairs, tiles[0] * tiles[1]) * sms, 1, 1), block=(THREADS, 1, 1), cluster=(sms, 1, 1)
        )

    return host


def ptx_of(m, n, k, target="sm_100a"):
    """The kernel's PTX. The tensors have a type and a layout and no memory, so no GPU is needed."""
    f16, bf16 = cutlass.Float16, cutlass.BFloat16
    tensors = [
        make_fake_tensor(dtype, shape, (shape[1], 1), assumed_align=16)
        for dtype, shape in ((f16, (m, k)), (f16, (n, k)), (bf16, (m, n)))
    ]
    with tempfile.TemporaryDirectory() as folder:  # KeepPTX also writes a file
        options = cute.GPUArch(target), cute.KeepPTX(True), DumpDir(folder)
        return cute.compile[options](host_for(2, 1), *tensors).__ptx__


def emulate(ptx, m, n, k):
    """Run the PTX on the emulator; how many elements of D are wrong."""
    import numpy as np

    from cutecourse.dtypes import encode
    from cutecourse.kernels import umma_classes
    from cutecourse.runtime import run

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    d = np.full((m, n), 0x7FC0, np.uint16)  # NaN, as a code of bf16
    launch = umma_classes.spec(m, n, k, columns=COLUMNS, stages=STAGES).with_text(ptx)
    computed = run(launch, device="emulator", a=a, b=b, d=d)["d"]
    return int((computed != encode(a.astype(np.float32) @ b.astype(np.float32).T, "bf16")).sum())


def blackwell():
    """PyTorch, if it is here and has a GPU with tcgen05; else None."""
    try:
        import torch
    except ImportError:
        return None
    if torch.cuda.is_available() and torch.cuda.get_device_capability() in ((10, 0), (10, 3)):
        return torch
    return None


def measure(torch, m, n, k, repeats=20):
    """Multiply on the GPU; how many elements of D are wrong, and our TFLOP/s and PyTorch's."""
    a, b = (torch.randint(-4, 5, (rows, k), device="cuda").to(torch.float16) for rows in (m, n))
    d = torch.full((m, n), torch.nan, dtype=torch.bfloat16, device="cuda")
    tensors = [from_dlpack(tensor, assumed_align=16) for tensor in (a, b, d)]
    pairs = torch.cuda.get_device_properties(a.device).multi_processor_count // 2
    gemm = cute.compile(host_for(2, pairs), *tensors)
    gemm(*tensors)
    wrong = int((d != (a.float() @ b.float().T).to(torch.bfloat16)).sum())

    def tflops(launch):
        launch()  # the first one loads code and warms the clocks up
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            launch()
        end.record()
        end.synchronize()
        return 2 * m * n * k * repeats / begin.elapsed_time(end) / 1e9

    return wrong, tflops(lambda: gemm(*tensors)), tflops(lambda: torch.mm(a, b.T))


def main(arguments):
    m, n, k = map(int, arguments) if arguments else MNK
    ptx = ptx_of(m, n, k)
    print(f"PTX for sm_100a, tcgen05.mma in its text: {ptx.count('tcgen05.mma.')}")
    print("emulator, wrong elements of D:", emulate(ptx, m, n, k))
    torch = blackwell()
    if torch is None:
        print("no PyTorch with a GPU of compute capability 10.0 or 10.3: the rest is left out")
    else:
        wrong, ours, theirs = measure(torch, m, n, k)
        print(f"GPU, wrong elements of D: {wrong}; {ours:.0f} TFLOP/s, PyTorch {theirs:.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
