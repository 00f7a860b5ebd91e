"""PTX as text: tokens, a frozen syntax tree, the parser and checks of names.

Public names: `read_module`, or its two steps `parse` and `check`; the tree's nodes; and the errors.
"""

from __future__ import annotations

from cutecourse.ptx.checked import CheckedModule
from cutecourse.ptx.checks import check, read_module
from cutecourse.ptx.errors import PtxError, PtxLimitError, PtxNameError, PtxSyntaxError
from cutecourse.ptx.parser import parse
from cutecourse.ptx.syntax import Function, Instruction, Module, Variable

__all__ = [
    "CheckedModule",
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
    "read_module",
]
