// Pairs of SMs compute D = alpha A B^T + beta C (512x512x320) in CuTe C++, D in bf16 through shared memory and TMA: the
// twin of umma_store with C as an input.

#include <cute/tensor.hpp>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cute/atom/copy_traits_sm100_tma.hpp>
#include <cutlass/arch/barrier.h>

using namespace cute;

constexpr int kStages = 3, kBuffers = 2, kStoringWarps = 4;
using Mma = decltype(make_tiled_mma(
    SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 256, UMMA::Major::K, UMMA::Major::K>{}));
using MmaTiler = Shape<_256, _256, _64>;
using ClusterVMNK = decltype(tiled_divide(make_layout(Shape<_2, _1, _1>{}), make_tile(Mma::AtomThrID{})));
using Piece = Shape<_32, _64>;  // what one TMA store writes: a warp's rows, and 128 bytes of each

using LayoutA = Layout<Shape<_512, Int<320>>, Stride<Int<320>, _1>>;
using LayoutB = Layout<Shape<_512, Int<320>>, Stride<Int<320>, _1>>;
using LayoutD = Layout<Shape<_512, _512>, Stride<_512, _1>>;

using SmemA = decltype(UMMA::tile_to_mma_shape(
    UMMA::Layout_K_SW128_Atom<half_t>{}, append(partition_shape_A(Mma{}, select<0, 2>(MmaTiler{})), Int<kStages>{})));
using SmemB = decltype(UMMA::tile_to_mma_shape(
    UMMA::Layout_K_SW128_Atom<half_t>{}, append(partition_shape_B(Mma{}, select<1, 2>(MmaTiler{})), Int<kStages>{})));
using SmemD = decltype(tile_to_shape(
    UMMA::Layout_K_SW128_Atom<bfloat16_t>{}, append(Piece{}, Int<kStoringWarps * kBuffers>{})));

struct Storage {
  alignas(1024) half_t A[cosize_v<SmemA>];
  alignas(1024) half_t B[cosize_v<SmemB>];
  alignas(1024) bfloat16_t D[cosize_v<SmemD>];
  uint64_t full[kStages], empty[kStages], acc_full;
  uint32_t tmem_base;
};

auto make_atom_A(half_t const* a) {
  return make_tma_atom_A_sm100(
      SM100_TMA_2SM_LOAD{}, make_tensor(make_gmem_ptr(a), LayoutA{}), SmemA{}(_, _, _, _0{}), MmaTiler{}, Mma{}, ClusterVMNK{});
}
auto make_atom_B(half_t const* b) {
  return make_tma_atom_B_sm100(
      SM100_TMA_2SM_LOAD{}, make_tensor(make_gmem_ptr(b), LayoutB{}), SmemB{}(_, _, _, _0{}), MmaTiler{}, Mma{}, ClusterVMNK{});
}
auto make_atom_D(bfloat16_t* d) {
  return make_tma_atom(SM90_TMA_STORE{}, make_tensor(make_gmem_ptr(d), LayoutD{}), SmemD{}(_, _, _0{}), Piece{});
}
using AtomA = decltype(make_atom_A(nullptr));
using AtomB = decltype(make_atom_B(nullptr));
using AtomD = decltype(make_atom_D(nullptr));

extern "C" __global__ void umma_store_cpp(
    CUTE_GRID_CONSTANT AtomA const atom_a, CUTE_GRID_CONSTANT AtomB const atom_b, CUTE_GRID_CONSTANT AtomD const atom_d,
    bfloat16_t const* c, float alpha, float beta) {
  extern __shared__ __align__(1024) uint8_t bytes[];
  Storage& shared = *reinterpret_cast<Storage*>(bytes);

  int rank = int(block_rank_in_cluster());
  bool leads = rank == 0;
  uint32_t warp = cutlass::canonical_warp_idx_sync(), lane = threadIdx.x % 32;

  TMEM::Allocator2Sm allocator;
  if (warp == 0) {
    allocator.allocate(256, &shared.tmem_base);
    if (elect_one_sync()) {
      for (int stage = 0; stage < kStages; ++stage) {
        initialize_barrier(shared.full[stage], 1);
        initialize_barrier(shared.empty[stage], 1);
      }
      initialize_barrier(shared.acc_full, 1);
    }
  }
  cutlass::arch::fence_barrier_init();
  cluster_sync();  // every barrier of the pair, and both allocations

  Mma tiled_mma;
  int pair_m = blockIdx.x / 2;
  ThrMMA cta_mma = tiled_mma.get_slice(rank);
  Tensor gA = local_tile(atom_a.get_tma_tensor(shape(LayoutA{})), select<0, 2>(MmaTiler{}), make_coord(pair_m, _));
  Tensor gB = local_tile(atom_b.get_tma_tensor(shape(LayoutB{})), select<1, 2>(MmaTiler{}), make_coord(blockIdx.y, _));
  Tensor sA = make_tensor(make_smem_ptr(shared.A), SmemA{});
  Tensor sB = make_tensor(make_smem_ptr(shared.B), SmemB{});
  Tensor sD = make_tensor(make_smem_ptr(shared.D), SmemD{});  // (32, 64, buffers of all warps)
  Tensor tCrA = cta_mma.make_fragment_A(sA);
  Tensor tCrB = cta_mma.make_fragment_B(sB);
  Tensor cD = make_identity_tensor(select<0, 1>(MmaTiler{}));
  Tensor tCcD = cta_mma.partition_C(cD);
  Tensor tCtC = cta_mma.make_fragment_C(tCcD);
  tCtC.data() = shared.tmem_base;
  int k_tiles = size<2>(gA);

  if (warp == kStoringWarps) {  // loads
    Tensor tCgA = cta_mma.partition_A(gA);
    Tensor tCgB = cta_mma.partition_B(gB);
    auto [tAgA, tAsA] = tma_partition(atom_a, _0{}, Layout<_1>{}, group_modes<0, 3>(sA), group_modes<0, 3>(tCgA));
    auto [tBgB, tBsB] = tma_partition(atom_b, _0{}, Layout<_1>{}, group_modes<0, 3>(sB), group_modes<0, 3>(tCgB));
    int pair_bytes = 2 * int(sizeof(half_t)) * (size(sA) + size(sB)) / kStages;
    if (elect_one_sync()) {
      for (int k = 0; k < k_tiles; ++k) {
        int stage = k % kStages, turn = k / kStages;
        wait_barrier(shared.empty[stage], turn % 2 ^ 1);
        if (leads) set_barrier_transaction_bytes(shared.full[stage], pair_bytes);
        copy(atom_a.with(shared.full[stage]), tAgA(_, k), tAsA(_, stage));
        copy(atom_b.with(shared.full[stage]), tBgB(_, k), tBsB(_, stage));
      }
    }
  } else if (warp == kStoringWarps + 1) {  // multiplies
    if (leads) {
      tiled_mma.accumulate_ = UMMA::ScaleOut::Zero;
      for (int k = 0; k < k_tiles; ++k) {
        int stage = k % kStages, turn = k / kStages;
        wait_barrier(shared.full[stage], turn % 2);
        for (int k_block = 0; k_block < size<2>(tCrA); ++k_block) {
          gemm(tiled_mma, tCrA(_, _, k_block, stage), tCrB(_, _, k_block, stage), tCtC);
          tiled_mma.accumulate_ = UMMA::ScaleOut::One;
        }
        cutlass::arch::umma_arrive_multicast_2x1SM(&shared.empty[stage], 0b11);
      }
      cutlass::arch::umma_arrive_multicast_2x1SM(&shared.acc_full, 0b11);
    }
  } else {  // stores: tensor memory, registers, shared memory, TMA
    TiledCopy load = make_tmem_copy(SM100_TMEM_LOAD_32dp32b64x{}, tCtC);
    ThrCopy thr_load = load.get_slice(threadIdx.x);
    Tensor tDtC = thr_load.partition_S(tCtC);
    Tensor tDcD = thr_load.partition_D(tCcD);
    Tensor gD = local_tile(atom_d.get_tma_tensor(shape(LayoutD{})), Piece{}, make_coord(_, _));
    auto [tDgD, tDsD] = tma_partition(atom_d, _0{}, Layout<_1>{}, group_modes<0, 2>(sD), group_modes<0, 2>(gD));
    Tensor gC = local_tile(make_tensor(make_gmem_ptr(c), LayoutD{}), Piece{}, make_coord(_, _));
    Tensor eights = recast<uint128_t>(sD);  // the same pieces, 16 bytes at a time
    int row = (2 * pair_m + rank) * kStoringWarps + warp;  // of pieces
    wait_barrier(shared.acc_full, 0);
    for (int i = 0; i < size<1>(tDtC); ++i) {
      int column = blockIdx.y * size<1>(tDtC) + i, buffer = warp * kBuffers + i % kBuffers;
      Tensor tDrS = make_tensor<float>(shape(tDcD(_, 0, 0, 0)));
      copy(load, tDtC(_, i, 0, 0), tDrS);
      cutlass::arch::fence_view_async_tmem_load();
      Tensor tDrC = make_tensor<bfloat16_t>(Shape<_64>{});
      Tensor rounded = make_tensor<bfloat16_t>(Shape<_64>{});
      copy(recast<uint128_t const>(gC(lane, _, row, column)), recast<uint128_t>(tDrC));
      CUTE_UNROLL
      for (int j = 0; j < 64; ++j) rounded(j) = bfloat16_t(alpha * tDrS(j) + beta * float(tDrC(j)));
      if (elect_one_sync()) tma_store_wait<kBuffers - 1>();  // TMA has read what the buffer held
      __syncwarp();
      copy(recast<uint128_t>(rounded), eights(lane, _, buffer));
      tma_store_fence();
      __syncwarp();
      if (elect_one_sync()) {
        copy(atom_d, tDsD(_, buffer), tDgD(_, row, column));
        tma_store_arrive();
      }
    }
    if (elect_one_sync()) tma_store_wait<0>();
  }

  cluster_sync();  // both have read their half of the accumulator
  if (warp == 0) {
    allocator.release_allocation_lock();
    allocator.free(shared.tmem_base, 256);
  }
}
