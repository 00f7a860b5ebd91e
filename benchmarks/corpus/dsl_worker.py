"""Compiles kernels of the CuTe DSL for a GPU that this machine does not have.

It runs in an environment that has the DSL and the packages, reads one request per line, and answers each with
one line. The environment variable CUTE_DSL_ARCH names the architecture. Nothing here imports `cutecourse` or
another module of this repository.

A request names a module, a function there that compiles with tensors of no memory, and its arguments; an
argument {"type": "Float16"} is that type of the DSL.
"""

import importlib
import json
import sys


def value(argument):
    """An argument: itself, or a type of the DSL."""
    if isinstance(argument, dict) and set(argument) == {"type"}:
        return getattr(importlib.import_module("cutlass"), argument["type"])
    return argument


def answer(request):
    """The PTX text. Its launch is declared by the entry."""
    found = importlib.import_module(request["module"])
    for part in request["function"].split("."):
        found = getattr(found, part)
    compiled = found(*(value(one) for one in request["arguments"]))
    return {"ptx": compiled.__ptx__}


for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Exception as error:
        said = {"problem": f"{type(error).__name__}: {error}"[-2000:]}
    print("ANSWER " + json.dumps(said), flush=True)
