"""Start a notebook's kernel, again if it never answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 3


def patient(start: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function that starts a kernel and raises RuntimeError when it does not answer in time.

    Jupyter chooses a kernel's ports, lets go of them and tells the kernel; where several workers start
    kernels at once, another one can take a port in between, and the kernel is never heard of. Seen once in
    a dozen runs of eight workers. The last attempt's error passes through.
    """

    @functools.wraps(start)
    def started(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(ATTEMPTS - 1):
            try:
                return start(*args, **kwargs)
            except RuntimeError:
                continue
        return start(*args, **kwargs)

    return started
