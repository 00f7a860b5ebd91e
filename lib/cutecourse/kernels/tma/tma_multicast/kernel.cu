// Four CTAs send each other the quarters of a tile in CuTe C++: the twin of kernels/tma_multicast.py.

#include <cute/tensor.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_128, _64>;
using Cluster = Shape<_1, _4, _1>;
using GmemLayout = Layout<CtaTile, Stride<_64, _1>>;
using SmemLayout = decltype(composition(Swizzle<3, 4, 3>{}, smem_ptr_flag_bits<16>{}, Layout<CtaTile, Stride<_64, _1>>{}));

auto make_atom(half_t const* a) {
  return make_tma_atom(
      SM90_TMA_LOAD_MULTICAST{}, make_tensor(make_gmem_ptr(a), GmemLayout{}), SmemLayout{}, CtaTile{}, size<1>(Cluster{}));
}
using TmaAtom = decltype(make_atom(nullptr));

extern "C" __global__ void tma_multicast_cpp(CUTE_GRID_CONSTANT TmaAtom const tma_atom, half_t* out) {
  alignas(1024) __shared__ half_t smem_A[cosize_v<SmemLayout>];
  alignas(8) __shared__ uint64_t barrier;
  Tensor sA = make_tensor(make_smem_ptr(smem_A), SmemLayout{});

  auto cluster_layout_vmnk = tiled_divide(make_layout(Cluster{}), make_tile(_1{}));
  int rank = block_rank_in_cluster();
  auto cta_coord = cluster_layout_vmnk.get_flat_coord(rank);  // (v, m, n, k)

  int warp = cutlass::canonical_warp_idx_sync();
  if (warp == 0 && elect_one_sync()) {
    initialize_barrier(barrier, 1);
    set_barrier_transaction_bytes(barrier, sizeof(half_t) * size(sA));
  }
  // A neighbour's bytes may come as soon as it runs: every barrier of the cluster must be ready before.
  cutlass::arch::fence_barrier_init();
  cluster_sync();

  Tensor mA = tma_atom.get_tma_tensor(shape(GmemLayout{}));
  Tensor gA = local_tile(mA, CtaTile{}, make_coord(0, 0));
  auto [tAgA, tAsA] = tma_partition(
      tma_atom, get<2>(cta_coord), make_layout(size<2>(cluster_layout_vmnk)), group_modes<0, 2>(sA), group_modes<0, 2>(gA));
  uint16_t mask = create_tma_multicast_mask<2>(cluster_layout_vmnk, cta_coord);
  if (warp == 0 && elect_one_sync()) copy(tma_atom.with(barrier, mask), tAgA, tAsA);
  wait_barrier(barrier, 0);

  Tensor gOut = make_tensor(make_gmem_ptr(out + rank * size(CtaTile{})), GmemLayout{});
  for (int i = threadIdx.x; i < size(sA); i += blockDim.x) gOut(i) = sA(i);
  cluster_sync();  // nobody leaves while its shared memory may still be written to
}
