"""Print, as JSON, what the CuTe DSL's IR says of the launch of each kernel named on the command line.

Run in a process of its own: the DSL keeps its IR, and stops once it has it, only if the environment asked for
that before the import.
"""

import json
import math
import os
import re
import sys
from pathlib import Path

from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.runtime.compile_cutedsl import compile_host

BYTES = {"i8": 1, "f8E4M3FN": 1, "f8E8M0FNU": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4}


def ir_of(spec):
    """The IR of the host function and its kernel: the only file that a dry run leaves behind."""
    compile_host(spec, spec.target)
    (file,) = Path(os.environ["CUTE_DSL_DUMP_DIR"]).glob("*.mlir")
    text = file.read_text()
    file.unlink()
    return text


def facts(ir):
    kernel = re.search(r"cuda\.kernel @\w+\((.*)\) attributes \{(.*)", ir)
    exact = {
        what: [
            int(n) for n in re.search(rf"exact_{what}_dim = array<i64: ([\d, ]+)>", kernel[2])[1].split(",")
        ]
        for what in ("grid", "block", "cluster")
        if f"exact_{what}_dim" in kernel[2]
    }
    aliases = dict(re.findall(r"^(!\w+) = (.*)$", ir, re.MULTILINE))
    kinds = [kind.partition(": ")[2] for kind in split(kernel[1])]
    passed = split(re.search(r"cuda\.launch_ex [^<]*<%\w+> ?\((.*?)\)", ir)[1])
    atoms = tma_atoms(ir)
    parameters = []
    for kind, value in zip(kinds, passed, strict=True):
        kind = aliases.get(kind, kind)
        if not is_static(kind):
            parameters.append({"type": kind, **atoms.get(value, {"of": value})})
    return {
        **exact,
        "programmatic": bool(re.search(r"programmatic_stream_serialization_allowed\[\S+\] %c1_i32", ir)),
        "host": split(re.search(r"func\.func @\w+\((.*?)\) ->", ir)[1]),
        "parameters": parameters,
        "smem": smem_bytes(ir, aliases),
    }


def split(text):
    """The parts between the commas that stand in no brackets and no quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for index, character in enumerate(text):
        quoted ^= character == '"'
        depth += (character in "<({[") - (character in ">)}]") if not quoted else 0
        if character == "," and not depth and not quoted:
            parts.append(text[begin:index].strip())
            begin = index + 1
    return [*parts, text[begin:].strip()] if text.strip() else []


def is_static(kind):
    """Whether the compiler knows all of a parameter of this type, so that nothing is passed for it."""
    return (
        kind.startswith(("!cute.coord_tensor", "!cute.layout", "!cute.composed_layout")) and "?" not in kind
    )


def tma_atoms(ir):
    """Each TMA atom by its name: what the host made it of, the multicast, the modes of its tensor map."""
    pattern = (
        r"(%\w+), %\w+ = cute_nvgpu\.atom\.make_non_exec_tiled_tma_(\w+)\((%\w+), [^)]*\)(?: <\{(.*?)\}>)? : "
        r'\(\S+, !cute\.\w+<"(.*?)">.*?tma_gbasis = <"(.*?)">'
    )
    return {
        name: {
            "of": tensor,
            "operation": operation,
            "num_multicast": int(found[1]) if (found := re.search(r"num_multicast = (\d+)", fields)) else 1,
            "smem_layout": layout,
            "gbasis": gbasis,
        }
        for name, operation, tensor, fields, layout, gbasis in re.findall(pattern, ir)
    }


def smem_bytes(ir, aliases):
    """The bytes of the shared-memory tensors, each at the next address that its alignment allows.

    Those of the reserved partition, number 0, stand before the others.
    """
    end = 0
    found = re.findall(r"cute\.memref\.alloca\(\).*?partition_id = (\d+).*?: (!\w+)$", ir, re.MULTILINE)
    for _, kind in sorted(found, key=lambda one: int(one[0])):
        match = re.fullmatch(r'!cute\.memref<(\w+), smem, align<(\d+)>, "(\d+):1">', aliases[kind])
        if match is None:
            continue
        size = BYTES[match[1]] * int(match[3])
        align = int(match[2])
        end = math.ceil(end / align) * align + size
    return end


def main():
    found = {}
    for name in sys.argv[1:]:
        for attribute, spec in list(vars(kernel_module(name)).items()):
            if isinstance(spec, LaunchSpec):
                found[f"{name}.{attribute}"] = facts(ir_of(spec))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
