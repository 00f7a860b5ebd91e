"""Compiles kernels of the CuTe DSL for a GPU that this machine does not have.

It runs in an environment that has the DSL and the packages, reads one request per line, and answers each with
one line. The environment variable CUTE_DSL_ARCH names the architecture. Nothing here imports `cutecourse` or
another module of this repository.

A request names a module and a function there that compiles with tensors of no memory, or, with `compile`, a
function of the DSL that is compiled here. `arguments` are the function's: {"type": "Float16"} is that type of
the DSL, {"tensor": "Float16", "shape": [8, 4]} a compact tensor of that shape, whose first mode has the
largest stride unless `order` says otherwise, and a list a tuple. With `make`, the function is a class, and an
instance with those arguments is compiled.
"""

import importlib
import json
import sys
from pathlib import Path


def value(argument):
    """An argument: itself, a type of the DSL, or a tensor."""
    if not isinstance(argument, dict):
        return tuple(argument) if isinstance(argument, list) else argument
    cutlass, runtime = importlib.import_module("cutlass"), importlib.import_module("cutlass.cute.runtime")
    kind = getattr(cutlass, argument.get("type") or argument["tensor"])
    if "type" in argument:
        return kind
    shape, order = argument["shape"], argument.get("order", [*range(len(argument["shape"]))][::-1])
    return runtime.make_fake_compact_tensor(kind, tuple(shape), stride_order=tuple(order), assumed_align=16)


def answer(request):
    """The PTX text. Its launch is declared by the entry."""
    folder = str(Path(request["folder"], request.get("path", "")))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = importlib.import_module(request["module"])
    for part in request["function"].split("."):
        found = getattr(found, part)
    if "make" in request:
        found = found(*(value(one) for one in request["make"]))
    arguments = [value(one) for one in request["arguments"]]
    if request.get("compile"):
        compiled = importlib.import_module("cutlass.cute").compile(found, *arguments)
    else:
        compiled = found(*arguments)
    return {"ptx": compiled.__ptx__}


for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises is its answer
        said = {"problem": f"{type(error).__name__}: {error}"[-2000:]}
    print("ANSWER " + json.dumps(said), flush=True)
