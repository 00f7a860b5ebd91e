// Exercise 12.7: one CTA computes C (128x64) over K = 192 in CuTe C++. TMA brings the k-tiles; the main loop is yours.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_128, _64, _64>;
using GmemA = Layout<Shape<_128, _192>, Stride<_192, _1>>;
using GmemB = Layout<Shape<_64, _192>, Stride<_192, _1>>;
using GmemC = Layout<Shape<_128, _64>, Stride<_64, _1>>;
using Mma = decltype(make_tiled_mma(SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, UMMA::Major::K, UMMA::Major::K>{}));
using Atom = UMMA::Layout_K_SW128_Atom<half_t>;
using SmemA = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_A(Mma{}, select<0, 2>(CtaTile{}))));
using SmemB = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_B(Mma{}, select<1, 2>(CtaTile{}))));

auto make_atom_A(half_t const* a) {
  return make_tma_atom(SM90_TMA_LOAD{}, make_tensor(make_gmem_ptr(a), GmemA{}), SmemA{}, select<0, 2>(CtaTile{}));
}
auto make_atom_B(half_t const* b) {
  return make_tma_atom(SM90_TMA_LOAD{}, make_tensor(make_gmem_ptr(b), GmemB{}), SmemB{}, select<1, 2>(CtaTile{}));
}
using TmaA = decltype(make_atom_A(nullptr));
using TmaB = decltype(make_atom_B(nullptr));

struct Shared {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
  alignas(8) uint64_t tma_barrier, mma_barrier;
  uint32_t tmem_base;
};

extern "C" __global__ void one_tile(CUTE_GRID_CONSTANT TmaA const tma_A, CUTE_GRID_CONSTANT TmaB const tma_B, float* c) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});
  bool warp0 = cutlass::canonical_warp_idx_sync() == 0;

  TMEM::Allocator1Sm tmem;
  if (warp0) {
    tmem.allocate(64, &shared.tmem_base);
    if (elect_one_sync()) {
      initialize_barrier(shared.tma_barrier, 1);
      initialize_barrier(shared.mma_barrier, 1);
    }
  }
  cutlass::arch::fence_barrier_init();
  __syncthreads();

  Mma tiled_mma;
  ThrMMA cta_mma = tiled_mma.get_slice(0);
  auto tile = make_coord(0, 0, _);
  Tensor gA = local_tile(tma_A.get_tma_tensor(shape(GmemA{})), CtaTile{}, tile, Step<_1, X, _1>{});
  Tensor gB = local_tile(tma_B.get_tma_tensor(shape(GmemB{})), CtaTile{}, tile, Step<X, _1, _1>{});
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), GmemC{}), CtaTile{}, tile, Step<_1, _1, X>{});
  Tensor tCgA = cta_mma.partition_A(gA);
  Tensor tCgB = cta_mma.partition_B(gB);
  Tensor tCgC = cta_mma.partition_C(gC);
  Tensor tCrA = cta_mma.make_fragment_A(sA);  // (1, 1, k-blocks)
  Tensor tCrB = cta_mma.make_fragment_B(sB);
  Tensor tCtC = cta_mma.make_fragment_C(tCgC);
  tCtC.data() = shared.tmem_base;
  auto [tAgA, tAsA] = tma_partition(tma_A, 0, make_layout(1), group_modes<0, 3>(sA), group_modes<0, 3>(tCgA));
  auto [tBgB, tBsB] = tma_partition(tma_B, 0, make_layout(1), group_modes<0, 3>(sB), group_modes<0, 3>(tCgB));

  // YOUR MAIN LOOP

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
    tmem.free(shared.tmem_base, 64);
  }
}
