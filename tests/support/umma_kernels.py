"""The kernels of tcgen05, rung by rung. They have no chapter yet, so `CHAPTERS` does not list them."""

UMMA_KERNELS = (
    "umma_one",
    "umma_tile",
    "umma_tma",
    "umma_tma_multicast",
    "umma_two_sm",
    "umma_two_sm_pipeline",
    "umma_gemm",
    "umma_broken",
)
