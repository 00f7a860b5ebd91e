// Print what CuTe C++ says of upcast, downcast, recast, swizzles and composed layouts.
// One line a case: `expression -> print`. The expression is what the Python test evaluates.
// See ../cpp_data.py for the command that compiles and records this.

#include <cstdio>

#include <cute/layout.hpp>
#include <cute/layout_composed.hpp>
#include <cute/swizzle.hpp>
#include <cute/swizzle_layout.hpp>
#include <cute/tensor.hpp>

using namespace cute;

#define SHOW(expression, ...)      \
  do {                             \
    std::printf("%s -> ", expression); \
    print(__VA_ARGS__);            \
    std::printf("\n");             \
  } while (0)

template <int... Values>
constexpr auto t(Int<Values>...) {
  return make_tuple(Int<Values>{}...);
}

template <int A, int B, int C, int D>
constexpr auto two() {
  return Layout<Shape<Int<A>, Int<B>>, Stride<Int<C>, Int<D>>>{};
}

template <int A, int C>
constexpr auto one() {
  return Layout<Int<A>, Int<C>>{};
}

int main() {
  // Wider and narrower elements.
  SHOW("upcast(L((8,64),(64,1)),2)", upcast<2>(two<8, 64, 64, 1>()));
  SHOW("upcast(L((8,64),(64,1)),4)", upcast<4>(two<8, 64, 64, 1>()));
  SHOW("upcast(L((8,64),(1,8)),2)", upcast<2>(two<8, 64, 1, 8>()));
  SHOW("upcast(L((8,64),(1,8)),16)", upcast<16>(two<8, 64, 1, 8>()));
  SHOW("upcast(L((8,64),(2,16)),2)", upcast<2>(two<8, 64, 2, 16>()));
  SHOW("upcast(L((8,64),(2,16)),4)", upcast<4>(two<8, 64, 2, 16>()));
  SHOW("upcast(L((3,64),(1,16)),2)", upcast<2>(two<3, 64, 1, 16>()));
  SHOW("upcast(L((8,64),(0,1)),4)", upcast<4>(two<8, 64, 0, 1>()));
  SHOW("upcast(L((6,64),(1,6)),3)", upcast<3>(two<6, 64, 1, 6>()));
  SHOW("upcast(L((6,8),(3,18)),3)", upcast<3>(two<6, 8, 3, 18>()));
  SHOW("upcast(L((8,64),(-1,8)),2)", upcast<2>(two<8, 64, -1, 8>()));
  SHOW("upcast(L((8,64),(-16,-2)),4)", upcast<4>(two<8, 64, -16, -2>()));
  SHOW("upcast(L((1,64),(1,8)),4)", upcast<4>(two<1, 64, 1, 8>()));
  SHOW("upcast(L(16,1),1)", upcast<1>(one<16, 1>()));
  SHOW("upcast(L((4,(2,8)),(16,(8,1))),4)",
       upcast<4>(Layout<Shape<_4, Shape<_2, _8>>, Stride<_16, Stride<_8, _1>>>{}));
  SHOW("downcast(L((8,64),(64,1)),2)", downcast<2>(two<8, 64, 64, 1>()));
  SHOW("downcast(L((8,64),(1,8)),4)", downcast<4>(two<8, 64, 1, 8>()));
  SHOW("downcast(L((8,64),(1,0)),4)", downcast<4>(two<8, 64, 1, 0>()));
  SHOW("downcast(L((1,64),(1,8)),2)", downcast<2>(two<1, 64, 1, 8>()));
  SHOW("downcast(L((8,6),(1,1)),3)", downcast<3>(two<8, 6, 1, 1>()));
  SHOW("downcast(L((4,(2,8)),(16,(8,1))),8)",
       downcast<8>(Layout<Shape<_4, Shape<_2, _8>>, Stride<_16, Stride<_8, _1>>>{}));
  SHOW("recast_layout(16,8,L((8,64),(64,1)))", recast_layout<uint8_t, uint16_t>(two<8, 64, 64, 1>()));
  SHOW("recast_layout(8,16,L((8,64),(64,1)))", recast_layout<uint16_t, uint8_t>(two<8, 64, 64, 1>()));
  SHOW("recast_layout(8,32,L((8,64),(1,8)))", recast_layout<uint32_t, uint8_t>(two<8, 64, 1, 8>()));
  SHOW("recast_layout(128,16,L((8,64),(64,1)))", recast_layout<uint16_t, uint128_t>(two<8, 64, 64, 1>()));

  // Swizzles.
  SHOW("upcast(S(3,4,3),2)", upcast<2>(Swizzle<3, 4, 3>{}));
  SHOW("upcast(S(3,4,3),16)", upcast<16>(Swizzle<3, 4, 3>{}));
  SHOW("upcast(S(3,4,3),32)", upcast<32>(Swizzle<3, 4, 3>{}));
  SHOW("upcast(S(3,1,3),8)", upcast<8>(Swizzle<3, 1, 3>{}));
  SHOW("upcast(S(2,0,4),2)", upcast<2>(Swizzle<2, 0, 4>{}));
  SHOW("upcast(S(2,4,-3),4)", upcast<4>(Swizzle<2, 4, -3>{}));
  SHOW("downcast(S(3,3,3),2)", downcast<2>(Swizzle<3, 3, 3>{}));
  SHOW("downcast(S(2,0,-4),8)", downcast<8>(Swizzle<2, 0, -4>{}));
  SHOW("recast_layout(16,8,S(3,4,3))", recast_layout<uint8_t, uint16_t>(Swizzle<3, 4, 3>{}));
  SHOW("recast_layout(8,32,S(3,2,3))", recast_layout<uint32_t, uint8_t>(Swizzle<3, 2, 3>{}));
  SHOW("S(3,4,3)(0x1b5)", Swizzle<3, 4, 3>{}(Int<0x1b5>{}));
  SHOW("S(2,1,4)(0x1b5)", Swizzle<2, 1, 4>{}(Int<0x1b5>{}));
  SHOW("S(2,1,-4)(0x1b5)", Swizzle<2, 1, -4>{}(Int<0x1b5>{}));

  // Composed layouts.
  auto rows = two<8, 64, 64, 1>();
  auto swizzled = composition(Swizzle<3, 3, 3>{}, rows);
  auto offset = composition(Swizzle<3, 3, 3>{}, Int<8>{}, rows);
  SHOW("composition(S(3,3,3),L((8,64),(64,1)))", swizzled);
  SHOW("C(S(3,3,3),8,L((8,64),(64,1)))", offset);
  SHOW("C(S(3,3,3),8,L((8,64),(64,1)))((3,5))", offset(t(Int<3>{}, Int<5>{})));
  SHOW("upcast(C(S(3,3,3),0,L((8,64),(64,1))),2)", upcast<2>(swizzled));
  SHOW("upcast(C(S(3,0,3),0,L((8,64),(64,1))),2)", upcast<2>(composition(Swizzle<3, 0, 3>{}, rows)));
  SHOW("upcast(C(S(3,1,3),0,L((8,64),(64,1))),4)", upcast<4>(composition(Swizzle<3, 1, 3>{}, rows)));
  SHOW("downcast(C(S(3,3,3),0,L((8,64),(64,1))),4)", downcast<4>(swizzled));
  SHOW("recast_layout(16,8,C(S(3,4,3),0,L((8,64),(64,1))))",
       recast_layout<uint8_t, uint16_t>(composition(Swizzle<3, 4, 3>{}, rows)));
  SHOW("recast_layout(8,16,C(S(3,3,3),0,L((8,64),(64,1))))", recast_layout<uint16_t, uint8_t>(swizzled));
  SHOW("coalesce(C(S(3,3,3),0,L((8,64),(1,8))))", coalesce(composition(Swizzle<3, 3, 3>{}, two<8, 64, 1, 8>())));
  SHOW("composition(C(S(3,3,3),0,L((8,64),(64,1))),(4,4))",
       composition(swizzled, make_tile(Int<4>{}, Int<4>{})));
  SHOW("zipped_divide(C(S(3,3,3),0,L((8,64),(64,1))),(4,4))",
       zipped_divide(swizzled, make_tile(Int<4>{}, Int<4>{})));
  SHOW("logical_product(C(S(3,3,3),0,L((8,64),(64,1))),(2,2))",
       logical_product(swizzled, make_tile(Int<2>{}, Int<2>{})));
  SHOW("tile_to_shape(C(S(3,3,3),0,L((8,64),(64,1))),(64,64))", tile_to_shape(swizzled, t(Int<64>{}, Int<64>{})));
  SHOW("complement(C(S(3,3,3),0,L((8,64),(64,1))),1024)", complement(swizzled, Int<1024>{}));
  SHOW("complement(L((2,2),(1,6)))", complement(two<2, 2, 1, 6>()));
  SHOW("cosize(C(S(3,3,3),0,L((8,64),(64,1))))", cosize(swizzled));
  SHOW("right_inverse(C(S(3,3,3),0,L((8,64),(1,8))))",
       right_inverse(composition(Swizzle<3, 3, 3>{}, two<8, 64, 1, 8>())));
  SHOW("left_inverse(C(S(3,3,3),0,L((8,64),(64,1))))", left_inverse(swizzled));
  SHOW("right_inverse(C(S(3,3,3),0,L((8,64),(64,1))))", right_inverse(swizzled));
  SHOW("right_inverse(C(S(3,3,3),8,L((8,64),(64,1))))", right_inverse(offset));
  SHOW("right_inverse(S(3,3,3))", right_inverse(Swizzle<3, 3, 3>{}));
  SHOW("composition(L((8,64),(64,1)),S(3,3,3))", composition(rows, Swizzle<3, 3, 3>{}));
  SHOW("composition(L(512,1),S(3,3,3))", composition(one<512, 1>(), Swizzle<3, 3, 3>{}));
  SHOW("composition(L((8,8),(8,1)),C(S(3,0,3),0,L((8,8),(1,8))))",
       composition(two<8, 8, 8, 1>(), composition(Swizzle<3, 0, 3>{}, two<8, 8, 1, 8>())));
  SHOW("max_common_layout(C(S(3,3,3),0,L((8,64),(64,1))),L((8,64),(64,1)))", max_common_layout(swizzled, rows));
  SHOW("max_common_layout(L((8,64),(64,1)),C(S(3,3,3),0,L((8,64),(64,1))))", max_common_layout(rows, swizzled));
  SHOW("max_common_vector(C(S(3,3,3),0,L((8,64),(64,1))),L((8,64),(64,1)))", max_common_vector(swizzled, rows));
  SHOW("max_common_layout(C(S(3,10,3),0,L((8,64),(64,1))),L((8,64),(64,1)))",
       max_common_layout(composition(Swizzle<3, 10, 3>{}, rows), rows));
  auto behind = composition(two<4, 8, 8, 1>(), t(Int<1>{}, Int<2>{}), make_identity_layout(t(Int<2>{}, Int<4>{})));
  SHOW("C(L((4,8),(8,1)),(1,2),identity((2,4)))", behind);
  SHOW("C(L((4,8),(8,1)),(1,2),identity((2,4)))((1,1))", behind(t(Int<1>{}, Int<1>{})));

  // Slices of swizzled layouts: the decayed layout is printed, and the offset.
  auto sliced_rows = slice_and_offset(make_coord(Int<3>{}, _), swizzled);
  SHOW("slice_and_offset((3,None),C(S(3,3,3),0,L((8,64),(64,1))))[0].outer", get<0>(sliced_rows));
  SHOW("slice_and_offset((3,None),C(S(3,3,3),0,L((8,64),(64,1))))[1]", get<1>(sliced_rows));
  auto sliced_columns = slice_and_offset(make_coord(_, Int<3>{}), swizzled);
  SHOW("slice_and_offset((None,3),C(S(3,3,3),0,L((8,64),(64,1))))[0].outer", get<0>(sliced_columns));
  SHOW("slice_and_offset((None,3),C(S(3,3,3),0,L((8,64),(64,1))))[1]", get<1>(sliced_columns));

  // Partitions of a layout among threads, and tiles of it.
  auto tensor = make_tensor(make_inttuple_iter(Int<0>{}), two<16, 8, 8, 1>());
  SHOW("local_partition(L((16,8),(8,1)),L((4,2),(2,1)),3)[0]",
       local_partition(tensor, two<4, 2, 2, 1>(), Int<3>{}).layout());
  SHOW("local_partition(L((16,8),(8,1)),L((4,2),(2,1)),3)[1]",
       *local_partition(tensor, two<4, 2, 2, 1>(), Int<3>{}).data());
  SHOW("local_partition(L((16,8),(8,1)),L((4,2),(1,4)),6)[0]",
       local_partition(tensor, two<4, 2, 1, 4>(), Int<6>{}).layout());
  SHOW("local_partition(L((16,8),(8,1)),L((4,2),(1,4)),6)[1]",
       *local_partition(tensor, two<4, 2, 1, 4>(), Int<6>{}).data());
  SHOW("local_partition(L((16,8),(8,1)),L((4,3,2),(1,4,12)),14,(1,None,1))[0]",
       local_partition(tensor, Layout<Shape<_4, _3, _2>, Stride<_1, _4, Int<12>>>{}, Int<14>{},
                       Step<_1, Underscore, _1>{})
           .layout());
  SHOW("local_partition(L((16,8),(8,1)),L((4,3,2),(1,4,12)),14,(1,None,1))[1]",
       *local_partition(tensor, Layout<Shape<_4, _3, _2>, Stride<_1, _4, Int<12>>>{}, Int<14>{},
                        Step<_1, Underscore, _1>{})
            .data());
  SHOW("local_tile(L((16,8),(8,1)),(4,2),(1,3))[0]",
       local_tile(tensor, make_tile(Int<4>{}, Int<2>{}), make_coord(Int<1>{}, Int<3>{})).layout());
  SHOW("local_tile(L((16,8),(8,1)),(4,2),(1,3))[1]",
       *local_tile(tensor, make_tile(Int<4>{}, Int<2>{}), make_coord(Int<1>{}, Int<3>{})).data());
  SHOW("local_tile(L((16,8),(8,1)),(4,2),(1,None))[0]",
       local_tile(tensor, make_tile(Int<4>{}, Int<2>{}), make_coord(Int<1>{}, _)).layout());

  // Coordinates inside a shape.
  SHOW("int(elem_less((3,7),(4,8)))", int(elem_less(t(Int<3>{}, Int<7>{}), t(Int<4>{}, Int<8>{}))));
  SHOW("int(elem_less((3,8),(4,8)))", int(elem_less(t(Int<3>{}, Int<8>{}), t(Int<4>{}, Int<8>{}))));
  SHOW("int(elem_less((4,0),(4,8)))", int(elem_less(t(Int<4>{}, Int<0>{}), t(Int<4>{}, Int<8>{}))));
  SHOW("int(elem_less((-1,-2),(4,8)))", int(elem_less(t(Int<-1>{}, Int<-2>{}), t(Int<4>{}, Int<8>{}))));
  SHOW("int(elem_less(5,6))", int(elem_less(Int<5>{}, Int<6>{})));
  SHOW("int(elem_less((1,(2,3)),(2,(3,3))))",
       int(elem_less(make_tuple(Int<1>{}, t(Int<2>{}, Int<3>{})), make_tuple(Int<2>{}, t(Int<3>{}, Int<3>{})))));

  // Coordinates.
  SHOW("identity((4,(8,2)))", make_identity_layout(make_shape(Int<4>{}, make_shape(Int<8>{}, Int<2>{}))));
  SHOW("E(1,0)", E<1, 0>{});
  SHOW("2*E(0,1,2)", Int<2>{} * E<0, 1, 2>{});
  SHOW("E(0)+2*E(1)", E<0>{} + Int<2>{} * E<1>{});
  SHOW("E(0)+E(1,1)", E<0>{} + E<1, 1>{});
  SHOW("L((4,8),(E(1,0),2*E(0)))((1,2))",
       Layout<Shape<_4, _8>, Stride<E<1, 0>, ScaledBasis<_2, 0>>>{}(t(Int<1>{}, Int<2>{})));
  return 0;
}
