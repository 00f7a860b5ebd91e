// Eight pairs of SMs compute C (512x1024) in CuTe C++, one stage, multicast in a 4x4 cluster: the twin of
// kernels/umma_two_sm.py, for the problem and the cluster of kernels/umma_two_sm_pipeline.py.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cute/atom/copy_traits_sm100_tma.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using Cluster = Shape<_4, _4, _1>;
using Mma = decltype(make_tiled_mma(
    SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 256, UMMA::Major::K, UMMA::Major::K>{}));
using MmaTiler = Shape<_256, _256, _64>;
using ClusterVMNK = decltype(tiled_divide(make_layout(Cluster{}), make_tile(Mma::AtomThrID{})));

using LayoutA = Layout<Shape<_512, _256>, Stride<_256, _1>>;
using LayoutB = Layout<Shape<_1024, _256>, Stride<_256, _1>>;
using LayoutC = Layout<Shape<_512, _1024>, Stride<_1024, _1>>;

// What one CTA of the pair holds: 128 rows of A and 128 of B.
using SmemA = decltype(UMMA::tile_to_mma_shape(
    UMMA::Layout_K_SW128_Atom<half_t>{}, partition_shape_A(Mma{}, select<0, 2>(MmaTiler{}))));
using SmemB = decltype(UMMA::tile_to_mma_shape(
    UMMA::Layout_K_SW128_Atom<half_t>{}, partition_shape_B(Mma{}, select<1, 2>(MmaTiler{}))));

auto make_atom_A(half_t const* a) {
  return make_tma_atom_A_sm100(
      SM100_TMA_2SM_LOAD_MULTICAST{}, make_tensor(make_gmem_ptr(a), LayoutA{}), SmemA{}, MmaTiler{}, Mma{}, ClusterVMNK{});
}
auto make_atom_B(half_t const* b) {
  return make_tma_atom_B_sm100(
      SM100_TMA_2SM_LOAD_MULTICAST{}, make_tensor(make_gmem_ptr(b), LayoutB{}), SmemB{}, MmaTiler{}, Mma{}, ClusterVMNK{});
}
using AtomA = decltype(make_atom_A(nullptr));
using AtomB = decltype(make_atom_B(nullptr));

extern "C" __global__ void umma_two_sm_cpp(
    CUTE_GRID_CONSTANT AtomA const atom_a, CUTE_GRID_CONSTANT AtomB const atom_b, float* c) {
  alignas(1024) __shared__ half_t smem_A[cosize_v<SmemA>];
  alignas(1024) __shared__ half_t smem_B[cosize_v<SmemB>];
  alignas(8) __shared__ uint64_t tma_barrier, mma_barrier;
  __shared__ uint32_t tmem_base;

  ClusterVMNK cluster_layout_vmnk;
  auto cta_coord = cluster_layout_vmnk.get_flat_coord(int(block_rank_in_cluster()));  // (v, m, n, k)
  bool leads = get<0>(cta_coord) == 0;
  uint32_t warp = cutlass::canonical_warp_idx_sync();

  using Allocator = TMEM::Allocator2Sm;
  Allocator allocator;
  if (warp == 0) {
    allocator.allocate(256, &tmem_base);
    if (elect_one_sync()) {
      initialize_barrier(tma_barrier, 1);
      initialize_barrier(mma_barrier, size<1>(cluster_layout_vmnk) + size<2>(cluster_layout_vmnk) - 1);
    }
  }
  cutlass::arch::fence_barrier_init();
  cluster_sync();  // every barrier of the cluster, and both allocations of the pair

  Mma tiled_mma;
  int pair_m = blockIdx.x / size<0>(cluster_layout_vmnk);
  ThrMMA cta_mma = tiled_mma.get_slice(get<0>(cta_coord));
  Tensor gA = local_tile(atom_a.get_tma_tensor(shape(LayoutA{})), select<0, 2>(MmaTiler{}), make_coord(pair_m, _));
  Tensor gB = local_tile(atom_b.get_tma_tensor(shape(LayoutB{})), select<1, 2>(MmaTiler{}), make_coord(blockIdx.y, _));
  Tensor gC = local_tile(
      make_tensor(make_gmem_ptr(c), LayoutC{}), select<0, 1>(MmaTiler{}), make_coord(pair_m, blockIdx.y));
  Tensor tCgA = cta_mma.partition_A(gA);
  Tensor tCgB = cta_mma.partition_B(gB);
  Tensor tCgC = cta_mma.partition_C(gC);
  Tensor tCsA = make_tensor(make_smem_ptr(smem_A), SmemA{});
  Tensor tCsB = make_tensor(make_smem_ptr(smem_B), SmemB{});
  Tensor tCrA = cta_mma.make_fragment_A(tCsA);
  Tensor tCrB = cta_mma.make_fragment_B(tCsB);
  Tensor tCtC = cta_mma.make_fragment_C(tCgC);
  tCtC.data() = tmem_base;

  auto [tAgA, tAsA] = tma_partition(
      atom_a, get<2>(cta_coord), make_layout(size<2>(cluster_layout_vmnk)), group_modes<0, 3>(tCsA), group_modes<0, 3>(tCgA));
  auto [tBgB, tBsB] = tma_partition(
      atom_b, get<1>(cta_coord), make_layout(size<1>(cluster_layout_vmnk)), group_modes<0, 3>(tCsB), group_modes<0, 3>(tCgB));
  uint16_t mask_a = create_tma_multicast_mask<2>(cluster_layout_vmnk, cta_coord);
  uint16_t mask_b = create_tma_multicast_mask<1>(cluster_layout_vmnk, cta_coord);
  uint16_t mask_c = create_tma_multicast_mask<0, 1>(cluster_layout_vmnk, cta_coord) |
                    create_tma_multicast_mask<0, 2>(cluster_layout_vmnk, cta_coord);
  int pair_bytes = size<0>(cluster_layout_vmnk) * int(sizeof(half_t)) * (size(tCsA) + size(tCsB));

  tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;
  for (int k = 0; k < size<3>(tCgA); ++k) {
    if (warp == 0 && elect_one_sync()) {
      if (leads) set_barrier_transaction_bytes(tma_barrier, pair_bytes);
      copy(atom_a.with(tma_barrier, mask_a), tAgA(_, k), tAsA);
      copy(atom_b.with(tma_barrier, mask_b), tBgB(_, k), tBsB);
    }
    if (leads) {
      wait_barrier(tma_barrier, k % 2);
      if (warp == 0) {
        for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
          gemm(tiled_mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCtC);
          tiled_mma.accumulate_ = UMMA::ScaleOut::One;
        }
        cutlass::arch::umma_arrive_multicast_2x1SM(&mma_barrier, mask_c);
      }
    }
    wait_barrier(mma_barrier, k % 2);
    __syncthreads();  // a warp two k-tiles behind would wait for a phase that is over
  }

  TiledCopy load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b32x{}, tCtC);
  ThrCopy thr_load = load.get_slice(threadIdx.x);
  Tensor tDtC = thr_load.partition_S(tCtC);
  Tensor tDgC = thr_load.partition_D(tCgC);
  CUTE_UNROLL
  for (int i = 0; i < size<1>(tDgC); ++i) {
    Tensor tDrC = make_tensor<float>(shape(tDgC(_, 0, 0, 0)));
    copy(load, tDtC(_, i, 0, 0), tDrC);
    cutlass::arch::fence_view_async_tmem_load();
    copy(tDrC, tDgC(_, i, 0, 0));
  }

  cluster_sync();  // both have read their half of the accumulator
  if (warp == 0) {
    allocator.release_allocation_lock();
    allocator.free(tmem_base, 256);
  }
}
