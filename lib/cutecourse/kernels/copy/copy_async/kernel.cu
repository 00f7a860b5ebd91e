// Each CTA copies one tile of 32x128 floats, four vectors of 16 bytes for each thread, with cp.async.
#include <cute/tensor.hpp>

using namespace cute;

using Rows = Int<64>;
using Columns = Int<256>;

extern "C" __global__ void copy_async(float const* source, float* result)
{
  auto layout = make_layout(make_shape(Rows{}, Columns{}), LayoutRight{});
  Tensor mS = make_tensor(make_gmem_ptr(source), layout);
  Tensor mD = make_tensor(make_gmem_ptr(result), layout);
  auto tile = make_shape(Int<32>{}, Int<128>{});
  Tensor gS = local_tile(mS, tile, make_coord(blockIdx.y, blockIdx.x));
  Tensor gD = local_tile(mD, tile, make_coord(blockIdx.y, blockIdx.x));
  __shared__ alignas(16) float buffer[32 * 128];
  Tensor sS = make_tensor(make_smem_ptr(buffer), make_layout(tile, LayoutRight{}));

  using Vector = cute::uint128_t;
  auto tiled_copy = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<Vector>, float>{},
                                    make_layout(Shape<_8, _32>{}, LayoutRight{}),  // threads
                                    Layout<Shape<_1, _4>>{});                      // values
  auto thr_copy = tiled_copy.get_slice(threadIdx.x);
  Tensor tSgS = thr_copy.partition_S(gS);  // (CPY,CPY_M,CPY_N)
  Tensor tSsS = thr_copy.partition_D(sS);
  Tensor tDgD = thr_copy.partition_D(gD);

  CUTE_UNROLL
  for (int i = 0; i < size<1>(tSgS); ++i) {
    copy(tiled_copy, tSgS(_, i, _), tSsS(_, i, _));
    cp_async_fence();
  }
  for_each(make_int_sequence<4>{}, [&](auto i) {
    cp_async_wait<3 - i>();
    copy(AutoVectorizingCopy{}, tSsS(_, i, _), tDgD(_, i, _));
  });
}
