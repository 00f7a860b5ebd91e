"""Copies of a launch's arguments, to launch again with what the arrays held before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.emulator.memory.tensor_map import TensorMap

__all__ = ["Copies"]

Array = NDArray[Any]


class Copies:
    """Copies a launch's arrays. Arrays that share memory have copies that share memory."""

    def __init__(self) -> None:
        self.possible = True
        """False once an array could not be copied; `of` then returned the array itself."""
        self._made: list[tuple[int, int, Array]] = []

    def of(self, argument: Any) -> Any:
        """The argument with its arrays replaced by copies."""
        if isinstance(argument, np.ndarray):
            return self._copy(argument)
        if isinstance(argument, TensorMap):
            return replace(argument, array=self._copy(argument.array))
        if isinstance(argument, tuple | list):
            return type(argument)([self.of(item) for item in argument])
        return argument

    def _copy(self, array: Array) -> Array:
        contiguous = array.flags.c_contiguous or array.flags.f_contiguous
        if not contiguous or array.dtype.hasobject:
            self.possible = False
            return array
        start = array.__array_interface__["data"][0]
        end = start + array.nbytes
        for low, high, held in self._made:
            if start < high and low < end:
                if start < low or end > high:
                    self.possible = False
                    return array
                return _shaped(held[start - low : end - low], array)
        held = array.reshape(-1, order="A").view(np.uint8).copy()
        self._made.append((start, end, held))
        return _shaped(held, array)


def _shaped(held: Array, like: Array) -> Array:
    """View bytes as an array like `like`: type, shape, order of elements, and whether it is read-only."""
    items = held.view(like.dtype).reshape(like.shape, order="C" if like.flags.c_contiguous else "F")
    items.flags.writeable = like.flags.writeable
    return items
