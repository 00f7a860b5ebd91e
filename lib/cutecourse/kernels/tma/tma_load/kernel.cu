// One tile brought by TMA in CuTe C++: the twin of kernels/tma_load.py.
// A is 128x256, K-major; the tile is the 64x64 one at tile coordinates (1, 2), its rows swizzled by 128 bytes.

#include <cute/tensor.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_64, _64>;
using GmemLayout = Layout<Shape<_128, _256>, Stride<_256, _1>>;
using SmemLayout = decltype(composition(Swizzle<3, 4, 3>{}, smem_ptr_flag_bits<16>{}, Layout<CtaTile, Stride<_64, _1>>{}));

auto make_atom(half_t const* a) {
  return make_tma_atom(SM90_TMA_LOAD{}, make_tensor(make_gmem_ptr(a), GmemLayout{}), SmemLayout{}, CtaTile{});
}
using TmaAtom = decltype(make_atom(nullptr));

extern "C" __global__ void tma_load_cpp(CUTE_GRID_CONSTANT TmaAtom const tma_atom, half_t* out) {
  alignas(1024) __shared__ half_t smem_A[cosize_v<SmemLayout>];
  alignas(8) __shared__ uint64_t barrier;
  Tensor sA = make_tensor(make_smem_ptr(smem_A), SmemLayout{});

  int warp = cutlass::canonical_warp_idx_sync();
  if (warp == 0 && elect_one_sync()) {
    initialize_barrier(barrier, 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();

  // The TMA tensor's elements are coordinates; its tile is where the load is to start.
  Tensor mA = tma_atom.get_tma_tensor(shape(GmemLayout{}));
  Tensor gA = local_tile(mA, CtaTile{}, make_coord(1, 2));
  auto [tAgA, tAsA] = tma_partition(tma_atom, Int<0>{}, Layout<_1>{}, group_modes<0, 2>(sA), group_modes<0, 2>(gA));
  if (warp == 0 && elect_one_sync()) {  // here the load does not elect its own thread
    set_barrier_transaction_bytes(barrier, sizeof(half_t) * size(sA));
    copy(tma_atom.with(barrier), tAgA, tAsA);
  }
  wait_barrier(barrier, 0);

  Tensor gOut = make_tensor(make_gmem_ptr(out), Layout<CtaTile, Stride<_64, _1>>{});
  for (int i = threadIdx.x; i < size(sA); i += blockDim.x) gOut(i) = sA(i);
}
