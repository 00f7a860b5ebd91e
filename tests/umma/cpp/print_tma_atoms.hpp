// Prints what CUTLASS's make_tma_atom_A_sm100 and make_tma_atom_B_sm100 compute, one `key<TAB>value` a line.
// The values inside them are computed here with the same CuTe operations; that the atom's basis is the one
// which these give is asserted in print_gbasis, and the atom's own numbers are printed after it.
#pragma once

#include "../../tma/cpp/print_tma.hpp"

template <bool A, class T, class CopyOp, class Mma, class GLayout, class SmemAtom, class SmemTiler, class Tiler,
          class ClusterShape>
void tma_atom(char const* name, CopyOp const& copy_op, Mma const& mma, GLayout const& glayout,
              SmemAtom const& smem_atom, SmemTiler const& smem_tiler, Tiler const& mma_tiler,
              ClusterShape const& shape) {
  begin(name);
  if (setjmp(probe::refused)) return;
  auto gtensor = gmem<T>(glayout);
  constexpr int R = rank_v<GLayout>;
  auto mma_shape = [&] {
    if constexpr (A) return partition_shape_A(mma, select<0, 2>(smem_tiler));
    else return partition_shape_B(mma, select<1, 2>(smem_tiler));
  }();
  auto slayout = UMMA::tile_to_mma_shape(smem_atom, mma_shape);
  auto cluster_shape = tiled_divide(make_layout(shape), make_tile(typename Mma::AtomThrID{}));
  line("cluster_shape", cluster_shape);
  auto kept = remove<A ? 1 : 0>(mma_tiler);
  line("mma_tiler", kept);
  auto g_tile = make_identity_layout(cute::shape(gtensor)).compose(kept);
  line("g_tile", g_tile);
  auto frg = [&] {
    if constexpr (A) return layout<1>(mma.thrfrg_A(g_tile));
    else return layout<1>(mma.thrfrg_B(g_tile));
  }();
  line("frg", frg);
  auto cta_v_tile = frg(_, repeat<R>(_));
  print_desc_inputs<T>(gtensor, slayout, cta_v_tile);
  auto atom = [&] {
    if constexpr (A) return make_tma_atom_A_sm100(copy_op, gtensor, slayout, mma_tiler, mma, cluster_shape);
    else return make_tma_atom_B_sm100(copy_op, gtensor, slayout, mma_tiler, mma, cluster_shape);
  }();
  print_atom(atom, gtensor);
  // each peer's tiles: the coordinates where its part of the first tile starts
  for (int v = 0; v < int(size(typename Mma::AtomThrID{})); ++v) {
    auto coords = atom.get_tma_tensor(cute::shape(gtensor));
    auto cta_mma = mma.get_slice(v);
    auto rest = tuple_repeat<R>(_);
    auto tiles = local_tile(coords, kept, rest);
    std::printf("peer\t%d\n", v);
    if constexpr (A) line("tCg", cta_mma.partition_A(tiles));
    else line("tCg", cta_mma.partition_B(tiles));
  }
}
