// The transpose through swizzled shared memory in CuTe C++: what kernels/transpose_swizzled.py does.
// Here the swizzle is part of the layout, so it permutes offsets in floats. The DSL kernel's permutes bytes.

#include <cute/tensor.hpp>

using namespace cute;

extern "C" __global__ void transpose_swizzled_cpp(float const* source, float* result, int m, int n) {
  Tensor mS = make_tensor(make_gmem_ptr(source), make_shape(m, n), make_stride(n, _1{}));
  Tensor mD = make_tensor(make_gmem_ptr(result), make_shape(n, m), make_stride(m, _1{}));
  auto tile = Shape<_32, _32>{};
  Tensor gS = local_tile(mS, tile, make_coord(blockIdx.y, blockIdx.x));  // (m, n)
  Tensor gD = local_tile(mD, tile, make_coord(blockIdx.x, blockIdx.y));  // (n, m)

  auto swizzle = Swizzle<5, 0, 5>{};
  auto rows = Layout<Shape<_32, _32>, Stride<_32, _1>>{};
  auto columns = Layout<Shape<_32, _32>, Stride<_1, _32>>{};
  alignas(128) __shared__ float smem[cosize_v<decltype(rows)>];
  Tensor sS = make_tensor(make_smem_ptr(smem), composition(swizzle, rows));
  Tensor sD = make_tensor(make_smem_ptr(smem), composition(swizzle, columns));  // the same memory, by columns

  auto threads = Layout<Shape<_8, _32>, Stride<_32, _1>>{};
  copy(local_partition(gS, threads, threadIdx.x), local_partition(sS, threads, threadIdx.x));
  __syncthreads();
  copy(local_partition(sD, threads, threadIdx.x), local_partition(gD, threads, threadIdx.x));
}
