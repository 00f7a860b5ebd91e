// Seven right kernels with marks: `-` leaves a line out, `!` gives another code for it, and `>` says that the
// report of the mistake names the line. test_bugs.py compiles the file as it is, and with all the mistakes.

#include <cstdint>

constexpr int THREADS = 128;
constexpr int TILE = 512;    // floats
constexpr int ROUNDS = 4;

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void expect_bytes(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_parity(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void load_tile(float* tile, const float* from, int bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(tile)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

extern "C" __global__ void missing_barrier(float* out, const float* in) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x;
    tile[i] = in[i];                              //> missing_barrier
    __syncthreads();                              //- missing_barrier
    out[i] = tile[THREADS - 1 - i];               //> missing_barrier
}

extern "C" __global__ void out_of_bounds(float* out, const float* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)                                    //- out_of_bounds
        out[i] = 2.0f * in[i];                    //> out_of_bounds
}

extern "C" __global__ void short_expect_tx(float* out, const float* in) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        expect_bytes(&full, sizeof(tile));        //! short_expect_tx: expect_bytes(&full, TILE);  //> short_expect_tx
        load_tile(tile, in, sizeof(tile), &full);  //> short_expect_tx
    }
    __syncthreads();
    wait_parity(&full, 0);
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        out[i] = tile[i];
}

extern "C" __global__ void long_expect_tx(float* out, const float* in) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        expect_bytes(&full, sizeof(tile));        //! long_expect_tx: expect_bytes(&full, 2 * sizeof(tile));  //> long_expect_tx
        load_tile(tile, in, sizeof(tile), &full);  //> long_expect_tx
    }
    __syncthreads();
    wait_parity(&full, 0);                        //> long_expect_tx
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        out[i] = tile[i];
}

extern "C" __global__ void second_round(float* out, const float* in) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ uint64_t full;
    if (threadIdx.x == 0)
        barrier_init(&full, 1);
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        if (threadIdx.x == 0) {
            expect_bytes(&full, sizeof(tile));
            load_tile(tile, in + round * TILE, sizeof(tile), &full);  //> second_round
        }
        wait_parity(&full, round & 1);            //! second_round: wait_parity(&full, 0);
        for (int i = threadIdx.x; i < TILE; i += THREADS)
            out[round * TILE + i] = tile[i];      //> second_round
        __syncthreads();
    }
}

extern "C" __global__ void missing_wait_group(float* out, const float* in) {
    __shared__ alignas(16) float tile[4 * THREADS];
    int i = 4 * threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 ::"r"(shared_address(tile + i)), "l"(in + i) : "memory");  //> missing_wait_group
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");  //- missing_wait_group
    __syncthreads();
    for (int i = threadIdx.x; i < 4 * THREADS; i += THREADS)
        out[i] = tile[i ^ 4];                     //> missing_wait_group
}

extern "C" __global__ void missing_proxy_fence(float* out, const float* in) {
    __shared__ alignas(128) float tile[THREADS];
    int i = threadIdx.x;
    tile[i] = 2.0f * in[i];                       //> missing_proxy_fence
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  //- missing_proxy_fence
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     ::"l"(out), "r"(shared_address(tile)), "n"(sizeof(tile)) : "memory");  //> missing_proxy_fence
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
