// Prints what CUTLASS's headers say of atoms and of their tilings, one `key<TAB>value` a line.
// A unit that `regenerate.py` writes includes this file and calls the functions below, one call a case.
#pragma once

#include <cstdint>
#include <cstdio>
#include <type_traits>

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

using namespace cute;

// ---- small printing helpers ----

template <class T>
char const* type_name() {
  if constexpr (std::is_same_v<T, half_t>) return "f16";
  else if constexpr (std::is_same_v<T, bfloat16_t>) return "bf16";
  else if constexpr (std::is_same_v<T, tfloat32_t>) return "tf32";
  else if constexpr (std::is_same_v<T, float>) return "f32";
  else if constexpr (std::is_same_v<T, double>) return "f64";
  else if constexpr (std::is_same_v<T, int32_t>) return "s32";
  else if constexpr (std::is_same_v<T, int8_t>) return "s8";
  else if constexpr (std::is_same_v<T, uint8_t>) return "u8";
  else if constexpr (std::is_same_v<T, int4b_t>) return "s4";
  else if constexpr (std::is_same_v<T, uint4b_t>) return "u4";
  else if constexpr (std::is_same_v<T, uint1b_t>) return "b1";
  else if constexpr (std::is_same_v<T, float_e4m3_t>) return "e4m3";
  else if constexpr (std::is_same_v<T, float_e5m2_t>) return "e5m2";
  else static_assert(dependent_false<T>, "a value type without a name here");
}

template <class T>
void line(char const* key, T const& value) {
  std::printf("%s\t", key);
  print(value);
  std::printf("\n");
}

inline void text(char const* key, char const* value) { std::printf("%s\t%s\n", key, value); }

inline void begin(char const* name) { text("case", name); }

// ---- where the tensors live: a pointer to bytes, so that an element's offset is its address ----

constexpr uintptr_t kBase = uintptr_t(1) << 32;

template <class Layout>
auto tensor_of(Layout const& layout) {
  return make_tensor(make_gmem_ptr(reinterpret_cast<uint8_t*>(kBase)), layout);
}

template <class Shape>
struct Identity {};

template <class Shape>
auto tensor_of(Identity<Shape> const&) { return make_identity_tensor(Shape{}); }

template <class Engine, class Layout>
void offset_line(char const* key, Tensor<Engine, Layout> const& tensor) {
  if constexpr (!std::is_integral_v<remove_cvref_t<decltype(tensor(0))>>) {
    line(key, tensor.data());
  } else {
    std::printf("%s\t%lld\n", key, (long long)(reinterpret_cast<uintptr_t>(raw_pointer_cast(tensor.data())) - kBase));
  }
}

// A part of a tensor: its layout, its offset, and for swizzled tensors, whose slices C++ writes in several
// equivalent ways, the address of every element.
template <bool Swizzled, class Engine, class Layout>
void part(char const* name, int thread, Tensor<Engine, Layout> const& tensor) {
  char key[96];
  if constexpr (Swizzled) {
    std::snprintf(key, sizeof key, "%s@%d.shape", name, thread);
    line(key, shape(tensor));
    std::printf("%s@%d.addresses\t", name, thread);
    auto base = reinterpret_cast<uintptr_t>(raw_pointer_cast(tensor.data())) - kBase;
    for (int i = 0; i < int(size(tensor)); ++i)
      std::printf("%s%lld", i ? " " : "", (long long)(base + tensor.layout()(i)));
    std::printf("\n");
  } else {
    std::snprintf(key, sizeof key, "%s@%d.layout", name, thread);
    line(key, tensor.layout());
    std::snprintf(key, sizeof key, "%s@%d.offset", name, thread);
    offset_line(key, tensor);
  }
}

template <class T>
struct is_identity : std::false_type {};
template <class Shape>
struct is_identity<Identity<Shape>> : std::true_type {};

template <class T>
struct is_swizzled : std::false_type {};
template <class A, class O, class B>
struct is_swizzled<ComposedLayout<A, O, B>> : std::true_type {};

// ---- MMA atoms ----

template <class Registers>
void registers(char const* key) {
  using Register = std::remove_extent_t<Registers>;
  std::printf("%s\t%d x %d\n", key, int(std::extent_v<Registers>), int(sizeof(Register) * 8));
}

template <class Op>
void mma_atom(char const* name) {
  using Traits = MMA_Traits<Op>;
  begin(name);
  line("shape_mnk", typename Traits::Shape_MNK{});
  line("thr_id", typename Traits::ThrID{});
  line("layout_a", typename Traits::ALayout{});
  line("layout_b", typename Traits::BLayout{});
  line("layout_c", typename Traits::CLayout{});
  text("dtype_d", type_name<typename Traits::ValTypeD>());
  text("dtype_a", type_name<typename Traits::ValTypeA>());
  text("dtype_b", type_name<typename Traits::ValTypeB>());
  text("dtype_c", type_name<typename Traits::ValTypeC>());
  registers<typename Op::DRegisters>("registers_d");
  registers<typename Op::ARegisters>("registers_a");
  registers<typename Op::BRegisters>("registers_b");
  registers<typename Op::CRegisters>("registers_c");
}

// ---- copy atoms ----

template <class Op>
void copy_atom(char const* name) {
  using Traits = Copy_Traits<Op>;
  begin(name);
  line("thr_id", typename Traits::ThrID{});
  line("bit_layout_src", typename Traits::SrcLayout{});
  line("bit_layout_dst", typename Traits::DstLayout{});
  line("bit_layout_ref", typename Traits::RefLayout{});
}

template <class Op, class T>
void copy_atom_values(char const* name) {
  using Atom = Copy_Atom<Op, T>;
  begin(name);
  line("layout_src", typename Atom::ValLayoutSrc{});
  line("layout_dst", typename Atom::ValLayoutDst{});
  line("layout_ref", typename Atom::ValLayoutRef{});
}

// ---- tiled MMAs ----

template <class TiledMma>
void tiled_mma_layouts(TiledMma const& mma) {
  line("thr_layout_vmnk", mma.get_thr_layout_vmnk());
  line("tile_shape", tile_shape(mma));
  line("layout_a_tv", mma.get_layoutA_TV());
  line("layout_b_tv", mma.get_layoutB_TV());
  line("layout_c_tv", mma.get_layoutC_TV());
}

template <class TiledMma, class LA, class LB, class LC>
void tiled_mma_parts(TiledMma const& mma, LA const& la, LB const& lb, LC const& lc, std::initializer_list<int> threads) {
  auto a = tensor_of(la);
  auto b = tensor_of(lb);
  auto c = tensor_of(lc);
  if constexpr (!is_swizzled<LA>::value) line("thrfrg_a", mma.thrfrg_A(a.layout()));
  if constexpr (!is_swizzled<LB>::value) line("thrfrg_b", mma.thrfrg_B(b.layout()));
  if constexpr (!is_swizzled<LC>::value) line("thrfrg_c", mma.thrfrg_C(c.layout()));
  line("shape_a", partition_shape_A(mma, shape(a)));
  line("shape_b", partition_shape_B(mma, shape(b)));
  line("shape_c", partition_shape_C(mma, shape(c)));
  for (int thread : threads) {
    auto slice = mma.get_slice(thread);
    part<is_swizzled<LA>::value>("a", thread, slice.partition_A(a));
    part<is_swizzled<LB>::value>("b", thread, slice.partition_B(b));
    part<is_swizzled<LC>::value>("c", thread, slice.partition_C(c));
  }
  auto slice = mma.get_slice(0);
  // fragments of A and B sort the modes by stride, and coordinates have no order
  if constexpr (!is_identity<LA>::value) line("fragment_a", slice.partition_fragment_A(a).layout());
  if constexpr (!is_identity<LB>::value) line("fragment_b", slice.partition_fragment_B(b).layout());
  line("fragment_c", slice.partition_fragment_C(c).layout());
}

template <class Op, class AtomLayout, class Permutation, class LA, class LB, class LC>
void tiled_mma(char const* name, std::initializer_list<int> threads) {
  auto mma = make_tiled_mma(MMA_Atom<Op>{}, AtomLayout{}, Permutation{});
  begin(name);
  tiled_mma_layouts(mma);
  tiled_mma_parts(mma, LA{}, LB{}, LC{}, threads);
}

// ---- tiled copies ----

template <class TiledCopy, class S, class D>
void tiled_copy_parts(TiledCopy const& copy, S const& s, D const& d, std::initializer_list<int> threads) {
  line("tiler_mn", typename TiledCopy::Tiler_MN{});
  line("layout_tv", typename TiledCopy::TiledLayout_TV{});
  line("layout_s_tv", copy.get_layoutS_TV());
  line("layout_d_tv", copy.get_layoutD_TV());
  auto src = tensor_of(s);
  auto dst = tensor_of(d);
  if constexpr (!is_swizzled<S>::value) line("tidfrg_s", copy.tidfrg_S(src.layout()));
  if constexpr (!is_swizzled<D>::value) line("tidfrg_d", copy.tidfrg_D(dst.layout()));
  for (int thread : threads) {
    auto slice = copy.get_slice(thread);
    part<is_swizzled<S>::value>("s", thread, slice.partition_S(src));
    part<is_swizzled<D>::value>("d", thread, slice.partition_D(dst));
  }
}

template <class Atom, class ThrLayout, class ValLayout, class S, class D>
void tiled_copy(char const* name, std::initializer_list<int> threads) {
  begin(name);
  tiled_copy_parts(make_tiled_copy(Atom{}, ThrLayout{}, ValLayout{}), S{}, D{}, threads);
}

template <class Atom, class AtomTV, class Data, class S, class D>
void cotiled_copy(char const* name, std::initializer_list<int> threads) {
  begin(name);
  tiled_copy_parts(make_cotiled_copy(Atom{}, AtomTV{}, Data{}), S{}, D{}, threads);
}

// The three copies that feed an MMA or take from it, with its fragment seen by the copy (`retile`).
template <char Operand, class Atom, class Op, class AtomLayout, class Permutation, class S>
void mma_copy(char const* name, std::initializer_list<int> threads) {
  auto mma = make_tiled_mma(MMA_Atom<Op>{}, AtomLayout{}, Permutation{});
  auto tensor = tensor_of(S{});
  begin(name);
  if constexpr (Operand == 'a') {
    auto copy = make_tiled_copy_A(Atom{}, mma);
    tiled_copy_parts(copy, S{}, S{}, threads);
    if constexpr (!is_identity<S>::value) {
      auto fragment = mma.get_slice(0).partition_fragment_A(tensor);
      line("retile", copy.get_slice(0).retile_D(fragment).layout());
    }
  } else if constexpr (Operand == 'b') {
    auto copy = make_tiled_copy_B(Atom{}, mma);
    tiled_copy_parts(copy, S{}, S{}, threads);
    if constexpr (!is_identity<S>::value) {
      auto fragment = mma.get_slice(0).partition_fragment_B(tensor);
      line("retile", copy.get_slice(0).retile_D(fragment).layout());
    }
  } else if constexpr (Operand == 'c') {
    auto copy = make_tiled_copy_C(Atom{}, mma);
    tiled_copy_parts(copy, S{}, S{}, threads);
    auto fragment = mma.get_slice(0).partition_fragment_C(tensor);
    line("retile", copy.get_slice(0).retile_S(fragment).layout());
  } else {
    auto copy = make_tiled_copy_C_atom(Atom{}, mma);
    tiled_copy_parts(copy, S{}, S{}, threads);
  }
}
