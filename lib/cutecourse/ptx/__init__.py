"""PTX as text: tokens, a frozen syntax tree, the parser and checks of names.

Public names: `parse`, `check`, the tree's nodes, and the errors.
"""

from __future__ import annotations

from cutecourse.ptx.checks import check
from cutecourse.ptx.errors import PtxError, PtxLimitError, PtxNameError, PtxSyntaxError
from cutecourse.ptx.parser import parse
from cutecourse.ptx.syntax import Function, Instruction, Module, Variable

__all__ = [
    "Function",
    "Instruction",
    "Module",
    "PtxError",
    "PtxLimitError",
    "PtxNameError",
    "PtxSyntaxError",
    "Variable",
    "check",
    "parse",
]
