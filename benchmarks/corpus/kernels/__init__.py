"""All entries: one module for each package."""

from benchmarks.corpus.entries import ENTRIES
from benchmarks.corpus.kernels import conch, fla, gems, liger, quack, sage

__all__ = ["ENTRIES", "conch", "fla", "gems", "liger", "quack", "sage"]
