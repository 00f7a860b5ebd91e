"""Functions in float64 that several references need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

__all__ = ["log_softmax", "rstd", "sigmoid", "silu", "softmax"]


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    """The product of x and its sigmoid."""
    return x * sigmoid(x)


def softmax(x: Array, axis: int = -1) -> Array:
    """e^x over the sum of e^x along an axis."""
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of softmax."""
    return np.log(softmax(x, axis))


def rstd(x: Array, eps: float) -> Array:
    """One over the root of the mean square of each row, with the row's axis kept."""
    return 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
