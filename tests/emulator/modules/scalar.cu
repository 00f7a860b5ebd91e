#include <cstdio>
extern "C" __device__ __noinline__ float horner(float x, int n) {
  float s = 0.0f;
  for (int i = 0; i < n; i++) s = __fmaf_rn(s, x, (float)i);
  return s;
}
extern "C" __global__ void reduce_sum(const float* in, float* out, int n) {
  __shared__ float partial[32];
  float v = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += in[i];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[16][17], bs[16][17];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float acc = 0.0f;
  for (int t = 0; t < k; t += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0.0f;
    bs[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; i++) acc += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = acc;
}
extern "C" __global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) if (local[i]) atomicAdd(&bins[i], local[i]);
}
extern "C" __global__ void collatz(const unsigned* start, unsigned* steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = start[i], count = 0;
  while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; count++; if (count > 500) break; }
  steps[i] = count;
}
struct Pair { int scale; float values[3]; double shift; };
extern "C" __global__ void local_and_struct(float* out, Pair p, int k) {
  int table[8];
  for (int i = 0; i < 8; i++) table[i] = i * p.scale + threadIdx.x;
  int at = (threadIdx.x * 5 + k) % 8;
  table[at] += 1000;
  float v = horner(p.values[threadIdx.x % 3], threadIdx.x % 7);
  switch (k) {
    case 0: v += 1; break;
    case 1: v *= 2; break;
    case 2: v -= 3; break;
    case 3: v = -v; break;
    case 4: v = v * v; break;
    default: v = 0;
  }
  out[threadIdx.x] = v + table[(at + threadIdx.x) % 8] + (float)p.shift;
}
extern "C" __global__ void bitonic(int* data) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  s[t] = data[t];
  __syncthreads();
  for (int k = 2; k <= blockDim.x; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      int other = t ^ j;
      if (other > t) {
        int a = s[t], b = s[other];
        if ((t & k) == 0 ? a > b : a < b) { s[t] = b; s[other] = a; }
      }
      __syncthreads();
    }
  data[t] = s[t];
}

extern "C" __global__ void last_block(const int* in, int* out, int* counter, int n) {
  __shared__ bool last;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&sum, in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    out[1 + blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(counter, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (int b = 0; b < gridDim.x; b++) total += out[1 + b];
    out[0] = total;
  }
}
extern "C" __global__ void doubles(const double* a, const double* b, double* out) {
  int i = threadIdx.x;
  out[i] = sqrt(a[i] * a[i] + b[i]) / (1.0 + exp(-b[i]));
}
extern "C" __global__ void prints(int n) { if (threadIdx.x < n) printf("thread %d of %s: %5.2f %lld %c%%\n", threadIdx.x, "block", threadIdx.x * 0.5, -5LL, 'x'); }
#include <cassert>
extern "C" __global__ void asserts(int n) { assert(threadIdx.x < n); }
