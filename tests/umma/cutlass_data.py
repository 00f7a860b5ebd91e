"""What CUTLASS's headers said (`cpp/cutlass.json`), read back into the library's values."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from umma.cpp import regenerate

from cutecourse.layout import ComposedLayout, Layout, Swizzle
from cutecourse.tma import cpp_str, static

Case = dict[str, Any]

DATA = json.loads(regenerate.PROGRAM.data.read_text())
CASES: dict[str, Case] = {case["case"]: case for case in DATA["cases"]}


def names(kind: str, *, refused: bool = False) -> list[str]:
    return [
        name
        for name, case in CASES.items()
        if case["kind"] == kind and ("refused" in case["expect"]) == refused
    ]


def smem_layout(text: str) -> Layout | ComposedLayout:
    """`Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)` without its pointer."""
    swizzled = re.fullmatch(r"Sw<(\d+),(\d+),(\d+)> o (?:_0|smem_ptr\[\d+b\]\(\w+\)) o (.*)", text)
    if not swizzled:
        return static(Layout.parse(text))
    *parameters, outer = swizzled.groups()
    return ComposedLayout(Swizzle(*map(int, parameters)), 0, static(Layout.parse(outer)))


def without_pointer(text: str) -> str:
    """A print of C++ without the pointer that a swizzled layout has, and without marks of static numbers."""
    return plain(re.sub(r"smem_ptr\[\d+b\]\(\w+\)", "_0", text))


def plain(text: Any) -> str:
    """A print of C++ without the marks of static numbers: `_8` as `8`."""
    return re.sub(r"_(\d)", r"\1", str(text))


def cpp(value: Any) -> str:
    """A value of ours as C++ prints it, without the marks."""
    return plain(cpp_str(value))


def nested(text: str) -> Any:
    """`((128,16),1,4)` as a tuple."""
    return ast.literal_eval(re.sub(r"[^\d(),]", "", text))
