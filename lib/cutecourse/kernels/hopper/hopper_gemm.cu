// A GEMM (256x256x192) with four stages in CuTe C++: the twin of kernels/hopper_stages.py.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

using CtaTile = Shape<_128, _128, _64>;
constexpr int Stages = 4, Ahead = Stages - 1;
using GmemA = Layout<Shape<_256, Int<192>>, Stride<Int<192>, _1>>;
using GmemB = Layout<Shape<_256, Int<192>>, Stride<Int<192>, _1>>;
using GmemC = Layout<Shape<_256, _256>, Stride<_256, _1>>;
using Mma = decltype(make_tiled_mma(SM90_64x128x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::K>{}, Layout<Shape<_2, _1, _1>>{}));
using Atom = GMMA::Layout_K_SW128_Atom<half_t>;
using SmemA = decltype(tile_to_shape(Atom{}, make_shape(_128{}, _64{}, Int<Stages>{})));
using SmemB = decltype(tile_to_shape(Atom{}, make_shape(_128{}, _64{}, Int<Stages>{})));

auto make_atom_A(half_t const* a) {
  return make_tma_atom(SM90_TMA_LOAD{}, make_tensor(make_gmem_ptr(a), GmemA{}), take<0, 2>(SmemA{}), select<0, 2>(CtaTile{}));
}
auto make_atom_B(half_t const* b) {
  return make_tma_atom(SM90_TMA_LOAD{}, make_tensor(make_gmem_ptr(b), GmemB{}), take<0, 2>(SmemB{}), select<1, 2>(CtaTile{}));
}
using TmaA = decltype(make_atom_A(nullptr));
using TmaB = decltype(make_atom_B(nullptr));

struct Shared {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
  alignas(8) uint64_t full[Stages];
};

extern "C" __global__ void hopper_gemm_cpp(CUTE_GRID_CONSTANT TmaA const tma_a, CUTE_GRID_CONSTANT TmaB const tma_b, half_t* c) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});  // (128, 64, stages)
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});
  bool loads = threadIdx.x == 0;
  if (loads) {
    for (uint64_t& barrier : shared.full) initialize_barrier(barrier, 1);
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();

  auto tile = make_coord(blockIdx.x, blockIdx.y, _);
  Tensor gA = local_tile(tma_a.get_tma_tensor(shape(GmemA{})), CtaTile{}, tile, Step<_1, X, _1>{});  // (128, 64, k-tiles)
  Tensor gB = local_tile(tma_b.get_tma_tensor(shape(GmemB{})), CtaTile{}, tile, Step<X, _1, _1>{});
  auto parts_a = tma_partition(tma_a, _0{}, Layout<_1>{}, group_modes<0, 2>(sA), group_modes<0, 2>(gA));  // tAgA and tAsA
  auto parts_b = tma_partition(tma_b, _0{}, Layout<_1>{}, group_modes<0, 2>(sB), group_modes<0, 2>(gB));
  int k_tiles = size<2>(gA);
  auto load = [&](int k) {
    uint64_t& full = shared.full[k % Stages];
    set_barrier_transaction_bytes(full, sizeof(half_t) * (128 + 128) * 64);
    copy(tma_a.with(full), get<0>(parts_a)(_, k), get<1>(parts_a)(_, k % Stages));
    copy(tma_b.with(full), get<0>(parts_b)(_, k), get<1>(parts_b)(_, k % Stages));
  };

  Mma tiled_mma;
  ThrMMA thr_mma = tiled_mma.get_thread_slice(threadIdx.x);
  Tensor tCrA = thr_mma.make_fragment_A(thr_mma.partition_A(sA));  // (1, 1, 4, stages): descriptors
  Tensor tCrB = thr_mma.make_fragment_B(thr_mma.partition_B(sB));
  Tensor tCgC = thr_mma.partition_C(local_tile(make_tensor(make_gmem_ptr(c), GmemC{}), CtaTile{}, tile, Step<_1, _1, X>{}));
  Tensor acc = thr_mma.make_fragment_C(tCgC);  // not half: the MMA's sums are float

  tiled_mma.accumulate_ = GMMA::ScaleOut::Zero;
  for (int k = 0; loads && k < min(Ahead, k_tiles); ++k) load(k);
  for (int k = 0; k < k_tiles; ++k) {
    wait_barrier(shared.full[k % Stages], k / Stages % 2);
    warpgroup_arrive();
    for (int block = 0; block < size<2>(tCrA); ++block) {
      gemm(tiled_mma, tCrA(_, _, block, k % Stages), tCrB(_, _, block, k % Stages), acc);
      tiled_mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_wait<1>();  // my warpgroup has read k-tile k - 1
    __syncthreads();      // both have, so its stage may be filled again
    if (loads && k + Ahead < k_tiles) load(k + Ahead);
  }
  warpgroup_wait<0>();
  copy(acc, tCgC);
}
