// One warp computes C (16x16, f16) = A (16x16) times B (16x16) transposed, in CuTe C++: ldmatrix brings the
// fragments, stmatrix takes the result back to shared memory. stmatrix needs sm_90.

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

using namespace cute;

extern "C" __global__ void ldmatrix_stmatrix_cpp(half_t const* a, half_t const* b, half_t* c) {
  using Tile16 = Layout<Shape<_16, _16>, Stride<_16, _1>>;  // K-major, or row-major for C
  alignas(16) __shared__ half_t smem_A[256];
  alignas(16) __shared__ half_t smem_B[256];
  alignas(16) __shared__ half_t smem_C[256];
  Tensor sA = make_tensor(make_smem_ptr(smem_A), Tile16{});
  Tensor sB = make_tensor(make_smem_ptr(smem_B), Tile16{});
  Tensor sC = make_tensor(make_smem_ptr(smem_C), Tile16{});
  for (int i = threadIdx.x; i < 256; i += 32) {
    smem_A[i] = a[i];
    smem_B[i] = b[i];
  }
  __syncthreads();

  TiledMMA tiled_mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_1, _1, _1>>{},
                                      Tile<_16, _16, _16>{});
  ThrMMA thr_mma = tiled_mma.get_slice(threadIdx.x);
  Tensor tCrA = thr_mma.partition_fragment_A(sA);
  Tensor tCrB = thr_mma.partition_fragment_B(sB);
  Tensor tCrC = partition_fragment_C(tiled_mma, Shape<_16, _16>{});
  clear(tCrC);

  // ldmatrix: 16 rows of A and 16 rows of B, four 8x8 blocks each
  TiledCopy load_A = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, tiled_mma);
  ThrCopy thr_load_A = load_A.get_slice(threadIdx.x);
  copy(load_A, thr_load_A.partition_S(sA), thr_load_A.retile_D(tCrA));
  TiledCopy load_B = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, tiled_mma);
  ThrCopy thr_load_B = load_B.get_slice(threadIdx.x);
  copy(load_B, thr_load_B.partition_S(sB), thr_load_B.retile_D(tCrB));

  gemm(tiled_mma, tCrA, tCrB, tCrC);
  Tensor tCrC_half = make_tensor_like<half_t>(tCrC);
  for (int i = 0; i < size(tCrC); ++i) tCrC_half(i) = half_t(tCrC(i));

  // stmatrix: the same four blocks of C
  TiledCopy store_C = make_tiled_copy_C(Copy_Atom<SM90_U32x4_STSM_N, half_t>{}, tiled_mma);
  ThrCopy thr_store_C = store_C.get_slice(threadIdx.x);
  copy(store_C, thr_store_C.retile_S(tCrC_half), thr_store_C.partition_D(sC));
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += 32) c[i] = smem_C[i];
}
