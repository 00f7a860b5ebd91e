"""Compiles Triton kernels for a GPU that this machine does not have.

It runs in an environment that has Triton, reads one request per line, and answers each with one line. Nothing
here imports `cutecourse` or another module of this repository.

A request names a folder, a module there and a function. A parameter that it does not name is None.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from pathlib import Path


class Parts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the statements of a package's modules that run here, and kernels without their tuners."""

    def __init__(self, folder, package):
        self.folder, self.package = folder, package

    def find_spec(self, name, path, target=None):
        """Modules of the package; its folders are packages whose __init__ is not run."""
        if name.split(".")[0] != self.package:
            return None
        place = Path(self.folder, *name.split("."))
        if place.is_dir():
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        file = place.with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file, loader=self) if file.exists() else None

    def exec_module(self, module):
        """Run the statements one by one, and leave out what fails."""
        if hasattr(module, "__path__"):
            return
        for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
            statements = [node]
            if isinstance(node, ast.ImportFrom):
                each = [ast.ImportFrom(node.module, [one], node.level) for one in node.names]
                statements = [ast.copy_location(one, node) for one in each]
            elif isinstance(node, ast.FunctionDef):
                node.decorator_list = [
                    one for one in node.decorator_list if ast.unparse(one).startswith("triton.jit")
                ]
            for statement in statements:
                with contextlib.suppress(Exception):
                    exec(compile(ast.Module([statement], []), module.__file__, "exec"), module.__dict__)


def imported(module, folder):
    """A module of a package; of one that asks for a GPU when it is imported, the parts that don't."""
    try:
        return importlib.import_module(module)
    except Exception:  # noqa: BLE001 - whatever it raises, its kernels may still be read
        package = module.split(".")[0]
        for name in [one for one in sys.modules if one.split(".")[0] == package]:
            del sys.modules[name]
        sys.meta_path.insert(0, Parts(folder, package))
        return importlib.import_module(module)


def function(folder, module, name):
    """The kernel, without the tuner or the heuristics around it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = getattr(imported(module, folder), name)
    while not hasattr(found, "arg_names") or hasattr(found, "configs") or hasattr(found, "values"):
        found = found.fn
    return found


def answer(request):
    """The PTX text and how it is launched."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = function(request["folder"], request["module"], request["function"])
    constants = dict(request["constants"])
    unknown = (set(constants) | set(request["signature"])) - set(kernel.arg_names)
    if unknown:
        raise TypeError(f"the kernel has no {sorted(unknown)}; it has {kernel.arg_names}")
    for name in kernel.arg_names:
        if name not in request["signature"]:
            constants.setdefault(name, None)
    signature = {name: request["signature"].get(name, "constexpr") for name in kernel.arg_names}
    places = {name: place for place, name in enumerate(kernel.arg_names)}
    for name, value in constants.items():
        if isinstance(value, dict):
            constants[name] = getattr(__import__("triton.language", fromlist=["x"]), value["type"])
    attributes = {(places[name],): [["tt.divisibility", 16]] for name in request["divisible"]}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    options = request["options"]
    compiled = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=options)
    metadata = compiled.metadata
    return {
        "ptx": compiled.asm["ptx"],
        "order": [name for name in kernel.arg_names if signature[name] != "constexpr"],
        "entry": metadata.name,
        "smem_bytes": metadata.shared,
        "cluster": metadata.num_ctas,
        "scratch_bytes": metadata.global_scratch_size,
    }


for line in sys.stdin:
    try:
        said = answer(json.loads(line))
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises is its answer
        said = {"problem": f"{type(error).__name__}: {error}"[-2000:]}
    print("ANSWER " + json.dumps(said), flush=True)
