// Prints what CUTLASS's headers say of nested permutations, of copies made from copies, of predicates, and of
// swizzles on pointers: one `key<TAB>value` a line. `regenerate_copies.py` writes a unit that calls these.
#pragma once

#define NDEBUG  // the checks of addresses are for a GPU; these addresses are never read
#include <sstream>
#include <string>

#include "print_atoms.hpp"

// ---- copies made from copies ----

template <char Side, class Atom, class Copy, class S>
void copy_of(char const* name, Copy const& copy, std::initializer_list<int> threads) {
  begin(name);
  if constexpr (Side == 's') tiled_copy_parts(make_tiled_copy_S(Atom{}, copy), S{}, S{}, threads);
  else tiled_copy_parts(make_tiled_copy_D(Atom{}, copy), S{}, S{}, threads);
}

// ---- predicates ----

// The bits of a thread's part of one tile: its coordinates compared with the shape of the whole tensor.
template <class Atom, class ThrLayout, class ValLayout, class Shape>
void predicate(char const* name, Shape const& shape, int tile_m, int tile_n, std::initializer_list<int> threads) {
  auto copy = make_tiled_copy(Atom{}, ThrLayout{}, ValLayout{});
  auto tile = local_tile(make_identity_tensor(shape), typename decltype(copy)::Tiler_MN{}, make_coord(tile_m, tile_n));
  begin(name);
  for (int thread : threads) {
    auto part = copy.get_slice(thread).partition_S(tile);
    std::string bits;
    for (int i = 0; i < int(size(part)); ++i) bits += elem_less(part(i), shape) ? '1' : '0';
    char key[32];
    std::snprintf(key, sizeof key, "bits@%d", thread);
    text(key, bits.c_str());
  }
}

template <class Source, class Coord>
void moved(char const* name, Source const& source, Coord const& coord) {
  auto tensor = domain_offset(coord, tensor_of(source));
  begin(name);
  part<is_swizzled<Source>::value>("t", 0, tensor);
}

// ---- swizzles on pointers ----

// Where the first elements lie, up to 256 of them.
template <class Tensor>
void addresses(char const* key, Tensor const& tensor) {
  std::ostringstream out;
  for (int i = 0; i < int(size(tensor)) && i < 256; ++i) {
    auto address = reinterpret_cast<uintptr_t>(&*(tensor.data() + tensor.layout()(i)));
    out << (i ? " " : "") << (long long)(address - kBase);
  }
  text(key, out.str().c_str());
}

// A tensor of T at a byte of shared memory behind a swizzled pointer; the same bytes as a tensor of U; and both
// with the swizzle in the layout, if the tensor starts where the swizzle's pattern does.
template <class T, class U, class Swizzle, class Layout, bool Aligned>
void pointer(char const* name, int start) {
  auto data = make_smem_ptr(reinterpret_cast<T*>(kBase + start), Swizzle{});
  auto tensor = make_tensor(data, Layout{});
  auto other = recast<U>(tensor);
  begin(name);
  addresses("addresses", tensor);
  line("recast.layout", other.layout());
  addresses("recast.addresses", other);
  if constexpr (Aligned) {
    auto layout = as_position_independent_swizzle_tensor(tensor);
    line("independent.layout", layout.layout());
    addresses("independent.addresses", layout);
    auto again = as_position_independent_swizzle_tensor(other);
    line("recast.independent.layout", again.layout());
    addresses("recast.independent.addresses", again);
  }
}

template <class Swizzle, int Bits, class Layout>
void flagged(char const* name) {
  begin(name);
  line("layout", as_position_independent_swizzle_layout(composition(Swizzle{}, smem_ptr_flag_bits<Bits>{}, Layout{})));
}
