"""Each CuTe DSL specification against what the compiler's IR says of the host function's launch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec, Tensor, TensorMapSpec
from cutecourse.layout import parse
from cutecourse.runtime import compile as compile_kernel

NAMES = [
    name
    for chapter in CHAPTERS
    for name in chapter.kernels
    if kernel_module(name).LAUNCH.language == "cutedsl"
]
SPECS = {
    f"{name}.{attribute}": spec
    for name in NAMES
    for attribute, spec in vars(kernel_module(name)).items()
    if isinstance(spec, LaunchSpec)
}
ELEMENTS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "s32": "i32", "u8": "i8", "e4m3": "f8E4M3FN"}


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ir")
    dsl = {"CUTE_DSL_KEEP": "ir", "CUTE_DSL_DUMP_DIR": str(folder), "CUTE_DSL_DRYRUN": "1"}
    script = Path(__file__).with_name("launch_facts.py")
    done = subprocess.run(
        [sys.executable, script, *NAMES],
        env={**os.environ, **dsl},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(nested):
    return f"({','.join(text(item) for item in nested)})" if isinstance(nested, tuple) else str(nested)


def test_facts__were_found_for_every_specification(facts):
    assert set(facts) == set(SPECS)
    assert len(SPECS) >= 15


def has_constant(spec, name):
    try:
        spec.kernel.file.constant(name)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("name", SPECS)
def test_specification__is_what_the_host_function_launches(facts, name):
    spec, fact = SPECS[name], facts[name]
    if has_constant(spec, "SMS"):
        # A persistent kernel: its host function launches a CTA for each SM, the specification may say fewer.
        assert fact["grid"][0] >= spec.grid[0]
        assert tuple(fact["grid"][1:]) == spec.grid[1:] == (1, 1)
    else:
        assert tuple(fact["grid"]) == spec.grid
    assert tuple(fact["block"]) == spec.block
    assert tuple(fact.get("cluster", (1, 1, 1))) == spec.cluster
    assert fact["smem"] == spec.dynamic_smem
    assert fact["programmatic"] == spec.programmatic


@pytest.mark.parametrize("name", SPECS)
def test_specification__has_the_host_functions_arguments_in_order(facts, name):
    spec, fact = SPECS[name], facts[name]
    assert len(fact["host"]) == len(spec.arguments)


@pytest.mark.parametrize("name", SPECS)
def test_specification__has_the_kernels_parameters_in_order(facts, name):
    spec, fact = SPECS[name], facts[name]
    arguments = {argument: f"%arg{index}" for index, argument in enumerate(spec.arguments)}
    assert [param["of"] for param in fact["parameters"]] == [arguments[p.argument] for p in spec.params]
    for param, found in zip(spec.params, fact["parameters"], strict=True):
        if isinstance(param, TensorMapSpec):
            assert found["type"].startswith("!cute_nvgpu.atom.non_exec_tiled_tma_")
            if param.fixed is None:  # a map whose fields are given has no layouts to compare
                assert found["num_multicast"] == param.num_multicast
                assert parse(found["smem_layout"]) == param.smem_layout
                assert parse(found["gbasis"]) == param.trace.tma_gbasis
        elif isinstance(param, Tensor):
            assert found["type"] == memref(param)
        else:
            assert found["type"] == ELEMENTS[param.dtype.name]


@pytest.mark.parametrize("name", SPECS)
def test_specification__has_the_parameters_of_the_ptx(name):
    """The number of parameters, their order by size, and where a tensor map may lie."""
    spec = SPECS[name]
    entry = re.search(r"\.entry \w+\((.*?)\)", compile_kernel(spec).ptx, re.DOTALL)
    found = re.findall(r"\.param (?:\.align (\d+) )?\.(\w+) \w+(?:\[(\d+)\])?", entry[1])
    assert [size(kind, count) for _, kind, count in found] == [
        128 if isinstance(p, TensorMapSpec) else 8 if isinstance(p, Tensor) else p.dtype.bits // 8
        for p in spec.params
    ]
    for param, (align, _, _) in zip(spec.params, found, strict=True):
        if isinstance(param, TensorMapSpec):
            assert int(align) % 64 == 0


def size(kind, count):
    return int(re.sub(r"\D", "", kind)) // 8 * int(count or 1)


def memref(tensor):
    layout = f"{text(tensor.shape)}:{text(tensor.stride)}"
    return f'!cute.memref<{ELEMENTS[tensor.dtype.name]}, gmem, align<16>, "{layout}">'
