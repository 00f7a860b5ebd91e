"""The places of a kernel's and its device functions' variables and parameters.

Calls never recur, so each function's local variables, parameters and call arguments have one place in each
thread's memory. All places are known before a launch, whatever its arguments are.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass

from cutecourse.emulator.core.frame import align_up, alignment_of, initial_bytes, parameter_offsets, size_of
from cutecourse.emulator.core.memory import CONST_WINDOW, VARIABLE_BASE, room_for
from cutecourse.emulator.errors import LaunchError, UnsupportedInstruction
from cutecourse.ptx.checks import names
from cutecourse.ptx.demangle import short_name
from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.syntax import Function, Module, SymbolOffset, Variable

__all__ = ["PlacedVariable", "Placement", "function_address"]

_DYNAMIC_ALIGNMENT = 1024
_MAX_LOCAL_BYTES = 512 << 10
_MAX_MEMBERS = 1 << 16

Key = tuple[str, str, int, int]


def function_address(name: str) -> str:
    """Why the address of a function is refused."""
    return (
        f"the address of the function {short_name(name)} is for indirect calls, which are not supported: call"
        " the function by its name, behind a branch for each one"
    )


@dataclass(eq=False, slots=True)
class PlacedVariable:
    """A variable in .global or .const: its address, its size, and the bytes of its initializer."""

    variable: Variable
    address: int
    n_bytes: int
    initial: bytes = b""


class Placement:
    """The places of the variables that an entry can reach."""

    def __init__(
        self, module: Module, entry: Function, flat: Mapping[str, FlatFunction], dynamic_smem: int
    ) -> None:
        self._module = module
        self._offsets: dict[Key, int] = {}
        self._placed: dict[Key, PlacedVariable] = {}
        self._next = {"global": VARIABLE_BASE, "const": CONST_WINDOW}
        self.parameters, self.parameter_bytes = parameter_offsets(entry.params)
        """The offset of each kernel parameter in parameter space, by name, and the bytes of all."""
        self.shared_ranges: list[tuple[int, int, str]] = []
        """Named ranges of shared memory: first byte, byte past the last, name."""
        self.local_bytes = 0
        self.shared_static = 0
        self.shared_bytes = 0
        self._place_local_variables(entry, flat)
        self._place_shared_variables(module, flat, dynamic_smem)
        self.local_stride = align_up(max(self.local_bytes, 1), 16)

    def local(self, function: str, variable: Variable) -> int | None:
        """The offset of a function's local or parameter variable in each thread's memory."""
        return self._offsets.get(_key(function, variable))

    def shared(self, function: str, variable: Variable) -> int | None:
        """The offset of a shared variable of a function or of the module."""
        found = self._offsets.get(_key(function, variable))
        return self._offsets.get(_key("", variable)) if found is None else found

    def shared_name(self, offset: int) -> str | None:
        """The shared variable that holds an offset, or else the last one that starts before it."""
        before = [(name, end) for start, end, name in self.shared_ranges if start <= offset]
        inside = [name for name, end in before if offset < end]
        return short_name(inside[0] if inside else before[-1][0]) if before else None

    def shared_label(self, offset: int) -> str | None:
        """The shared variable at an offset, with the distance from its start: "full", "full+8"."""
        for start, end, name in self.shared_ranges:
            if start <= offset < end:
                return short_name(name) + (f"+{offset - start}" if offset > start else "")
        return None

    @property
    def shared_variables(self) -> dict[str, tuple[int, int]]:
        """The named parts of shared memory: name to (first byte, byte past the last)."""
        named = {name: (first, stop) for first, stop, name in reversed(self.shared_ranges)}
        return dict(sorted(named.items(), key=lambda item: item[1]))

    # --- .global and .const -------------------------------------------------------------------------------

    @property
    def variables(self) -> Iterable[PlacedVariable]:
        """The variables in .global and .const that a launch must allocate."""
        return self._placed.values()

    def address(self, variable: Variable) -> int:
        """The address of a variable in .global or .const, placed on first use. Errors: LaunchError."""
        key = _key("", variable)
        found = self._placed.get(key)
        if found is not None:
            return found.address
        if variable.space not in self._next:
            raise LaunchError(
                f"{variable.name} in .{variable.space} has no address of its own", line=variable.line
            )
        if "extern" in variable.linkage:
            raise LaunchError(
                f"{variable.name} is declared .extern, but nothing in this module defines it",
                line=variable.line,
            )
        size = size_of(variable)
        placed = self._placed[key] = PlacedVariable(variable, self._next[variable.space], size)
        self._next[variable.space] += room_for(size)
        placed.initial = initial_bytes(variable, size, self._symbol_address)
        return placed.address

    def _symbol_address(self, symbol: SymbolOffset) -> int:
        for candidate in self._module.variables:
            if candidate.name == symbol.symbol:
                if candidate.space == "shared":
                    raise LaunchError(
                        f"{symbol}: the address of shared memory is not known", line=symbol.line
                    )
                return self.address(candidate) + symbol.offset
        if any(function.name == symbol.symbol for function in self._module.functions):
            raise UnsupportedInstruction(function_address(symbol.symbol), line=symbol.line)
        raise LaunchError(f"{symbol}: no variable of that name", line=symbol.line)

    # --- names in shared memory -----------------------------------------------------------------------------

    def with_shared_names(self, names: Mapping[str, tuple[int, int]]) -> Placement:
        """The same places, with names for ranges of shared memory that reports and events use.

        names    (offset, bytes) by name, such as {"full": (98304, 24)}; a kernel of the CuTe DSL has one
                 variable for everything that it allocates.
        Errors:  LaunchError for a range that is not in shared memory.
        """
        ranges = []
        for name, place in names.items():
            try:
                offset, size = (operator.index(part) for part in place)
            except (TypeError, ValueError):
                raise LaunchError(
                    f"names={{{name!r}: {place!r}}}: give (offset, bytes) in shared memory"
                ) from None
            if not (offset >= 0 and size > 0 and offset + size <= self.shared_bytes):
                raise LaunchError(
                    f"names={{{name!r}: {place!r}}}: bytes {offset} to {offset + size} are not all in shared"
                    f" memory, which has {self.shared_bytes}"
                )
            ranges.append((offset, offset + size, name))
        named = copy(self)
        # The smallest range that holds an offset names it.
        named.shared_ranges = [*sorted(ranges, key=lambda place: place[1] - place[0]), *self.shared_ranges]
        return named

    # --- placing ------------------------------------------------------------------------------------------

    def _place(self, function: str, variable: Variable, end: int) -> Iterator[tuple[int, int, Variable]]:
        """Place the variables of a declaration from `end` on: first byte, byte past the last, variable."""
        for member in _members(variable):
            start = align_up(end, alignment_of(member))
            end = start + size_of(member)
            self._offsets[_key(function, member)] = start
            yield start, end, member

    def _place_local_variables(self, entry: Function, flat: Mapping[str, FlatFunction]) -> None:
        for name, function in flat.items():
            formal: tuple[Variable, ...] = ()
            if function.function is not entry:
                formal = (*function.function.returns, *function.function.params)
            for variable in (*formal, *function.variables):
                if variable.space not in {"local", "param"}:
                    continue
                for _, end, member in self._place(name, variable, self.local_bytes):
                    self.local_bytes = end
                    if self.local_bytes > _MAX_LOCAL_BYTES:
                        raise LaunchError(
                            f"variable {member.name} takes a thread's local memory past"
                            f" {_MAX_LOCAL_BYTES >> 10} KiB",
                            kernel=entry.name,
                            line=member.line,
                        )

    def _place_shared_variables(
        self, module: Module, flat: Mapping[str, FlatFunction], dynamic_smem: int
    ) -> None:
        used = _used_names(flat.values())
        shared = [("", v) for v in module.variables if v.space == "shared" and _is_used(v, used)]
        for name, function in flat.items():
            shared += [(name, v) for v in function.variables if v.space == "shared"]
        for name, variable in shared:
            if "extern" in variable.linkage:
                continue
            for start, end, member in self._place(name, variable, self.shared_bytes):
                self.shared_ranges.append((start, end, member.name))
                self.shared_bytes = end
        self.shared_static = self.shared_bytes
        dynamic = [(name, v) for name, v in shared if "extern" in v.linkage]
        self.has_dynamic = bool(dynamic)
        if dynamic or dynamic_smem:
            # LLVM folds masks that assume the alignment that the CuTe DSL declares: 1024.
            start = align_up(self.shared_static, _DYNAMIC_ALIGNMENT)
            for name, variable in dynamic:
                self._offsets[_key(name, variable)] = start
            self.shared_bytes = start + dynamic_smem
            shown = dynamic[0][1].name if dynamic else "dynamic shared memory"
            self.shared_ranges.append((start, self.shared_bytes, shown))


def _key(function: str, variable: Variable) -> Key:
    return (function, variable.name, variable.line, variable.column)


def _members(variable: Variable) -> list[Variable]:
    """The variables that `x<4>` declares, or the one variable."""
    if variable.count is None:
        return [variable]
    if variable.count > _MAX_MEMBERS:
        raise LaunchError(f"{variable.name}<{variable.count}>: too many variables", line=variable.line)
    return [variable.member(number) for number in range(variable.count)]


def _used_names(functions: Iterable[FlatFunction]) -> set[str]:
    """Every name that an instruction mentions."""
    return {
        name.text
        for function in functions
        for instruction in function.instructions
        for operand in instruction.operands
        for name in names(operand)
    }


def _is_used(variable: Variable, used: set[str]) -> bool:
    if variable.count is None:
        return variable.name in used
    return any(name.startswith(variable.name) for name in used)
