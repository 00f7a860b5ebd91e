// A GEMM on tensor cores in CuTe C++: the steps of kernels/gemm_stages.py, for readers who come from CUTLASS.
// Each block of 128 threads computes a 128 x 128 tile of C (M, N) = A (M, K) times B (N, K) transposed, all f16.
// M and N are multiples of 128, and K is a multiple of 32.

#include <cute/tensor.hpp>
#include <cute/algorithm/copy.hpp>
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/atom/mma_atom.hpp>

using namespace cute;

extern "C" __global__ void __launch_bounds__(128)
    global_gemm_cpp(half_t const* a, half_t const* b, half_t* c, int m, int n, int k) {
  constexpr int stages = 3;
  TiledMMA tiled_mma = make_tiled_mma(
      SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2, _2, _1>>{}, Tile<_32, _32, _16>{});
  TiledCopy load = make_tiled_copy(
      Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, half_t>{}, Layout<Shape<_32, _4>, Stride<_4, _1>>{},
      Layout<Shape<_1, _8>>{});

  // The tiles of this block.
  Tensor mA = make_tensor(make_gmem_ptr(a), make_shape(m, k), make_stride(k, _1{}));
  Tensor mB = make_tensor(make_gmem_ptr(b), make_shape(n, k), make_stride(k, _1{}));
  Tensor mC = make_tensor(make_gmem_ptr(c), make_shape(m, n), make_stride(n, _1{}));
  Tensor gA = local_tile(mA, Shape<_128, _32>{}, make_coord(blockIdx.x, _));
  Tensor gB = local_tile(mB, Shape<_128, _32>{}, make_coord(blockIdx.y, _));
  Tensor gC = local_tile(mC, Shape<_128, _128>{}, make_coord(blockIdx.x, blockIdx.y));
  int k_tiles = size<2>(gA);

  // Shared memory: the swizzle counts elements here, so it is <2,3,3>.
  auto rows = composition(Swizzle<2, 3, 3>{}, Layout<Shape<_8, _32>, Stride<_32, _1>>{});
  auto layout = tile_to_shape(rows, Shape<_128, _32, Int<stages>>{});
  alignas(128) __shared__ half_t smem_A[cosize_v<decltype(layout)>];
  alignas(128) __shared__ half_t smem_B[cosize_v<decltype(layout)>];
  Tensor sA = make_tensor(make_smem_ptr(smem_A), layout);
  Tensor sB = make_tensor(make_smem_ptr(smem_B), layout);

  ThrCopy thr_load = load.get_slice(threadIdx.x);
  Tensor tAgA = thr_load.partition_S(gA);
  Tensor tAsA = thr_load.partition_D(sA);
  Tensor tBgB = thr_load.partition_S(gB);
  Tensor tBsB = thr_load.partition_D(sB);

  ThrMMA thr_mma = tiled_mma.get_slice(threadIdx.x);
  Tensor tCgC = thr_mma.partition_C(gC);
  Tensor tCrA = thr_mma.partition_fragment_A(sA(_, _, 0));
  Tensor tCrB = thr_mma.partition_fragment_B(sB(_, _, 0));
  Tensor tCrC = thr_mma.make_fragment_C(tCgC);
  clear(tCrC);

  // ldmatrix fills the registers of the MMA: hence make_tiled_copy_A, and retile.
  Copy_Atom<SM75_U32x4_LDSM_N, half_t> ldmatrix;
  TiledCopy copy_A = make_tiled_copy_A(ldmatrix, tiled_mma);
  TiledCopy copy_B = make_tiled_copy_B(ldmatrix, tiled_mma);
  Tensor tXsA = copy_A.get_slice(threadIdx.x).partition_S(sA);
  Tensor tXrA = copy_A.get_slice(threadIdx.x).retile_D(tCrA);
  Tensor tXsB = copy_B.get_slice(threadIdx.x).partition_S(sB);
  Tensor tXrB = copy_B.get_slice(threadIdx.x).retile_D(tCrB);

  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < k_tiles) {
      copy(load, tAgA(_, _, _, stage), tAsA(_, _, _, stage));
      copy(load, tBgB(_, _, _, stage), tBsB(_, _, _, stage));
    }
    cp_async_fence();
  }

  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    cp_async_wait<stages - 2>();
    __syncthreads();
    int ahead = k_tile + stages - 1;
    if (ahead < k_tiles) {
      copy(load, tAgA(_, _, _, ahead), tAsA(_, _, _, ahead % stages));
      copy(load, tBgB(_, _, _, ahead), tBsB(_, _, _, ahead % stages));
    }
    cp_async_fence();
    CUTE_UNROLL
    for (int block = 0; block < size<2>(tCrA); ++block) {
      copy(copy_A, tXsA(_, _, block, k_tile % stages), tXrA(_, _, block));
      copy(copy_B, tXsB(_, _, block, k_tile % stages), tXrB(_, _, block));
      gemm(tiled_mma, tCrA(_, _, block), tCrB(_, _, block), tCrC);
    }
  }

  Tensor tCrD = make_fragment_like<half_t>(tCrC);
  for (int i = 0; i < size(tCrD); ++i) tCrD(i) = half_t(tCrC(i));
  copy(tCrD, tCgC);
}
