// Where does a token occur first in each row? Warp 0 loads the row's tiles, and warp 1 looks through them.
#include <cstdint>

constexpr int STAGES = 3;
constexpr int TILE = 128;  // tokens

__device__ uint32_t at(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

__device__ void init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(barrier)), "r"(arrivals));
}

__device__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(barrier)) : "memory");
}

__device__ void wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(at(barrier)), "r"(parity) : "memory");
}

__device__ void load(int* tile, const int* from, uint64_t* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(barrier)), "n"(4 * TILE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(at(tile)), "l"(from), "n"(4 * TILE), "r"(at(barrier)) : "memory");
}

extern "C" __global__ void first_match(const int* rows, int* found, int tiles, int token) {
    __shared__ alignas(128) int ring[STAGES][TILE];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    rows += blockIdx.x * tiles * TILE;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            init(&full[stage], 1);
            init(&empty[stage], 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    if (warp == 0 && lane == 0) {
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES, turn = tile / STAGES;
            wait(&empty[stage], (turn & 1) ^ 1);
            load(ring[stage], rows + tile * TILE, &full[stage]);
        }
    }
    if (warp == 1) {
        int first = -1;
        for (int tile = 0; tile < tiles; ++tile) {
            const int stage = tile % STAGES, turn = tile / STAGES;
            wait(&full[stage], turn & 1);
            for (int i = lane; i < TILE; i += 32) {
                const unsigned hits = __ballot_sync(~0u, ring[stage][i] == token);
                if (first < 0 && hits) first = tile * TILE + i - lane + __ffs(hits) - 1;
            }
            __syncwarp();
            if (first >= 0) break;
            if (lane == 0) arrive(&empty[stage]);
        }
        if (lane == 0) found[blockIdx.x] = first;
    }
}
