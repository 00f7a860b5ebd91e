// Tiles C (128 x 128) = A (128 x K) * B (128 x K)^T by one warpgroup, with CuTe's atoms and layouts for Hopper.
// Compiled where CUTLASS's headers are, by tests/emulator/test_wgmma_modules.py.
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

using namespace cute;

// Shared memory is filled element by element through CuTe's layouts, and read through CuTe's descriptors.
template <bool from_registers, class Atom, class LayoutA, class LayoutB, class T, class D>
__device__ void tile(Atom, LayoutA layout_a, LayoutB layout_b, T const* a, T const* b, D* c, int k)
{
  constexpr int K = size<1>(LayoutA{});
  extern __shared__ __align__(1024) char memory[];
  T* mem_a = reinterpret_cast<T*>(memory);
  T* mem_b = mem_a + cosize_v<LayoutA>;
  Tensor sA = make_tensor(make_smem_ptr(mem_a), layout_a);
  Tensor sB = make_tensor(make_smem_ptr(mem_b), layout_b);
  Tensor gC = make_tensor(make_gmem_ptr(c), Shape<_128, _128>{}, Stride<_128, _1>{});
  TiledMMA mma = make_tiled_mma(Atom{});
  ThrMMA thr = mma.get_slice(threadIdx.x);
  Tensor tCsA = thr.partition_A(sA);
  Tensor tCrB = thr.make_fragment_B(thr.partition_B(sB));
  Tensor tCgC = thr.partition_C(gC);
  Tensor tCrC = thr.make_fragment_C(tCgC);
  clear(tCrC);
  for (int first = 0; first < k; first += K) {
    for (int i = threadIdx.x; i < 128 * K; i += 128) {
      sA(i / K, i % K) = a[i / K * k + first + i % K];
      sB(i / K, i % K) = b[i / K * k + first + i % K];
    }
    asm volatile("fence.proxy.async;");
    __syncthreads();
    if constexpr (from_registers) {
      Tensor tCrA = thr.partition_fragment_A(sA);
      copy(tCsA, tCrA);
      warpgroup_fence_operand(tCrC);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int step = 0; step < size<2>(tCrA); ++step) {
        gemm(mma, tCrA(_, _, step), tCrB(_, _, step), tCrC);
        warpgroup_commit_batch();
      }
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrA);
    } else {
      Tensor tCrA = thr.make_fragment_A(tCsA);
      warpgroup_fence_operand(tCrC);
      warpgroup_arrive();
      gemm(mma, tCrA, tCrB, tCrC);
      warpgroup_commit_batch();
      warpgroup_wait<0>();
    }
    warpgroup_fence_operand(tCrC);
    __syncthreads();
  }
  copy(tCrC, tCgC);
}

template <template <class> class Kind, class T, int K>
using Shared = decltype(tile_to_shape(Kind<T>{}, Shape<_128, Int<K>>{}));

#define ENTRY(NAME, REGISTERS, ATOM, T, D, K, KIND_A, KIND_B)                                              \
  extern "C" __global__ void __launch_bounds__(128) NAME(T const* a, T const* b, D* c, int k)              \
  {                                                                                                        \
    tile<REGISTERS>(ATOM{}, Shared<GMMA::KIND_A, T, K>{}, Shared<GMMA::KIND_B, T, K>{}, a, b, c, k);       \
  }

template <auto a, auto b> using F16 = SM90_64x128x16_F32F16F16_SS<a, b>;
template <auto a, auto b> using Half = SM90_64x64x16_F16F16F16_SS<a, b>;
template <auto a, auto b> using Bf16 = SM90_64x128x16_F32BF16BF16_SS<a, b>;
using F16_K = F16<GMMA::Major::K, GMMA::Major::K>;
using Half_K = Half<GMMA::Major::K, GMMA::Major::K>;
using Bf16_MN = Bf16<GMMA::Major::MN, GMMA::Major::MN>;
using Bf16_K_MN = Bf16<GMMA::Major::K, GMMA::Major::MN>;
using F16_MN_K = F16<GMMA::Major::MN, GMMA::Major::K>;
using F16_RS = SM90_64x32x16_F32F16F16_RS<GMMA::Major::K, GMMA::Major::K>;
using F16_RS_MN = SM90_64x128x16_F32F16F16_RS<GMMA::Major::K, GMMA::Major::MN>;

ENTRY(f16_128_64, false, F16_K, half_t, float, 64, Layout_K_SW128_Atom, Layout_K_SW64_Atom)
ENTRY(f16_none, false, Half_K, half_t, half_t, 32, Layout_K_INTER_Atom, Layout_K_SW32_Atom)
ENTRY(bf16_mn, false, Bf16_MN, bfloat16_t, float, 32, Layout_MN_SW128_Atom, Layout_MN_SW64_Atom)
ENTRY(bf16_mn_none, false, Bf16_MN, bfloat16_t, float, 32, Layout_MN_INTER_Atom, Layout_MN_SW32_Atom)
ENTRY(bf16_k_mn, false, Bf16_K_MN, bfloat16_t, float, 64, Layout_K_SW128_Atom, Layout_MN_SW128_Atom)
ENTRY(f16_mn_k, false, F16_MN_K, half_t, float, 64, Layout_MN_SW32_Atom, Layout_K_INTER_Atom)
ENTRY(f16_registers, true, F16_RS, half_t, float, 64, Layout_K_SW128_Atom, Layout_K_SW128_Atom)
ENTRY(f16_registers_mn, true, F16_RS_MN, half_t, float, 32, Layout_K_SW64_Atom, Layout_MN_SW128_Atom)
ENTRY(tf32, false, SM90_64x64x8_F32TF32TF32_SS_TN<>, tfloat32_t, float, 32, Layout_K_SW128_Atom, Layout_K_SW64_Atom)
ENTRY(e4m3, false, SM90_64x64x32_F32E4M3E4M3_SS_TN<>, float_e4m3_t, float, 128, Layout_K_SW128_Atom, Layout_K_SW64_Atom)
ENTRY(s8, false, SM90_64x64x32_S32S8S8_SS_TN, int8_t, int, 64, Layout_K_SW64_Atom, Layout_K_INTER_Atom)
