"""Print, as JSON, what the CuTe DSL's IR says of the launch of each kernel named on the command line.

Run in a process of its own: the DSL keeps its IR only if the environment asked for it before the import.
"""

import json
import math
import re
import sys

from cutecourse.kernels.chapters import kernel_module
from cutecourse.kernels.spec import LaunchSpec
from cutecourse.runtime.compile_cutedsl import compile_host

BYTES = {"i8": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4}


def facts(ir):
    kernel = re.search(r"cuda\.kernel @\S+?\((.*?)\) attributes \{(.*)", ir)
    exact = {
        what: [
            int(n) for n in re.search(rf"exact_{what}_dim = array<i64: ([\d, ]+)>", kernel[2])[1].split(",")
        ]
        for what in ("grid", "block", "cluster")
        if f"exact_{what}_dim" in kernel[2]
    }
    aliases = dict(re.findall(r"^(!\w+) = (.*)$", ir, re.MULTILINE))
    parameters = [aliases.get(kind, kind) for kind in re.findall(r"%arg\d+: (\S+?)(?:,|$)", kernel[1])]
    passed = re.search(r"cuda\.launch_ex .*?>\s*\((.*?)\)", ir)[1].replace(" ", "").split(",")
    return {
        **exact,
        "parameters": parameters,
        "passed": passed,
        "smem": smem_bytes(ir, aliases),
    }


def smem_bytes(ir, aliases):
    """The bytes of the shared-memory tensors, each at the next address that its alignment allows."""
    end = 0
    for kind in re.findall(r"cute\.memref\.alloca\(\).*?: (!\w+)", ir):
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
        for attribute, spec in vars(kernel_module(name)).items():
            if isinstance(spec, LaunchSpec):
                ir = compile_host(spec, spec.target).__mlir__
                found[f"{name}.{attribute}"] = facts(ir)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
