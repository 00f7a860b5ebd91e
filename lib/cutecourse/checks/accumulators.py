"""Recognise a kernel whose accumulator starts with whatever the registers hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError

UNWRITTEN = -4096.0
"""A number to fill outputs with: no product of the exercises reaches it, so it marks what was not stored."""


def require_cleared(spec: object, inputs: Mapping[str, Any], name: str) -> None:
    """Refuse a kernel that adds its products to registers that nobody has written.

    The emulator fills such registers with a pattern that is a large negative float, so the sum stays close
    to it. A GPU may leave a zero there, and the answer would be right by luck. Anything else that is wrong
    with the kernel is left to `same_outputs`.
    """
    import numpy as np

    from cutecourse.emulator.core.memory import POISON
    from cutecourse.kernels.spec import LaunchSpec
    from cutecourse.runtime import run

    if not isinstance(spec, LaunchSpec):
        return
    try:
        output = run(spec, device="emulator", **{key: array.copy() for key, array in inputs.items()})[name]
    except CourseError:
        return
    pattern = np.full(4, POISON, np.uint8).view(np.float32)[0]
    if np.allclose(output, pattern, rtol=1e-2):
        raise WrongAnswer(
            "The accumulator is never cleared, so its registers hold whatever was there before. On a GPU "
            "this may be zero, and the answer right by luck. On the emulator it is a large negative number.",
            where=f"{name}[0, 0]",
            got=str(output[0, 0]),
        )
