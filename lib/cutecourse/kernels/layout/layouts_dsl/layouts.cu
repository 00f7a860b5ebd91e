// The layouts of chapter 1 in CuTe C++. Host code: it prints each layout on a line of its own.

#include <cute/layout.hpp>

using namespace cute;

template <class T>
void show(char const* name, T const& layout) {
  printf("%s ", name);
  print(layout);
  printf("\n");
}

int main() {
  auto row_major = make_layout(make_shape(Int<4>{}, Int<8>{}), make_stride(Int<8>{}, Int<1>{}));
  auto ordered = make_ordered_layout(make_shape(Int<4>{}, Int<8>{}), Step<_1, _0>{});
  auto merged = coalesce(Layout<Shape<_2, Shape<_1, _6>>, Stride<_1, Stride<_6, _2>>>{});
  auto square = make_layout(make_shape(Int<8>{}, Int<8>{}), make_stride(Int<8>{}, Int<1>{}));
  auto every_second = composition(square, make_tile(Layout<_4, _2>{}, Layout<_2, _1>{}));
  auto rest = complement(Layout<_4, _2>{}, Int<24>{});
  auto zipped = zipped_divide(row_major, make_tile(Int<2>{}, Int<4>{}));
  auto tile = make_layout(make_shape(Int<2>{}, Int<2>{}));
  auto blocked = blocked_product(tile, make_layout(make_shape(Int<2>{}, Int<3>{})));
  auto inverse = right_inverse(row_major);

  show("row_major", row_major);
  show("ordered", ordered);
  show("merged", merged);
  show("every_second", every_second);
  show("rest", rest);
  show("zipped", zipped);
  show("blocked", blocked);
  show("inverse", inverse);
}
