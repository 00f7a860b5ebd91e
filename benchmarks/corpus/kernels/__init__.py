"""All entries: one module for each package."""

from benchmarks.corpus.entries import ENTRIES
from benchmarks.corpus.kernels import liger

__all__ = ["ENTRIES", "liger"]
