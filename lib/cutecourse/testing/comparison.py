"""Comparing what a kernel left in an array with what is expected."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutecourse.dtypes import DType, decode

__all__ = ["difference", "unwritten"]

Array = NDArray[Any]

_TOLERANCES = {
    "f16": (1e-3, 1e-5),
    "bf16": (1.6e-2, 1e-5),
    "f32": (1.3e-6, 1e-5),
    "f64": (1e-7, 1e-7),
}
"""Relative and absolute; the defaults of torch.testing.assert_close (PyTorch 2.9). Other types are exact."""
_SHOWN = 5


def difference(
    name: str,
    held: Array,
    kind: DType,
    expected: ArrayLike,
    rtol: float | None,
    atol: float | None,
    unset: NDArray[np.bool_] | None,
) -> str | None:
    """The problem with an array in words, or None if it is as expected.

    held      what the kernel left, of the elements `kind` (codes, if NumPy lacks the type).
    expected  numbers, of a shape that can be broadcast to the array's.
    unset     True for each element that the kernel has not written; None if that is not known.

    An element is right if |held - expected| <= atol + rtol * |expected|, or if both are NaN.
    """
    given = np.asarray(expected)
    try:
        right = np.broadcast_to(given, held.shape)
    except ValueError:
        return f"{name} has the shape {held.shape}, but the expected array has {given.shape}"
    left = decode(held, kind) if kind.coded else held
    default = _TOLERANCES.get(kind.name, (0.0, 0.0))
    relative, absolute = (
        chosen if chosen is not None else usual for chosen, usual in zip((rtol, atol), default, strict=True)
    )
    with np.errstate(all="ignore"):
        same = left == right
        if relative or absolute:
            one, other = left.astype(np.float64), right.astype(np.float64)
            same |= np.abs(one - other) <= absolute + relative * np.abs(other)
            same |= np.isnan(one) & np.isnan(other)
        elif left.dtype.kind == "f":
            same |= np.isnan(left) & np.isnan(right.astype(left.dtype))
    if unset is not None:
        same &= ~unset
    wrong = np.argwhere(~same)
    if not len(wrong):
        return None
    how = f" (rtol {relative:g}, atol {absolute:g})" if relative or absolute else ""
    lines = [f"{len(wrong)} of {held.size} elements of {name} are not as expected{how}:"]
    for place in wrong[:_SHOWN]:
        index = tuple(int(axis) for axis in place)
        where = f"{name}[{', '.join(map(str, index))}]"
        if unset is not None and unset[index]:
            lines.append(f"  {where} was never written; expected {right[index]}")
        else:
            lines.append(f"  {where} is {left[index]}; expected {right[index]}")
    if len(wrong) > _SHOWN:
        lines.append(f"  and {len(wrong) - _SHOWN} more")
    return "\n".join(lines)


def unwritten(held: Array, poison: Array) -> NDArray[np.bool_]:
    """Return for each element whether it still has the bits of the poison."""
    size = held.dtype.itemsize
    bits = [np.frombuffer(one.tobytes(), np.uint8).reshape(-1, size) for one in (held, poison)]
    same: NDArray[np.bool_] = (bits[0] == bits[1]).all(axis=1).reshape(held.shape)
    return same
