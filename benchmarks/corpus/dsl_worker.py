"""Compiles kernels of the CuTe DSL for a GPU that this machine does not have.

It runs in an environment that has the DSL and the packages, reads one request per line, and answers each with
one line. The environment variable CUTE_DSL_ARCH names the architecture. Nothing here imports `cutecourse` or
another module of this repository.

A request names a module and a function there that compiles with tensors of no memory, or, with `compile`, a
function of the DSL that is compiled here. `arguments` are the function's: {"type": "Float16"} is that type of
the DSL, {"tensor": "Float16", "shape": [8, 4]} a compact tensor of that shape, whose first mode has the
largest stride unless `order` says otherwise, and a list a tuple. `keywords` are more of them, by name. With
`make`, the function is a class, and an instance with those arguments is compiled. With `cache`, the function
takes tensors of PyTorch, {"torch": "float16", "shape": [8, 4]}, which have no memory either. It keeps
what it compiles in the dictionary that `cache` names in the module.
"""

import importlib
import json
import sys
from operator import attrgetter
from pathlib import Path


def value(argument):
    """An argument: itself, a type of the DSL, or a tensor."""
    if not isinstance(argument, dict):
        return tuple(argument) if isinstance(argument, list) else argument
    if "torch" in argument:
        torch = importlib.import_module("torch")
        return torch.empty(argument["shape"], dtype=getattr(torch, argument["torch"]), device="cuda")
    cutlass, runtime = importlib.import_module("cutlass"), importlib.import_module("cutlass.cute.runtime")
    kind = getattr(cutlass, argument.get("type") or argument["tensor"])
    if "type" in argument:
        return kind
    shape, order = argument["shape"], argument.get("order", [*range(len(argument["shape"]))][::-1])
    return runtime.make_fake_compact_tensor(kind, tuple(shape), stride_order=tuple(order), assumed_align=16)


def call(function, request, *first):
    """The function's result for the request's arguments."""
    keywords = {name: value(one) for name, one in request.get("keywords", {}).items()}
    return function(*first, *(value(one) for one in request["arguments"]), **keywords)


def answer(request):
    """The PTX text. Its launch is declared by the entry."""
    folder = str(Path(request["folder"], request.get("path", "")))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.import_module(request["module"])
    found = attrgetter(request["function"])(module)
    if "make" in request:
        found = found(*(value(one) for one in request["make"]))
    if "cache" in request:
        kept = attrgetter(request["cache"])(module)
        kept.clear()
        with importlib.import_module("torch._subclasses.fake_tensor").FakeTensorMode():
            call(found, request)
        (compiled,) = kept.values()
    elif request.get("compile"):
        compiled = call(importlib.import_module("cutlass.cute").compile, request, found)
    else:
        compiled = call(found, request)
    return {"ptx": compiled.__ptx__}


for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises is its answer
        said = {"problem": f"{type(error).__name__}: {error}"[-2000:]}
    print("ANSWER " + json.dumps(said), flush=True)
