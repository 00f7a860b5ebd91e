"""All entries: one module for each package."""

from benchmarks.corpus.entries import ENTRIES
from benchmarks.corpus.kernels import (
    cccl,
    conch,
    cutlass,
    fla,
    fla_chunks,
    flash,
    flashinfer,
    gems,
    liger,
    quack,
    quack_gemm,
    sage,
    unsloth,
)

__all__ = [
    "ENTRIES",
    "cccl",
    "conch",
    "cutlass",
    "fla",
    "fla_chunks",
    "flash",
    "flashinfer",
    "gems",
    "liger",
    "quack",
    "quack_gemm",
    "sage",
    "unsloth",
]
