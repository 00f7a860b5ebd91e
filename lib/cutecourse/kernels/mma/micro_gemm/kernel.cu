// The micro-GEMM in CuTe C++: the twin of kernels/micro_gemm.py, for readers who come from CUTLASS.
// One warp computes C (16x8) = A (16x16) times B (8x16) transposed with one mma.sync.

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

using namespace cute;

extern "C" __global__ void micro_gemm_cpp(half_t const* a, half_t const* b, float* c) {
  TiledMMA tiled_mma = make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{});

  // gmem -> smem
  auto k_major_A = Layout<Shape<_16, _16>, Stride<_16, _1>>{};
  auto k_major_B = Layout<Shape<_8, _16>, Stride<_16, _1>>{};
  // copy() takes tensors with static layouts to be aligned to 16 bytes; half_t alone would promise 2.
  alignas(16) __shared__ half_t smem_A[cosize_v<decltype(k_major_A)>];
  alignas(16) __shared__ half_t smem_B[cosize_v<decltype(k_major_B)>];
  Tensor gA = make_tensor(make_gmem_ptr(a), k_major_A);
  Tensor gB = make_tensor(make_gmem_ptr(b), k_major_B);
  Tensor gC = make_tensor(make_gmem_ptr(c), Layout<Shape<_16, _8>>{});
  Tensor sA = make_tensor(make_smem_ptr(smem_A), k_major_A);
  Tensor sB = make_tensor(make_smem_ptr(smem_B), k_major_B);
  for (int i = threadIdx.x; i < size(sA); i += 32) sA(i) = gA(i);
  for (int i = threadIdx.x; i < size(sB); i += 32) sB(i) = gB(i);
  __syncthreads();

  // smem -> rmem
  ThrMMA thr_mma = tiled_mma.get_slice(threadIdx.x);
  Tensor tCsA = thr_mma.partition_A(sA);
  Tensor tCsB = thr_mma.partition_B(sB);
  Tensor tCgC = thr_mma.partition_C(gC);
  Tensor tCrA = thr_mma.make_fragment_A(tCsA);
  Tensor tCrB = thr_mma.make_fragment_B(tCsB);
  Tensor tCrC = thr_mma.make_fragment_C(tCgC);
  copy(tCsA, tCrA);
  copy(tCsB, tCrB);
  clear(tCrC);

  gemm(tiled_mma, tCrA, tCrB, tCrC);
  copy(tCrC, tCgC);
}
