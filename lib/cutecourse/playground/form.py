"""The form for a kernel's launch: what the text says about it, and a guess where it says nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cutecourse.analysis import explain
from cutecourse.dtypes import DTYPES
from cutecourse.ptx import PtxError, read_module
from cutecourse.ptx.demangle import short_name
from cutecourse.ptx.scopes import type_bits

__all__ = ["KINDS", "LIMIT", "read"]

KINDS = {
    "array": ("dtype", "shape", "fill", "values", "seed", "same_as"),
    "number": ("value",),
    "map": ("dtype", "shape", "fill", "values", "seed", "same_as", "box", "swizzle", "outside"),
    "maps": ("dtype", "shape", "fill", "values", "seed", "same_as", "box", "swizzle", "outside"),
    "bytes": ("value",),
}
"""The kinds of an argument, and the fields that each has."""
LIMIT = 200_000
"""Instructions that a launch in a browser may issue, unless the reader allows more."""

_THREADS = 32
_SHARED_BYTES = {True: 226 << 10, False: 98 << 10}
"""Dynamic and static shared memory of a guess, for targets from sm_90 on and for others."""
_ELEMENTS = 1024


def read(text: str, entry: str | None = None) -> dict[str, Any]:
    """Read a text's kernels, and fill in a launch of one of them; nothing runs.

    entry   the kernel that the form is for; the first one by default, or if the text has none of that name.

    Returns `kernels`, the names; `shown`, for each one a short name; `entry`; `about`, one line; `launch`,
    with "grid", "block", "cluster" and "dynamic_smem" as texts; `parameters`, each with `name`, `declared`,
    `kinds` (those that it can be given as) and `argument`; `sources`, which says for each field where its
    value comes from; and `refused`: the instructions that the emulator does not know, with line and problem.
    Instead of all that, `error` has `message` and `line` for a text that is no PTX or has no kernel.
    """
    try:
        module = read_module(text).module
    except PtxError as error:
        return {"error": {"message": str(error), "line": error.line}}
    kernels = [name for name, function in module.entries.items() if function.body is not None]
    if not kernels:
        return {"error": {"message": "The text has no kernel: it has no .entry with a body.", "line": None}}
    chosen = entry if entry in kernels else kernels[0]
    found = explain(text, chosen)
    launch, sources = _launch(found)
    parameters = []
    for place, about in enumerate(found["parameters"]):
        parameter, why = _parameter(about, text)
        parameters.append(parameter)
        sources[f"arguments.{place}"] = why
    return {
        "kernels": kernels,
        "shown": {name: short_name(name) for name in kernels},
        "entry": chosen,
        "about": f"PTX {found['ptx_version']} for {', '.join(found['target'])}, "
        f"{found['instructions']} instructions",
        "launch": launch,
        "parameters": parameters,
        "sources": sources,
        "refused": found["refused"],
    }


def _launch(found: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    directives, needs = found["directives"], found["needs"]
    sources = {"grid": "a guess"}
    cluster = directives.get("reqnctapercluster")
    if cluster is not None:
        sources |= {"cluster": "from .reqnctapercluster", "grid": "one cluster"}
    elif needs["pairs_of_ctas"]:
        cluster = [2]
        sources |= {"cluster": "the text uses pairs of CTAs", "grid": "one cluster"}
    elif needs["cluster_instructions"]:
        cluster = [2]
        sources |= {"cluster": "a guess: the text uses cluster instructions", "grid": "one cluster"}
    for name in ("reqntid", "maxntid"):
        if name in directives:
            block = directives[name]
            sources["block"] = f"from .{name}"
            break
    else:
        block = [_THREADS]
        sources["block"] = "a guess"
    dynamic = 0
    if needs["dynamic_shared_memory"]:
        digits = "".join(letter for letter in found["target"][0] if letter.isdecimal())
        static = found["memory"].get("shared_static_bytes", 0)
        dynamic = max(0, _SHARED_BYTES[int(digits or 0) >= 90] - static)
        sources["dynamic_smem"] = "a guess: the text does not say how many bytes"
    extents = _words(cluster or [1])
    return {
        "grid": extents,
        "block": _words(block),
        "cluster": extents,
        "dynamic_smem": str(dynamic),
    }, sources


def _words(extents: Any) -> str:
    """Extents as the form has them, without ones at the end."""
    kept = [int(extent) for extent in extents]
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return ",".join(map(str, kept))


def _parameter(about: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    """A parameter's row of the form, and where its values are from."""
    role, unread = str(about["role"]).removesuffix(", never read"), str(about["role"]).endswith("never read")
    declared = about["declared"].split(".")[-1].partition("[")[0]
    array = {"kind": "array", "dtype": "f32", "shape": str(_ELEMENTS), "fill": "random", "seed": "0"}
    is_large = about["bytes"] > 1 and not declared.startswith("f")
    number = {"kind": "number", "value": str(_ELEMENTS) if is_large else "1"}
    if role == "tensor map":
        kinds, argument = ["map", "bytes"], {**array, **_tile(text), "dtype": _sixteen_bits(text)}
        why = "a tensor map, judging by its size and alignment; its fields are guesses"
    elif role == "pointer to a tensor map":
        kinds = ["map", "maps", "array", "bytes" if "[" in about["declared"] else "number"]
        argument = {**array, **_tile(text), "dtype": _sixteen_bits(text)}
        why = "a tensor copy uses it as the address of its tensor map; the map's fields are guesses"
    elif role == "pointer":
        dtype, fill, why = _uses(about, text)
        # A compiler may declare a pointer as 8 bytes.
        kinds = ["array", "bytes" if "[" in about["declared"] else "number"]
        argument = {**array, "dtype": dtype, "fill": fill}
    elif role == "struct with a tensor map":
        kinds, argument = ["bytes"], {"kind": "bytes", "value": about["template"]}
        why = "a struct that begins with a tensor map, judging by the tensor copies; all fields are guesses"
    elif role == "struct":
        kinds, argument = ["bytes"], {"kind": "bytes", "value": "00" * about["bytes"]}
        why = f"{about['bytes']} bytes, probably a struct"
    else:
        kinds, argument, why = ["number"], number, "a guess"
        if about["bytes"] == 8 and not declared.startswith("f"):
            kinds = ["number", "array"]
            why = "a guess; the kernel computes no address from it"
    if unread:
        why = "the kernel never reads it"
    return {"name": about["name"], "declared": about["declared"], "kinds": kinds, "argument": argument}, why


def _tile(text: str) -> dict[str, str]:
    """A tensor map of one tile, with as many dimensions as the text's tensor copies have."""
    ranks = set(re.findall(r"\.tensor\.([1-5])d\b", text))
    rank = int(ranks.pop()) if len(ranks) == 1 else 2
    box = (["64", "64"] + ["1"] * 3)[:rank]
    shape = "x".join(reversed(box))
    return {"kind": "map", "shape": shape, "box": ",".join(box), "swizzle": "none", "outside": "zeros"}


def _sixteen_bits(text: str) -> str:
    return "bf16" if ".bf16" in text else "f16"


def _uses(about: Mapping[str, Any], text: str) -> tuple[str, str, str]:
    """Element type and filling of an array, from the instructions that use it, and why."""
    accesses, reads, writes = about["accesses"], about["reads"], about["writes"]
    types: dict[str, None] = {}
    for name in accesses:
        types |= {part: None for part in name.split(".")[1:] if part in DTYPES and type_bits(part)}
    known = [name for name in types if name in DTYPES and DTYPES[name].kind != "bits"]
    bits = max((DTYPES[name].bits for name in types), default=0)
    if known:
        dtype = known[0]
    elif bits == 16:
        dtype = _sixteen_bits(text)
    else:
        dtype = {8: "u8", 64: "u64"}.get(bits, "f32" if ".f32" in text else "u32")
    how = "read and written" if reads and writes else "written" if writes else "read"
    fill = "zeros" if writes and not reads else "random"
    if not accesses:
        return dtype, fill, "a pointer; type, shape and contents are guesses"
    told = f"{how} by {', '.join(accesses[:2])}{', ...' if len(accesses) > 2 else ''}"
    return dtype, fill, f"{told}; the shape is a guess" if known else f"{told}; type and shape are guesses"
