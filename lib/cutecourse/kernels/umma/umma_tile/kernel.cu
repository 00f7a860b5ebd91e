// One tile of C (128x128) over all of K (256) in CuTe C++: the twin of kernels/umma_tile.py.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_128, _128, _64>;
using GmemA = Layout<Shape<_128, _256>, Stride<_256, _1>>;
using GmemB = Layout<Shape<_128, _256>, Stride<_256, _1>>;
using GmemC = Layout<Shape<_128, _128>, Stride<_128, _1>>;
using Mma = decltype(make_tiled_mma(SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 128, UMMA::Major::K, UMMA::Major::K>{}));
using Atom = UMMA::Layout_K_SW128_Atom<half_t>;
using SmemA = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_A(Mma{}, select<0, 2>(CtaTile{}))));
using SmemB = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_B(Mma{}, select<1, 2>(CtaTile{}))));

struct Shared {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
  alignas(8) uint64_t mma_barrier;
  uint32_t tmem_base;
};

extern "C" __global__ void umma_tile_cpp(half_t const* a, half_t const* b, float* c) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});  // (MmaA, 1, 4)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});
  bool warp0 = cutlass::canonical_warp_idx_sync() == 0;

  TMEM::Allocator1Sm tmem;
  if (warp0) {
    tmem.allocate(128, &shared.tmem_base);
    if (elect_one_sync()) initialize_barrier(shared.mma_barrier, 1);
  }
  cutlass::arch::fence_barrier_init();
  __syncthreads();

  Mma tiled_mma;
  ThrMMA cta_mma = tiled_mma.get_slice(0);  // the one CTA that this MMA takes
  auto tile = make_coord(0, 0, _);
  Tensor gA = local_tile(make_tensor(make_gmem_ptr(a), GmemA{}), CtaTile{}, tile, Step<_1, X, _1>{});
  Tensor gB = local_tile(make_tensor(make_gmem_ptr(b), GmemB{}), CtaTile{}, tile, Step<X, _1, _1>{});
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), GmemC{}), CtaTile{}, tile, Step<_1, _1, X>{});
  Tensor tCgA = cta_mma.partition_A(gA);  // (MmaA, 1, 4, k-tiles)
  Tensor tCgB = cta_mma.partition_B(gB);
  Tensor tCgC = cta_mma.partition_C(gC);
  Tensor tCrA = cta_mma.make_fragment_A(sA);  // descriptors
  Tensor tCrB = cta_mma.make_fragment_B(sB);
  Tensor tCtC = cta_mma.make_fragment_C(tCgC);
  tCtC.data() = shared.tmem_base;

  tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;
  for (int k = 0; k < size<3>(tCgA); ++k) {
    cooperative_copy<128>(threadIdx.x, tCgA(_, _, _, k), sA);
    cooperative_copy<128>(threadIdx.x, tCgB(_, _, _, k), sB);
    cutlass::arch::fence_view_async_shared();
    __syncthreads();
    if (warp0) {
      for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
        gemm(tiled_mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCtC);
        tiled_mma.accumulate_ = UMMA::ScaleOut::One;
      }
      cutlass::arch::umma_arrive(&shared.mma_barrier);
    }
    wait_barrier(shared.mma_barrier, k % 2);
  }

  TiledCopy load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x{}, tCtC);
  ThrCopy thr_load = load.get_slice(threadIdx.x);
  Tensor tDtC = thr_load.partition_S(tCtC);
  Tensor tDgC = thr_load.partition_D(tCgC);
  Tensor tDrC = make_tensor<float>(shape(tDgC));
  copy(load, tDtC, tDrC);
  cutlass::arch::fence_view_async_tmem_load();
  copy(tDrC, tDgC);

  __syncthreads();
  if (warp0) {
    tmem.release_allocation_lock();
    tmem.free(shared.tmem_base, 128);
  }
}
