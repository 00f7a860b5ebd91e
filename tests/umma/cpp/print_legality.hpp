// Names the operations of tcgen05.mma that CUTLASS's headers compile, one case a line.
#pragma once

#include <cstdio>

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>

using namespace cute;

template <class Op>
void legal(char const* name) {
  using Traits = MMA_Traits<Op>;
  constexpr int fma = sizeof(Op) + sizeof(Traits);
  std::printf("case\t%s\nshape_mnk\t", name);
  print(typename Traits::Shape_MNK{});
  std::printf("\nidesc\t%u\n", unsigned(Traits{}.idesc_.desc_) + unsigned(fma * 0));
}
