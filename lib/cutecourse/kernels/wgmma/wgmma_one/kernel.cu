// A warpgroup for each 64 rows of C (M x 256) in CuTe C++: the twin of kernels/wgmma_one.py, both operands K-major.

#include <cute/tensor.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_64, _256, _64>;
using GmemA = Layout<Shape<_64, _256>, Stride<_256, _1>>;
using GmemB = Layout<Shape<_256, _256>, Stride<_256, _1>>;
using GmemC = Layout<Shape<_64, _256>, Stride<_256, _1>>;
using Mma = decltype(make_tiled_mma(SM90_64x256x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{}));
using Atom = GMMA::Layout_K_SW128_Atom<half_t>;
using SmemA = decltype(tile_to_shape(Atom{}, select<0, 2>(CtaTile{})));
using SmemB = decltype(tile_to_shape(Atom{}, select<1, 2>(CtaTile{})));

struct Shared {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
};

extern "C" __global__ void wgmma_one_cpp(half_t const* a, half_t const* b, float* c) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});

  auto tile = make_coord(0, 0, _);
  Tensor gA = local_tile(make_tensor(make_gmem_ptr(a), GmemA{}), CtaTile{}, tile, Step<_1, X, _1>{});
  Tensor gB = local_tile(make_tensor(make_gmem_ptr(b), GmemB{}), CtaTile{}, tile, Step<X, _1, _1>{});
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), GmemC{}), CtaTile{}, tile, Step<_1, _1, X>{});

  Mma tiled_mma;
  ThrMMA thr_mma = tiled_mma.get_thread_slice(threadIdx.x);
  Tensor tCrA = thr_mma.make_fragment_A(thr_mma.partition_A(sA));  // (1, 1, 4): descriptors
  Tensor tCrB = thr_mma.make_fragment_B(thr_mma.partition_B(sB));
  Tensor tCgC = thr_mma.partition_C(gC);
  Tensor tCrC = thr_mma.make_fragment_C(tCgC);  // 128 registers

  tiled_mma.accumulate_ = GMMA::ScaleOut::Zero;
  for (int k = 0; k < size<2>(gA); ++k) {
    cooperative_copy<128, 128>(threadIdx.x, gA(_, _, k), sA);
    cooperative_copy<128, 128>(threadIdx.x, gB(_, _, k), sB);
    cutlass::arch::fence_view_async_shared();
    __syncthreads();

    warpgroup_arrive();
    for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
      gemm(tiled_mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCrC);
      tiled_mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    __syncthreads();  // all four warps have waited: the stage is free
  }
  copy(tCrC, tCgC);
}
