"""The NumPy dtypes of the tests' arrays: numbers of every element type, which NumPy alone does not have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from cutecourse.dtypes import DType

__all__ = ["array_type"]

_OTHERS = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}


def array_type(element: DType) -> np.dtype[Any]:
    """The dtype of an array with numbers of this type: that of ml_dtypes where the library takes codes."""
    return np.dtype(_OTHERS[element.name]) if element.coded else element.numpy
