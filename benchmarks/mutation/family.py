"""What a family is: a right kernel that the rules break, with its launch and its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from benchmarks.mutation.rule import Kernel
from cutecourse import runtime
from cutecourse.dtypes import dtype
from cutecourse.kernels import LaunchSpec
from cutecourse.tma import TensorMapEncoding

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """A right kernel: its launch, its arrays, and what each output array holds afterwards.

    `expected` is None where nobody has said what is right: then it is what the right kernel gives.
    """

    name: str
    kind: str
    """What it is an example of: the column `family` of the table."""
    spec: LaunchSpec
    arrays: Arrays
    expected: Arrays | None
    primary: LaunchSpec | None = None
    """A launch with the same arguments right before it, whose results it has to wait for."""
    along_k: Mapping[str, int] = field(default_factory=dict)
    """As `Kernel.along_k`."""

    @cached_property
    def compiled(self) -> tuple[str, str]:
        """The PTX text and the entry's name."""
        made = runtime.compile(self.spec)
        return str(made.ptx), made.entry

    @cached_property
    def kernel(self) -> Kernel:
        """As the rules see it."""
        return Kernel(self.compiled[0], self.spec, self.along_k)

    def arguments(
        self, maps: Mapping[str, TensorMapEncoding | str]
    ) -> tuple[list[Any], Callable[[], Arrays]]:
        """What a launch is given, some arguments replaced, and what reads the arrays behind it.

        maps  other fields of a tensor map, or another element type of an array, by the parameter's name.
        """
        bound = runtime.bind(self.spec, self.arrays)
        fields = {name: one for name, one in maps.items() if not isinstance(one, str)}
        args = runtime.emulator_arguments(self.spec, bound, fields)
        for number, param in enumerate(self.spec.params):
            kind = maps.get(param.name)
            if isinstance(kind, str):
                args[number] = args[number].view(dtype(kind).numpy)
        return args, lambda: {
            name: value.logical() for name, value in bound.items() if isinstance(value, runtime.Bound)
        }
