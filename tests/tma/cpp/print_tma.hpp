// Prints what CUTLASS's headers compute when they make a TMA atom and partition tensors with it, one
// `key<TAB>value` a line. A unit that `regenerate.py` writes includes this file and calls the functions
// below, one call a case. Values that a function of CUTLASS returns are printed as it returns them; values
// that stay inside one are computed here with the same CuTe operations, and those operations' last result
// is compared with what the function returns.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/copy_traits_sm90_tma.hpp>
#include <cute/atom/copy_traits_sm100_tma.hpp>

using namespace cute;

// ---- what the headers call and this program answers ----

namespace probe {
inline std::jmp_buf refused;
inline bool quiet = false;
}  // namespace probe

// A run-time assertion of CUTLASS ends a case, not the program: its text is the case's answer.
extern "C" void __assert_fail(char const* assertion, char const*, unsigned, char const*) noexcept {
  std::printf("refused\t%s\n", assertion);
  std::longjmp(probe::refused, 1);
}

template <class T>
void numbers(char const* key, T const* values, int count) {
  std::printf("%s\t[", key);
  for (int i = 0; i < count; ++i) std::printf(i ? ",%llu" : "%llu", (unsigned long long)values[i]);
  std::printf("]\n");
}

inline void number(char const* key, long long value) { std::printf("%s\t%lld\n", key, value); }

template <class T>
void line(char const* key, T const& value) {
  std::printf("%s\t", key);
  print(value);
  std::printf("\n");
}

inline void begin(char const* name) { std::printf("case\t%s\n", name); }

// Stands where the driver's function would: it prints its arguments and encodes nothing.
extern "C" CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap*, CUtensorMapDataType format, cuuint32_t rank, void* address, cuuint64_t const* dims,
    cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* element_strides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  if (probe::quiet) return CUDA_SUCCESS;
  number("encode.format", format);
  number("encode.rank", rank);
  number("encode.address", (long long)(uintptr_t)address);
  numbers("encode.dims", dims, int(rank));
  numbers("encode.strides", strides, int(rank) - 1);
  numbers("encode.box", box, int(rank));
  numbers("encode.element_strides", element_strides, int(rank));
  number("encode.interleave", interleave);
  number("encode.swizzle", swizzle);
  number("encode.l2_promotion", promotion);
  number("encode.oob_fill", fill);
  return CUDA_SUCCESS;
}

// ---- tensors ----

constexpr uintptr_t kGmem = uintptr_t(1) << 32;
constexpr uintptr_t kSmem = 1024;

template <class T, class GLayout>
auto gmem(GLayout const& layout) {
  return make_tensor(make_gmem_ptr(reinterpret_cast<T*>(kGmem)), layout);
}

// A stage more of the same layout behind the last mode, one copy after the other.
template <int Stages, class SLayout>
auto staged(SLayout const& layout) {
  auto plain = get_nonswizzle_portion(layout);
  auto more = append(plain, make_layout(Int<Stages>{}, cosize(plain)));
  if constexpr (is_composed_layout<SLayout>::value)
    return make_composed_layout(layout.layout_a(), layout.offset(), more);
  else
    return more;
}

// ---- construct_tma_gbasis, step by step ----

template <class Internal, class GTensor, class SLayout, class VMap>
auto print_gbasis(GTensor const& gtensor, SLayout const& slayout, VMap const& cta_v_map) {
  auto inv_smem_layout = right_inverse(get_nonswizzle_portion(slayout));
  line("inv_smem_layout", inv_smem_layout);
  auto sidx2gmode_full = coalesce(composition(cta_v_map, inv_smem_layout));
  line("sidx2gmode_full", sidx2gmode_full);
  auto smem_rank = find_if(stride(sidx2gmode_full), [](auto e) {
    return not is_constant<1, decltype(basis_value(e))>{};
  });
  line("smem_rank", smem_rank);
  auto sidx2gmode = take<0, decltype(smem_rank)::value>(sidx2gmode_full);
  line("sidx2gmode", sidx2gmode);
  auto tile_gstride = recast<Internal>(gtensor.compose(sidx2gmode)).layout();
  line("tile_gstride", tile_gstride);
  auto tma_gstride = detail::coalesce_256(tile_gstride);
  line("tma_gstride", tma_gstride);
  auto gbasis = make_identity_layout(shape(gtensor));
  line("gbasis", gbasis);
  auto tile_gbasis_tmp = gbasis.compose(sidx2gmode);
  line("tile_gbasis_tmp", tile_gbasis_tmp);
  auto tile_gbasis = make_layout(shape(tile_gstride), stride(tile_gbasis_tmp));
  line("tile_gbasis", tile_gbasis);
  auto tma_gbasis_tile = tile_gbasis.compose(make_layout(wrap(shape(tma_gstride))));
  line("tma_gbasis_tile", tma_gbasis_tile);
  auto gtensor_T = recast<Internal>(gtensor);
  line("gtensor_T", gtensor_T.layout());
  auto remaining = filter_tuple(
      flatten(shape(gtensor_T)), flatten(stride(gtensor_T)), flatten(stride(gbasis)),
      [&](auto s, auto d, auto e) {
        using E = decltype(e);
        auto used = any_of(flatten(stride(tma_gbasis_tile)), [](auto tb) { return tb == E{}; });
        constexpr bool idle = is_constant<1, decltype(s)>::value || is_constant<0, decltype(d)>::value;
        if constexpr (idle || decltype(used)::value)
          return cute::tuple<>{};
        else
          return cute::tuple<E>(e);
      });
  line("tile_gbasis_remaining_stride", remaining);
  auto ones = repeat<decltype(rank(remaining))::value>(Int<1>{});
  auto tma_gbasis_full = make_layout(tuple_cat(wrap(shape(tma_gbasis_tile)), wrap(ones)),
                                     tuple_cat(wrap(stride(tma_gbasis_tile)), wrap(remaining)));
  line("tma_gbasis_full", tma_gbasis_full);
  auto grouped = group<cute::min(decltype(rank(tma_gbasis_full))::value, 4), -1>(tma_gbasis_full);
  auto tma_gbasis = detail::construct_tma_gbasis<Internal>(gtensor, slayout, cta_v_map);
  static_assert(std::is_same_v<decltype(grouped), decltype(tma_gbasis)>, "the steps above are not CuTe's");
  line("tma_gbasis", tma_gbasis);
  return tma_gbasis;
}

// ---- an atom: its basis, its descriptor, its coordinate tensor ----

template <class Internal, class GTensor, class SLayout, class VTile>
void print_desc_inputs(GTensor const& gtensor, SLayout const& slayout, VTile const& cta_v_tile) {
  using T = typename GTensor::value_type;
  line("gtensor", gtensor.layout());
  line("slayout", slayout);
  line("cta_v_tile", cta_v_tile);
  line("smem_swizzle", get_swizzle_portion(slayout));
  line("smem_layout", get_nonswizzle_portion(slayout));
  auto tma_gbasis = print_gbasis<Internal>(gtensor, get_nonswizzle_portion(slayout), cta_v_tile);
  constexpr int dims = decltype(rank(tma_gbasis))::value;
  cute::array<uint64_t, 5> prob_shape = {1, 1, 1, 1, 1};
  cute::array<uint64_t, 5> prob_stride = {0, 0, 0, 0, 0};
  detail::fill_tma_gmem_shape_stride(recast<Internal>(gtensor), stride(tma_gbasis), prob_shape, prob_stride);
  numbers("gmem_prob_shape", prob_shape.data(), 5);
  numbers("gmem_prob_stride", prob_stride.data(), 5);
  uint32_t box[5] = {1, 1, 1, 1, 1};
  for_each(make_seq<dims>{}, [&](auto i) { box[i] = size<decltype(i)::value>(tma_gbasis); });
  numbers("smem_box_shape_pre_mcast", box, 5);
  line("recast_ratio", trait_ratio(sizeof_bits<T>{}, sizeof_bits<Internal>{}));
}

template <class Atom, class GTensor>
void print_atom(Atom const& atom, GTensor const& gtensor) {
  line("gmem_tma_basis_stride", atom.aux_params_.g_stride_);
  number("num_val_src", Atom::NumValSrc);
  line("thr_id", typename Atom::ThrID{});
  line("val_layout_src", typename Atom::ValLayoutSrc{});
  line("tma_tensor", atom.get_tma_tensor(shape(gtensor)));
}

// ---- tma_partition, step by step ----

template <class SEngine, class SLayout>
long long smem_elements(Tensor<SEngine, SLayout> const& tensor) {
  using T = typename Tensor<SEngine, SLayout>::value_type;
  auto bytes = reinterpret_cast<uintptr_t>(raw_pointer_cast(tensor.data())) - kSmem;
  return (long long)(bytes * 8 / sizeof_bits_v<T>);
}

template <class Atom, class CtaLayout, class STensor, class GTensor>
void print_partition(Atom const& atom, CtaLayout const& cta_layout, STensor const& stensor,
                     GTensor const& gtensor) {
  line("partition.cta_layout", cta_layout);
  line("partition.stensor", stensor.layout());
  line("partition.gtensor", gtensor);
  auto inv_smem_layout = right_inverse(get_nonswizzle_portion(layout<0>(stensor)));
  line("partition.inv_smem_layout", inv_smem_layout);
  auto layout_v = tile_to_shape(make_layout(inv_smem_layout), size<0>(stensor));
  line("partition.layout_v", layout_v);
  auto tma_layout_v = make_layout(Int<Atom::NumValSrc>{});
  line("partition.tma_layout_v", tma_layout_v);
  auto layout_V = make_tile(logical_divide(layout_v, tma_layout_v));
  line("partition.layout_V", layout_V);
  auto glayout_V = append<GTensor::rank>(layout_V, _);
  auto slayout_V = append<STensor::rank>(layout_V, _);
  line("partition.glayout_V", glayout_V);
  line("partition.slayout_V", slayout_V);
  auto gtensor_v = coalesce(gtensor.compose(glayout_V), Shape<Shape<_1, _1>>{});
  auto stensor_v = coalesce(stensor.compose(slayout_V), Shape<Shape<_1, _1>>{});
  line("partition.gtensor_v", gtensor_v);
  line("partition.stensor_v", stensor_v.layout());
  for (int cta = 0; cta < int(size(cta_layout)); ++cta) {
    auto offset = cta_layout(cta) * (size(tma_layout_v) / cosize(cta_layout));
    auto [gresult, sresult] = tma_partition(atom, cta, cta_layout, stensor, gtensor);
    std::printf("partition.cta\t%d\n", cta);
    line("partition.multicast_offset", offset);
    auto multicast_coord = make_coord(make_coord(offset, Int<0>{}));
    line("partition.multicast_coord", multicast_coord);
    line("partition.gcoord", append<GTensor::rank>(multicast_coord, Int<0>{}));
    line("partition.scoord", append<STensor::rank>(multicast_coord, Int<0>{}));
    line("partition.gresult", gresult);
    line("partition.sresult", sresult.layout());
    number("partition.sresult_offset", smem_elements(sresult));
  }
}

// The CTA's tiles of the coordinate tensor with mode 0 the whole tile: what a kernel partitions.
template <class Atom, class GTensor, class SLayout, class Tiler, class CtaLayout, int Stages>
void partition_case(Atom const& atom, GTensor const& gtensor, SLayout const& slayout, Tiler const& tiler,
                    CtaLayout const& cta_layout, Int<Stages>) {
  using T = typename GTensor::value_type;
  constexpr int R = rank_v<Tiler>;
  auto coords = atom.get_tma_tensor(shape(gtensor));
  auto tiles = local_tile(coords, tiler, tuple_repeat<R>(_));
  auto smem = make_tensor(make_smem_ptr(reinterpret_cast<T*>(kSmem)), staged<Stages>(slayout));
  print_partition(atom, cta_layout, group_modes<0, rank_v<SLayout>>(smem), group_modes<0, R>(tiles));
}

// One configuration: the atom, and with Stages > 0 its partition for every CTA of the multicast.
template <class T, class Internal, int Multicast, int Stages, class GLayout, class SLayout, class Tiler>
void tma(char const* name, GLayout const& glayout, SLayout const& slayout, Tiler const& tiler) {
  begin(name);
  if (setjmp(probe::refused)) return;
  auto gtensor = gmem<T>(glayout);
  auto cta_v_tile = make_identity_layout(shape(gtensor)).compose(tiler);
  print_desc_inputs<Internal>(gtensor, slayout, cta_v_tile);
  using Given = std::conditional_t<std::is_same_v<T, Internal>, void, Internal>;
  auto make = [&](auto op) { return make_tma_atom<Given>(op, gtensor, slayout, tiler, Int<Multicast>{}); };
  using Op = std::conditional_t<(Multicast > 1), SM90_TMA_LOAD_MULTICAST, SM90_TMA_LOAD>;
  auto atom = make(Op{});
  print_atom(atom, gtensor);
  if constexpr (Stages > 0)
    partition_case(atom, gtensor, slayout, tiler, Layout<Int<Multicast>>{}, Int<Stages>{});
}

// The loads of examples/cute/tutorial/hopper/wgmma_tma_sm90.cu: 128 x 128 x 64 tiles in three stages.
template <class SmemAtom, class Stride>
void wgmma_tma(char const* name, int m, int k, Stride const& stride) {
  begin(name);
  if (setjmp(probe::refused)) return;
  using T = half_t;
  auto gtensor = make_tensor(reinterpret_cast<T const*>(kGmem), make_shape(m, k), stride);
  auto sA = tile_to_shape(SmemAtom{}, make_shape(Int<128>{}, Int<64>{}, Int<3>{}));
  auto tiler = make_shape(Int<128>{}, Int<64>{});
  auto cta_v_tile = make_identity_layout(shape(gtensor)).compose(tiler);
  print_desc_inputs<T const>(gtensor, sA(_, _, 0), cta_v_tile);
  auto atom = make_tma_atom(SM90_TMA_LOAD{}, gtensor, sA(_, _, 0), tiler);
  print_atom(atom, gtensor);
  auto coords = atom.get_tma_tensor(make_shape(m, k));
  auto tiles = local_tile(coords, make_shape(Int<128>{}, Int<128>{}, Int<64>{}), make_coord(0, 0, _),
                          Step<_1, X, _1>{});
  line("gA", tiles);
  auto smem = make_tensor(make_smem_ptr(reinterpret_cast<T*>(kSmem)), sA);
  line("sA", sA);
  auto stensor = group_modes<0, 2>(smem);
  auto part = group_modes<0, 2>(tiles);
  print_partition(atom, Layout<_1>{}, stensor, part);
  auto [tAgA, tAsA] = tma_partition(atom, Int<0>{}, Layout<_1>{}, stensor, part);
  number("bytes", sizeof(make_tensor_like(tensor<0>(tAsA))));
  line("K_PIPE_MAX", size<1>(tAsA));
  line("k_tile_count", size<1>(tAgA));
  for (int k_tile = 0; k_tile < 3; ++k_tile) {
    std::printf("load\t%d\n", k_tile);
    auto src = tAgA(_, k_tile);
    auto dst = tAsA(_, k_tile);
    line("load.source", src);
    line("load.first_coordinate", src(0));
    line("load.iterations", size<1>(layout<0>(tAgA)));
  }
}

// ---- the GEMM of the Blackwell tutorials 03 (one SM) and 04 (two SMs) ----

template <class Layout>
void print_masks(Layout const& vmnk) {
  for (int cta = 0; cta < int(size(vmnk)); ++cta) {
    auto crd = vmnk.get_flat_coord(cta);
    std::printf("mask\t");
    print(crd);
    unsigned a = create_tma_multicast_mask<2>(vmnk, crd);
    unsigned b = create_tma_multicast_mask<1>(vmnk, crd);
    unsigned vm = create_tma_multicast_mask<0, 1>(vmnk, crd);
    unsigned vn = create_tma_multicast_mask<0, 2>(vmnk, crd);
    unsigned alone = create_tma_multicast_mask(vmnk, crd);
    unsigned k = create_tma_multicast_mask<3>(vmnk, crd);
    std::printf(" %04x %04x %04x %04x %04x %04x\n", a, b, vm, vn, alone, k);
  }
}

template <int V, class ClusterShape>
void cluster(char const* name, ClusterShape const& shape) {
  begin(name);
  auto cluster_layout = make_layout(shape);
  line("cluster_layout", cluster_layout);
  auto vmnk = tiled_divide(cluster_layout, make_tile(Layout<Int<V>>{}));
  line("cluster_layout_vmnk", vmnk);
  print_masks(vmnk);
}

template <class Atom, class GTensor, class SLayout, class Part, class Vmnk, int Mode>
void blackwell_operand(Atom const& atom, GTensor const&, SLayout const& slayout, Part const& part,
                       Vmnk const& vmnk, Int<Mode>) {
  using T = typename GTensor::value_type;
  auto smem = make_tensor(make_smem_ptr(reinterpret_cast<T*>(kSmem)), slayout);
  auto cta_layout = make_layout(size<Mode>(vmnk));
  print_partition(atom, cta_layout, group_modes<0, 3>(smem), group_modes<0, 3>(part));
  auto [tAgA, tAsA] = tma_partition(atom, 0, cta_layout, group_modes<0, 3>(smem), group_modes<0, 3>(part));
  number("bytes", sizeof(make_tensor_like(tAsA)));
}

template <bool A, class Mma, class GShape>
void blackwell(char const* name, Mma const& tiled_mma, GShape const& gshape) {
  begin(name);
  if (setjmp(probe::refused)) return;
  using T = half_t;
  constexpr int Mode = A ? 0 : 1;
  auto gtensor = gmem<T>(make_layout(gshape, make_stride(get<1>(gshape), Int<1>{})));
  auto mma_tiler = make_shape(tile_size<0>(tiled_mma), tile_size<1>(tiled_mma),
                              tile_size<2>(tiled_mma) * Int<4>{});
  auto tiler = select<Mode, 2>(mma_tiler);
  auto mma_shape = [&] {
    if constexpr (A) return partition_shape_A(tiled_mma, tiler);
    else return partition_shape_B(tiled_mma, tiler);
  }();
  auto slayout = UMMA::tile_to_mma_shape(UMMA::Layout_K_SW128_Atom<T>{}, mma_shape);
  auto vmnk = tiled_divide(make_layout(Shape<_4, _4, _1>{}), make_tile(typename Mma::AtomThrID{}));
  line("mma_shape", mma_shape);
  line("cluster_layout_vmnk", vmnk);
  constexpr int Other = A ? 2 : 1;  // the mode of the cluster that shares this operand
  constexpr bool two = size(typename Mma::AtomThrID{}) == 2;
  auto g_tile = make_identity_layout(shape(gtensor)).compose(tiler);
  auto cta_v_tile = [&] {
    if constexpr (not two) return g_tile;
    else if constexpr (A) return layout<1>(tiled_mma.thrfrg_A(g_tile))(_, repeat<rank_v<decltype(g_tile)>>(_));
    else return layout<1>(tiled_mma.thrfrg_B(g_tile))(_, repeat<rank_v<decltype(g_tile)>>(_));
  }();
  print_desc_inputs<T>(gtensor, slayout, cta_v_tile);
  auto atom = [&] {
    if constexpr (not two)
      return make_tma_atom(SM90_TMA_LOAD_MULTICAST{}, gtensor, slayout, tiler, size<Other>(vmnk));
    else if constexpr (A)
      return make_tma_atom_A_sm100(SM100_TMA_2SM_LOAD_MULTICAST{}, gtensor, slayout, mma_tiler, tiled_mma, vmnk);
    else
      return make_tma_atom_B_sm100(SM100_TMA_2SM_LOAD_MULTICAST{}, gtensor, slayout, mma_tiler, tiled_mma, vmnk);
  }();
  print_atom(atom, gtensor);
  // the first CTA of the grid, as the peer v of its pair
  for (int v = 0; v < int(size(typename Mma::AtomThrID{})); ++v) {
    std::printf("peer\t%d\n", v);
    auto coords = atom.get_tma_tensor(shape(gtensor));
    auto cta_mma = tiled_mma.get_slice(v);
    if constexpr (A) {
      auto g = local_tile(coords, mma_tiler, make_coord(0, 0, _), Step<_1, X, _1>{});
      line("g", g);
      line("tCg", cta_mma.partition_A(g));
      blackwell_operand(atom, gtensor, slayout, cta_mma.partition_A(g), vmnk, Int<Other>{});
    } else {
      auto g = local_tile(coords, mma_tiler, make_coord(0, 0, _), Step<X, _1, _1>{});
      line("g", g);
      line("tCg", cta_mma.partition_B(g));
      blackwell_operand(atom, gtensor, slayout, cta_mma.partition_B(g), vmnk, Int<Other>{});
    }
  }
}
