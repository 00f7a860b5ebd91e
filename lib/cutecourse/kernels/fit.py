"""Compares a launch specification with the kernel's text: a file's constants, the header of PTX."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from cutecourse.kernels.files import KernelFile, SpecError, kernel_text

__all__ = ["check_constants", "check_ptx"]

Extents = tuple[int, int, int]

_DECIDE = {"CLUSTER", "MNK", "STAGES", "THREADS", "TILE"}
"""The constants by which the kernels are launched. A kernel's own module may read others."""
_READ = re.compile(r'FILE\.constant\("(\w+)"\)')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?([^{]*)\{")
_TYPE = re.compile(r"\.[busf](8|16|32|64|128)\b")
_COUNT = re.compile(r"\[\s*(\d+)\s*\]")


def check_constants(name: str, module: str | None, made_for: KernelFile, text: KernelFile) -> None:
    """Errors: SpecError where a constant that decides the launch is another one in the text."""
    names = _DECIDE | set(_READ.findall(kernel_text(module, "__init__.py")) if module else ())
    for constant in sorted(names):
        before, now = (_constant(file, constant) for file in (made_for, text))
        if before != now:
            raise SpecError(
                f"{name}: the text has {now or f'no {constant}'}, and the launch is for "
                f"{before or 'a text without it'}. Leave the constant as it was, or give the fields of the "
                f"launch that follow from it as well (grid=..., params=...)."
            )


def _constant(file: KernelFile, name: str) -> str | None:
    """The constant and its value, or None for a file without it."""
    try:
        return f"{name} = {file.constant(name)!r}"
    except AttributeError:
        return None


def check_ptx(
    name: str, ptx: str, entry: str | None, block: Extents, cluster: Extents, sizes: Sequence[int]
) -> None:
    """Compare the header of the kernel in a PTX text with its specification.

    `sizes` are the parameters' bytes; a specification without parameters leaves them to its caller. A text
    without this kernel is compared with nothing.
    Errors: SpecError for what contradicts.
    """
    found = [one for one in _ENTRY.findall(_COMMENT.sub(" ", ptx)) if entry in {None, one[0]}]
    if len(found) != 1:
        return
    [(kernel, parameters, directives)] = found
    for directive, field, given, fits in (
        ("reqntid", "block", block, lambda said: said == block),
        ("maxntid", "block", block, lambda said: math.prod(said) >= math.prod(block)),
        ("reqnctapercluster", "cluster", cluster, lambda said: said == cluster),
    ):
        numbers = re.search(rf"\.{directive}\s+([\d,\s]+)", directives)
        if numbers is None:
            continue
        said = (*(int(number) for number in re.findall(r"\d+", numbers[1])), 1, 1)[:3]
        if not fits(said):
            words = ", ".join(map(str, said))
            raise SpecError(
                f"{name}: the PTX says .{directive} {words}, and the specification {field} {given}. "
                f"Change one of them."
            )
    if ".explicitcluster" in directives and cluster == (1, 1, 1):
        raise SpecError(
            f"{name}: the PTX says .explicitcluster, and the specification cluster {cluster}. "
            f"Give the cluster."
        )
    has = [_bytes(parameter) for parameter in parameters.split(",") if parameter.strip()]
    if sizes and None not in has and has != [*sizes]:
        raise SpecError(
            f"{name}: the PTX's {kernel} has {_listed(has, 'parameters')}, and the specification "
            f"{_listed(sizes)}. The specification names the parameters in the kernel's order."
        )


def _bytes(parameter: str) -> int | None:
    """The bytes of a parameter's declaration; None for a type that is not known here."""
    element, count = _TYPE.search(parameter), _COUNT.search(parameter)
    if element is None:
        return None
    return int(element[1]) // 8 * (int(count[1]) if count else 1)


def _listed(sizes: Sequence[int | None], what: str = "") -> str:
    count = f"{len(sizes)} {what}".strip()
    return f"{count}, of {', '.join(map(str, sizes))} bytes" if sizes else count
