// A 4x4 cluster computes C in CuTe C++: the twin of kernels/umma_tma_multicast.py.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_128, _256, _64>;
using Cluster = Shape<_4, _4, _1>;
using GmemA = Layout<Shape<_512, _256>, Stride<_256, _1>>;
using GmemB = Layout<Shape<_1024, _256>, Stride<_256, _1>>;
using GmemC = Layout<Shape<_512, _1024>, Stride<_1024, _1>>;
using Mma = decltype(make_tiled_mma(SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 256, UMMA::Major::K, UMMA::Major::K>{}));
using Atom = UMMA::Layout_K_SW128_Atom<half_t>;
using SmemA = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_A(Mma{}, select<0, 2>(CtaTile{}))));
using SmemB = decltype(UMMA::tile_to_mma_shape(Atom{}, partition_shape_B(Mma{}, select<1, 2>(CtaTile{}))));
using ClusterVMNK = decltype(tiled_divide(make_layout(Cluster{}), make_tile(typename Mma::AtomThrID{})));

auto make_atom_A(half_t const* a) {
  return make_tma_atom(SM90_TMA_LOAD_MULTICAST{}, make_tensor(make_gmem_ptr(a), GmemA{}), SmemA{}, select<0, 2>(CtaTile{}), size<2>(ClusterVMNK{}));
}
auto make_atom_B(half_t const* b) {
  return make_tma_atom(SM90_TMA_LOAD_MULTICAST{}, make_tensor(make_gmem_ptr(b), GmemB{}), SmemB{}, select<1, 2>(CtaTile{}), size<1>(ClusterVMNK{}));
}
using TmaA = decltype(make_atom_A(nullptr));
using TmaB = decltype(make_atom_B(nullptr));

struct Shared {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
  alignas(8) uint64_t tma_barrier, mma_barrier;
  uint32_t tmem_base;
};

extern "C" __global__ void umma_tma_multicast_cpp(CUTE_GRID_CONSTANT TmaA const tma_A, CUTE_GRID_CONSTANT TmaB const tma_B, float* c) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});  // (MmaA, 1, 4)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});
  ClusterVMNK cluster_layout_vmnk;
  auto cta_coord = cluster_layout_vmnk.get_flat_coord(int(block_rank_in_cluster()));  // (v, m, n, k)
  bool warp0 = cutlass::canonical_warp_idx_sync() == 0;

  TMEM::Allocator1Sm tmem;
  if (warp0) {
    tmem.allocate(256, &shared.tmem_base);
    if (elect_one_sync()) {
      initialize_barrier(shared.tma_barrier, 1);
      initialize_barrier(shared.mma_barrier, size<1>(cluster_layout_vmnk) + size<2>(cluster_layout_vmnk) - 1);
    }
  }
  cutlass::arch::fence_barrier_init();
  cluster_sync();

  Mma tiled_mma;
  ThrMMA cta_mma = tiled_mma.get_slice(get<0>(cta_coord));
  auto tile = make_coord(blockIdx.x, blockIdx.y, _);
  Tensor gA = local_tile(tma_A.get_tma_tensor(shape(GmemA{})), CtaTile{}, tile, Step<_1, X, _1>{});
  Tensor gB = local_tile(tma_B.get_tma_tensor(shape(GmemB{})), CtaTile{}, tile, Step<X, _1, _1>{});
  Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), GmemC{}), CtaTile{}, tile, Step<_1, _1, X>{});
  Tensor tCgA = cta_mma.partition_A(gA);  // (MmaA, 1, 4, k-tiles)
  Tensor tCgB = cta_mma.partition_B(gB);
  Tensor tCgC = cta_mma.partition_C(gC);
  Tensor tCrA = cta_mma.make_fragment_A(sA);  // descriptors
  Tensor tCrB = cta_mma.make_fragment_B(sB);
  Tensor tCtC = cta_mma.make_fragment_C(tCgC);
  tCtC.data() = shared.tmem_base;
  auto [tAgA, tAsA] = tma_partition(tma_A, get<2>(cta_coord), make_layout(size<2>(cluster_layout_vmnk)), group_modes<0, 3>(sA), group_modes<0, 3>(tCgA));
  auto [tBgB, tBsB] = tma_partition(tma_B, get<1>(cta_coord), make_layout(size<1>(cluster_layout_vmnk)), group_modes<0, 3>(sB), group_modes<0, 3>(tCgB));
  uint16_t mask_a = create_tma_multicast_mask<2>(cluster_layout_vmnk, cta_coord);
  uint16_t mask_b = create_tma_multicast_mask<1>(cluster_layout_vmnk, cta_coord);
  int tile_bytes = sizeof(half_t) * (size(SmemA{}) + size(SmemB{}));

  tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;
  for (int k = 0; k < size<3>(tCgA); ++k) {
    if (warp0 && elect_one_sync()) {
      set_barrier_transaction_bytes(shared.tma_barrier, tile_bytes);
      copy(tma_A.with(shared.tma_barrier, mask_a), tAgA(_, k), tAsA);
      copy(tma_B.with(shared.tma_barrier, mask_b), tBgB(_, k), tBsB);
    }
    wait_barrier(shared.tma_barrier, k % 2);
    if (warp0) {
      for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
        gemm(tiled_mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCtC);
        tiled_mma.accumulate_ = UMMA::ScaleOut::One;
      }
      cutlass::arch::umma_arrive_multicast(&shared.mma_barrier, mask_a | mask_b);
    }
    wait_barrier(shared.mma_barrier, k % 2);
    __syncthreads();  // a warp two k-tiles behind would wait for a phase that is over
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
    tmem.free(shared.tmem_base, 256);
  }
}
