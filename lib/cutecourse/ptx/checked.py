"""A module that is ready to use: parsed, checked, and each of its functions a list of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutecourse.ptx.scopes import FlatFunction
from cutecourse.ptx.syntax import Instruction, Module, Name

__all__ = ["CheckedModule"]


@dataclass(frozen=True, slots=True, eq=False)
class CheckedModule:
    """A module in which every name is declared. Each one is equal to itself only, so that it can be a key."""

    module: Module
    functions: Mapping[str, FlatFunction]
    """All functions that have a body, by name."""

    def calls(self, function: str) -> list[tuple[str, Instruction]]:
        """The calls of functions with a body in a function: each name, and the instruction that calls it."""
        return [
            (operand.text, instruction)
            for instruction in self.functions[function].instructions
            if instruction.opcode == "call"
            for operand in instruction.operands
            if isinstance(operand, Name) and operand.text in self.functions
        ]

    def reached(self, entry: str) -> dict[str, FlatFunction]:
        """A kernel and every function that it may call, by name."""
        found: dict[str, FlatFunction] = {}
        todo = [entry]
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = self.functions[name]
                todo += [called for called, _ in self.calls(name)]
        return found
