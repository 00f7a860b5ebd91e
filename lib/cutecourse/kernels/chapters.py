"""The kernels that each chapter runs, and the GPU that they need."""

from __future__ import annotations

from dataclasses import dataclass

from cutecourse.kernels.spec import runs_on

__all__ = ["CHAPTERS", "COMPUTE_CAPABILITIES", "REFUSED", "Chapter"]

COMPUTE_CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))
"""The columns of the doctor's table: the GPUs that the course covers."""

REFUSED = ("mn_major_ldmatrix_refused",)
"""Kernels that their compiler refuses, on purpose."""


@dataclass(frozen=True)
class Chapter:
    """One chapter's kernels, by module, and the lowest target that has all their instructions."""

    number: int
    slug: str
    title: str
    kernels: tuple[str, ...]
    target: str
    reason: str

    @property
    def name(self) -> str:
        """The chapter's file name without its ending: "02_hello_mma"."""
        return f"{self.number:02d}_{self.slug}"

    def native_on(self, compute_capability: tuple[int, int]) -> bool:
        """Return whether a GPU of this compute capability runs the chapter's PTX; else the emulator does."""
        return runs_on(self.target, compute_capability)


CHAPTERS = (
    Chapter(
        number=1,
        slug="hello_layout",
        title="Hello, Layout",
        kernels=("hello_ptx", "stamp_layout", "stamp_composition", "stamp_tiles", "copy_transposed"),
        target="sm_80",
        reason="plain integer and memory instructions; the course compiles everything for sm_80 or later",
    ),
    Chapter(
        number=2,
        slug="hello_mma",
        title="Hello, MMA",
        kernels=("mma_ownership_map", "micro_gemm", "mma_raw"),
        target="sm_80",
        reason="mma.sync.m16n8k16 on f16 came with compute capability 8.0 and later GPUs still have it",
    ),
    Chapter(
        number=3,
        slug="parallel_copy",
        title="A parallel copy",
        kernels=(
            "copy_one_thread",
            "copy_threads",
            "copy_tiled",
            "copy_stamp",
            "copy_several",
            "copy_async",
            "copy_predicated",
            "copy_broken",
            "transpose_naive",
        ),
        target="sm_80",
        reason="cp.async came with compute capability 8.0; the rest is plain memory instructions",
    ),
    Chapter(
        number=4,
        slug="banks_and_swizzles",
        title="Banks and swizzles",
        kernels=(
            "micro_gemm_ldmatrix",
            "mn_major_partition",
            "mn_major_fragment_like",
            "mn_major_raw",
            "mn_major_ldmatrix",
            "mn_major_ldmatrix_trans",
            "epilogue_direct",
            "micro_gemm_swizzled",
            "transpose_shared",
            "transpose_padded",
            "transpose_swizzled",
            "transpose_wide",
            "smem_broken",
        ),
        target="sm_80",
        reason="mma.sync.m16n8k16 on f16 came with compute capability 8.0 and later GPUs still have it",
    ),
    Chapter(
        number=5,
        slug="global_gemm",
        title="A GEMM on any GPU",
        kernels=(
            "mma_timing",
            "mma_stamp_permuted",
            "gemm_first",
            "gemm_ldmatrix",
            "gemm_stages",
            "gemm_registers",
            "gemm_epilogue",
            "gemm_any",
            "gemm_tiles",
            "gemm_late",
            "gemm_broken",
        ),
        target="sm_80",
        reason="mma.sync.m16n8k16 on f16 came with compute capability 8.0 and later GPUs still have it",
    ),
    Chapter(
        number=6,
        slug="tma_descriptor",
        title="The TMA Descriptor",
        kernels=("tma_dump",),
        target="sm_90",
        reason="cp.async.bulk.tensor and tensor maps came with compute capability 9.0",
    ),
    Chapter(
        number=7,
        slug="tma_in_motion",
        title="TMA in Motion",
        kernels=("tma_load", "tma_prefetch", "tma_store", "tma_pipeline", "tma_broken"),
        target="sm_90",
        reason="cp.async.bulk.tensor and mbarriers that count bytes came with compute capability 9.0",
    ),
    Chapter(
        number=8,
        slug="clusters_and_multicast",
        title="Clusters and Multicast",
        kernels=(
            "cluster_ranks",
            "tma_multicast",
            "tma_cluster_loads",
            "tma_multicast_pipeline",
            "tma_multicast_broken",
            "tma_multicast_pipeline_broken",
        ),
        target="sm_90",
        reason="clusters, and loads that several CTAs receive, came with compute capability 9.0",
    ),
    Chapter(
        number=10,
        slug="hopper_gemm",
        title="A GEMM for Hopper",
        kernels=(
            "hopper_one",
            "hopper_stages",
            "hopper_roles",
            "hopper_clusters",
            "hopper_persistent",
            "hopper_pingpong",
            "hopper_last",
            "hopper_broken",
            "hopper_store_broken",
        ),
        target="sm_90a",
        reason="wgmma and setmaxnreg are Hopper's alone, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=9,
        slug="wgmma",
        title="wgmma",
        kernels=("wgmma_map", "wgmma_one", "wgmma_registers", "wgmma_broken"),
        target="sm_90a",
        reason="wgmma is Hopper's alone, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=11,
        slug="hello_umma",
        title="Hello, UMMA",
        kernels=("umma_one", "umma_tile", "umma_parts", "umma_tile_broken"),
        target="sm_100a",
        reason="tcgen05 and tensor memory are Blackwell's alone, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=12,
        slug="umma_tma_multicast",
        title="UMMA with TMA and Multicast",
        kernels=("umma_tma", "umma_tma_multicast", "umma_tma_broken"),
        target="sm_100a",
        reason="tcgen05 and tensor memory are Blackwell's alone, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=13,
        slug="two_sm_umma",
        title="Two SMs, One MMA",
        kernels=(
            "umma_two_sm",
            "umma_two_sm_pipeline",
            "umma_gemm",
            "umma_broken",
        ),
        target="sm_100a",
        reason="cta_group::2, which lets two SMs share an MMA, is a part of tcgen05",
    ),
    Chapter(
        number=14,
        slug="persistent_umma",
        title="The Kernel That People Run",
        kernels=("umma_store", "umma_persistent", "umma_scheduled", "umma_classes"),
        target="sm_100a",
        reason="tcgen05 and tensor memory are Blackwell's alone, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=15,
        slug="block_scales",
        title="Eight Bits and Four",
        kernels=("scale_stamp", "scaled_one", "scaled_tile", "scaled_persistent"),
        target="sm_100a",
        reason="MMAs with scale factors are a part of tcgen05, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=15,
        slug="fp8_on_hopper",
        title="Eight Bits on Hopper",
        kernels=("fp8_drift", "fp8_gemm"),
        target="sm_90a",
        reason="wgmma came with compute capability 9.0, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=16,
        slug="attention",
        title="Attention in One Pass",
        kernels=("attention_map", "attention_online", "attention_turns"),
        target="sm_80",
        reason="mma.sync.m16n8k16 on f16 came with compute capability 8.0 and later GPUs still have it",
    ),
    Chapter(
        number=16,
        slug="hopper_attention",
        title="Attention for Hopper",
        kernels=(
            "attention_one",
            "attention_roles",
            "attention_pingpong",
            "attention_overlap",
            "attention_lazy",
            "attention_last",
        ),
        target="sm_90a",
        reason="wgmma came with compute capability 9.0, and PTX with an `a` is for one generation",
    ),
    Chapter(
        number=16,
        slug="blackwell_attention",
        title="Attention for Blackwell",
        kernels=("umma_attention",),
        target="sm_100a",
        reason="tcgen05 and tensor memory are Blackwell's alone, and PTX with an `a` is for one generation",
    ),
)
