// Prints what CUTLASS's headers compute for tcgen05: shared-memory layouts and descriptors, the MMA's layouts
// and partitions, tensor-memory layouts and copies, one `key<TAB>value` a line. A unit that `regenerate.py`
// writes includes this file and calls the functions below, one call a case. Values inside a function of
// CUTLASS are computed here with the same CuTe operations, and the last one is compared with what it returns.
#pragma once

#include <cstdint>
#include <cstdio>
#include <type_traits>

// An address in shared memory is a device's matter: on the host the low half of a pointer stands for it.
#include <cute/arch/util.hpp>
namespace cute {
inline uint32_t probe_smem_address(void const* ptr) { return uint32_t(uintptr_t(ptr)); }
}  // namespace cute
#define cast_smem_ptr_to_uint probe_smem_address

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/copy_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cutlass/detail/sm100_tmem_helper.hpp>

using namespace cute;

inline void begin(char const* name) { std::printf("case\t%s\n", name); }

inline void number(char const* key, unsigned long long value) { std::printf("%s\t%llu\n", key, value); }

template <class T>
void line(char const* key, T const& value) {
  std::printf("%s\t", key);
  print(value);
  std::printf("\n");
}

// A tensor as its offset in elements and its layout: the pointer's print holds an address.
constexpr uintptr_t kBase = uintptr_t(1) << 32;

template <class Tensor>
void partition_line(char const* key, Tensor const& tensor) {
  using T = typename Tensor::value_type;
  auto offset = (reinterpret_cast<uintptr_t>(raw_pointer_cast(tensor.data())) - kBase) * 8 / sizeof_bits_v<T>;
  std::printf("%s\t%llu o ", key, (unsigned long long)offset);
  print(tensor.layout());
  std::printf("\n");
}

// ---- shared memory ----

template <class T, class SLayout>
auto smem(SLayout const& layout, uintptr_t address) {
  return make_tensor(make_smem_ptr(reinterpret_cast<T*>(address)), layout);
}

// The layout and the swizzle of a tensor in units of 16 bytes.
template <class Tensor>
void print_u128(Tensor const& tensor) {
  auto u128 = recast<uint128_t const>(tensor);
  line("u128_layout", u128.layout());
  line("u128_swizzle", get_swizzle_t<decltype(u128)>{});
}

// make_umma_desc of a whole tensor of rank 2.
template <UMMA::Major Major, class T, class SLayout>
void desc(char const* name, SLayout const& layout, uintptr_t address) {
  begin(name);
  auto tensor = smem<T>(layout, address);
  line("layout", tensor.layout());
  print_u128(tensor);
  auto made = UMMA::make_umma_desc<Major>(tensor);
  number("desc", made.desc_);
}

// make_gmma_desc, the same for wgmma.
template <GMMA::Major Major, class T, class SLayout>
void gmma_desc(char const* name, SLayout const& layout, uintptr_t address) {
  begin(name);
  auto tensor = smem<T>(layout, address);
  line("layout", tensor.layout());
  print_u128(tensor);
  auto made = GMMA::make_gmma_desc<Major>(tensor);
  number("desc", made.desc_);
}

// tile_to_mma_shape step by step, and the descriptors of its instructions.
template <UMMA::Major Major, class T, class Atom, class MmaShape, class Order>
void mma_shape(char const* name, Atom const& atom, MmaShape const& mma_tile_shape, Order const& order,
               uintptr_t address) {
  begin(name);
  constexpr int R = decltype(rank(mma_tile_shape))::value;
  line("atom", atom);
  line("mma_tile_shape", mma_tile_shape);
  auto zipped = zip(shape<0>(mma_tile_shape), take<1, 3>(mma_tile_shape));
  line("zipped", zipped);
  auto mn_shape = tuple_cat(zipped, take<3, R>(mma_tile_shape));
  line("mn_shape", mn_shape);
  auto mn_tiled = tile_to_shape(atom, mn_shape, order);
  line("mn_tiled", mn_tiled);
  auto tiler = product_each(shape<0>(mma_tile_shape));
  line("tiler", tiler);
  auto result = tiled_divide(mn_tiled, tiler);
  auto made = UMMA::tile_to_mma_shape(atom, mma_tile_shape, order);
  static_assert(std::is_same_v<decltype(result), decltype(made)>, "the steps above are not CuTe's");
  line("result", made);
  auto tensor = smem<T>(made, address);
  auto descriptors = make_tensor<UMMA::smem_desc<Major>>(tensor);
  line("desc_layout", descriptors.layout());
  for (int i = 0; i < int(size(descriptors)); ++i) number("desc", descriptors(i).desc_);
}

// ---- atoms ----

template <class Op>
void atom(char const* name, Op const&) {
  begin(name);
  using Traits = MMA_Traits<Op>;
  line("shape_mnk", typename Traits::Shape_MNK{});
  line("thr_id", typename Traits::ThrID{});
  line("layout_a", typename Traits::ALayout{});
  line("layout_b", typename Traits::BLayout{});
  line("layout_c", typename Traits::CLayout{});
  number("idesc", Traits{}.idesc_.desc_);
  auto tiled_mma = make_tiled_mma(Op{});
  line("thr_layout_vmnk", tiled_mma.get_thr_layout_vmnk());
  line("tile_shape", tile_shape(tiled_mma));
}

// The MMA's part of the tutorials: shapes, tiles of A, B and C, and each peer's partition of them.
template <class Op, class Tiler, class Cluster>
void example(char const* name, Op const&, Tiler const& mma_tiler, Cluster const& cluster_shape) {
  begin(name);
  using T = half_t;
  auto tiled_mma = make_tiled_mma(Op{});
  auto vmnk = tiled_divide(make_layout(cluster_shape), make_tile(typename decltype(tiled_mma)::AtomThrID{}));
  line("cluster_layout_vmnk", vmnk);
  auto shape_a = partition_shape_A(tiled_mma, make_shape(size<0>(mma_tiler), size<2>(mma_tiler)));
  auto shape_b = partition_shape_B(tiled_mma, make_shape(size<1>(mma_tiler), size<2>(mma_tiler)));
  auto shape_c = partition_shape_C(tiled_mma, make_shape(size<0>(mma_tiler), size<1>(mma_tiler)));
  line("partition_shape_A", shape_a);
  line("partition_shape_B", shape_b);
  line("partition_shape_C", shape_c);
  auto sA = UMMA::tile_to_mma_shape(UMMA::Layout_K_SW128_Atom<T>{}, shape_a);
  auto sB = UMMA::tile_to_mma_shape(UMMA::Layout_K_SW128_Atom<T>{}, shape_b);
  line("sA", sA);
  line("sB", sB);
  auto mA = make_tensor(make_gmem_ptr(reinterpret_cast<T*>(kBase)), make_layout(make_shape(512, 256), make_stride(256, _1{})));
  auto mB = make_tensor(make_gmem_ptr(reinterpret_cast<T*>(kBase)), make_layout(make_shape(1024, 256), make_stride(256, _1{})));
  auto mC = make_tensor(make_gmem_ptr(reinterpret_cast<float*>(kBase)), make_layout(make_shape(512, 1024), make_stride(1024, _1{})));
  auto cA = make_identity_tensor(shape(mA));
  auto cB = make_identity_tensor(shape(mB));
  auto cC = make_identity_tensor(shape(mC));
  auto crd = make_coord(1, 2, _);
  auto step_a = Step<_1, X, _1>{};
  auto step_b = Step<X, _1, _1>{};
  auto step_c = Step<_1, _1, X>{};
  auto gA = local_tile(mA, mma_tiler, crd, step_a);
  auto gB = local_tile(mB, mma_tiler, crd, step_b);
  auto gC = local_tile(mC, mma_tiler, crd, step_c);
  partition_line("gA", gA);
  partition_line("gB", gB);
  partition_line("gC", gC);
  constexpr int Peers = decltype(size(typename decltype(tiled_mma)::AtomThrID{}))::value;
  for (int peer = 0; peer < Peers; ++peer) {
    auto cta_mma = tiled_mma.get_slice(peer);
    auto tCgA = cta_mma.partition_A(gA);
    auto tCgB = cta_mma.partition_B(gB);
    auto tCgC = cta_mma.partition_C(gC);
    partition_line("tCgA", tCgA);
    partition_line("tCgB", tCgB);
    partition_line("tCgC", tCgC);
    line("tCcA", cta_mma.partition_A(local_tile(cA, mma_tiler, crd, step_a)));
    line("tCcB", cta_mma.partition_B(local_tile(cB, mma_tiler, crd, step_b)));
    auto tCcC = cta_mma.partition_C(local_tile(cC, mma_tiler, crd, step_c));
    line("tCcC", tCcC);
    auto tCrA = cta_mma.make_fragment_A(smem<T>(sA, 1024));
    auto tCrB = cta_mma.make_fragment_B(smem<T>(sB, 1024 + sizeof(T) * 16384));
    line("tCrA", tCrA.layout());
    line("tCrB", tCrB.layout());
    number("desc_a", tCrA(0).desc_);
    number("desc_b", tCrB(0).desc_);
    auto tCtAcc = cta_mma.make_fragment_C(tCgC);
    line("tCtAcc", tCtAcc.layout());
    auto copy = make_tmem_copy(SM100_TMEM_LOAD_32dp32b1x{}, tCtAcc);
    for (int thread : {0, 42, 127}) {
      auto thr = copy.get_slice(thread);
      auto tDtAcc = thr.partition_S(tCtAcc);
      number("thread", thread);
      number("tDtAcc.address", raw_pointer_cast(tDtAcc.data()));
      line("tDtAcc", tDtAcc.layout());
      partition_line("tDgC", thr.partition_D(tCgC));
      line("tDcC", thr.partition_D(tCcC));
    }
  }
}

// ---- tensor memory ----

// An accumulator's layout for a partitioned shape ((M_MMA,N_MMA),MMA_M,MMA_N,...).
template <class Frg, class Shape>
void fragment(char const* name, Shape const& shape) {
  begin(name);
  auto tensor = make_tensor<Frg>(shape);
  line("layout", tensor.layout());
  line("columns", cutlass::detail::find_tmem_tensor_col_offset(tensor));
}

// The traits of one operation: its threads, the places of its bits, and both sides' (thread, value).
template <class Op>
void tmem_op() {
  using Traits = Copy_Traits<Op>;
  line("thr_id", typename Traits::ThrID{});
  line("val_id", typename Traits::ValID{});
  line("src_layout", typename Traits::SrcLayout{});
  line("dst_layout", typename Traits::DstLayout{});
  line("ref_layout", typename Traits::RefLayout{});
}

template <class... Ops>
void tmem_ops(char const* name) {
  begin(name);
  (tmem_op<Ops>(), ...);
}

// make_tmem_copy of a fragment, and a thread's part of it and of a tensor of coordinates.
template <bool Store, class Op, class Frg, class Shape>
void tmem_copy(char const* name, Op const&, Shape const& shape) {
  begin(name);
  auto tensor = make_tensor<Frg>(shape);
  line("fragment", tensor.layout());
  using T = typename decltype(tensor)::value_type;
  using Traits = Copy_Traits<Op>;
  line("val_id", typename Traits::ValID{});
  line("src_layout", typename Traits::SrcLayout{});
  line("dst_layout", typename Traits::DstLayout{});
  auto atom_t_layout = Layout<cute::Shape<_32, _4>, Stride<_0, decltype(Int<32>{} * TMEM::DP<T>{})>>{};
  line("atom_t_layout", atom_t_layout);
  auto atom_v_layout = coalesce(upcast<sizeof_bits<T>::value>(typename Traits::ValID{}));
  line("atom_v_layout", atom_v_layout);
  auto copy = make_tmem_copy(Op{}, tensor);
  auto again = make_cotiled_copy(Copy_Atom<Op, T>{}, make_layout(atom_t_layout, atom_v_layout), tensor.layout());
  static_assert(std::is_same_v<decltype(copy), decltype(again)>, "the steps above are not CuTe's");
  line("layout_tv", typename decltype(copy)::TiledLayout_TV{});
  line("tiler", typename decltype(copy)::Tiler_MN{});
  // the rows and columns of one instruction, which for a duplicated fragment has twice the rows of `shape`
  auto coords = make_identity_tensor(replace<0>(shape, product_each(cute::shape<0>(tensor.layout()))));
  for (int thread : {0, 42, 127}) {
    auto thr = copy.get_slice(thread);
    number("thread", thread);
    auto memory = [&] {
      if constexpr (Store) return thr.partition_D(tensor);
      else return thr.partition_S(tensor);
    }();
    auto registers = [&] {
      if constexpr (Store) return thr.partition_S(coords);
      else return thr.partition_D(coords);
    }();
    number("address", raw_pointer_cast(memory.data()));
    line("memory", memory.layout());
    line("registers", registers.layout());
    line("first", registers(0));
    line("second", registers(1));
    line("last", registers(size(registers) - 1));
  }
}
