"""What the errata say of TMA and no chapter runs: assembler, compiler and driver's documentation decide."""

from __future__ import annotations

import inspect
import re
import subprocess

import pytest

from cutecourse.kernels import tma_multicast
from cutecourse.runtime import compile as compile_kernel

_MODULE = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry probe(.param .align 64 .b8 map[128], .param .u16 ctas)
{{
    .reg .b64 %map, %dst64, %bar64, %generic;
    .reg .b32 %dst, %bar, %c0, %c1;
    .reg .b16 %mask;
    .shared .align 128 .b8 tile[16384];
    .shared .align 8 .b64 barrier;
    mov.u32 %c0, 0;
    mov.u32 %c1, 0;
    mov.u32 %dst, tile;
    mov.u32 %bar, barrier;
    mov.u64 %dst64, tile;
    mov.u64 %bar64, barrier;
    cvta.shared.u64 %generic, %dst64;
    ld.param.u16 %mask, [ctas];
    mov.b64 %map, map;
    cvta.param.u64 %map, %map;
    {instruction}
    ret;
}}
"""
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
_MULTICAST = f"{_LOAD}.multicast::cluster"


def _assemble(find_program, tmp_path, instruction: str) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "probe.ptx"
    source.write_text(_MODULE.format(instruction=instruction))
    command = [str(find_program("ptxas")), "-arch=sm_90", "-o", str(tmp_path / "probe.cubin"), str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.program("ptxas")
def test_multicast_load__takes_a_mask_and_as_many_coordinates_as_dimensions(tmp_path, find_program):
    operands = "[%dst], [%map, {%c0, %c1}], [%bar]"
    accepted = (
        f"{_LOAD} {operands};",
        f"{_MULTICAST} {operands}, %mask;",
        f"{_MULTICAST} [%dst64], [%map, {{%c0, %c1}}], [%bar64], %mask;",  # wide addresses are no error
    )
    for instruction in accepted:
        done = _assemble(find_program, tmp_path, instruction)
        assert done.returncode == 0, done.stderr
    refused = (
        f"{_MULTICAST} {operands};",
        f"{_LOAD} {operands}, %mask;",
        f"{_LOAD} [%dst], [%map, {{%c0, %c1, %c1}}], [%bar];",
    )
    for instruction in refused:
        assert "cp.async.bulk.tensor" in _assemble(find_program, tmp_path, instruction).stderr, instruction


@pytest.mark.program("ptxas")
def test_cvta_to_shared__has_no_32_bit_form_in_a_64_bit_module(tmp_path, find_program):
    assert _assemble(find_program, tmp_path, "cvta.to.shared.u64 %dst64, %generic;").returncode == 0
    refused = _assemble(find_program, tmp_path, "cvta.to.shared.u32 %dst, %generic;")
    assert refused.returncode != 0
    assert "cvta.to" in refused.stderr


def test_multicast_kernel__passes_the_descriptor_s_address_and_shared_addresses():
    """The descriptor is a parameter whose address goes in; tile and barrier are 32-bit shared addresses."""
    ptx = compile_kernel(tma_multicast).ptx
    widths = {
        name: int(bits)
        for bits, name in re.findall(r"\.reg \.b(\d+)\s+%(\w+)<", ptx)  # a class of registers and its width
    }

    def width(register: str) -> int:
        return widths[re.sub(r"\d+$", "", register.removeprefix("%"))]

    # the module's one parameter of 128 bytes is the descriptor
    descriptor = re.search(r"\.param \.align 64 \.b8 (\w+)\[128\]", ptx)
    assert descriptor is not None
    load = re.search(
        r"cp\.async\.bulk\.tensor\.2d\.\S*multicast::cluster\S* "
        r"\[(%\w+)\], \[(%\w+), \{(%\w+), (%\w+)\}\], \[(%\w+)\], (%\w+)",
        ptx,
    )
    assert load is not None
    tile, address, *coords, barrier, mask = load.groups()
    assert [width(r) for r in (tile, barrier, address, *coords, mask)] == [32, 32, 64, 32, 32, 16]
    assert f"ld.param.b64 \t{address}" not in ptx
    assert not re.search(rf"ld\.param\S*\s+%\w+, \[{descriptor[1]}", ptx)
    source = re.search(rf"cvta\.param\.u64\s+{address}, (%\w+);", ptx)
    assert source is not None
    assert re.search(rf"mov\.b64\s+{source[1]}, {descriptor[1]};", ptx)


def test_encode_tiled__takes_extents_strides_box_and_element_strides_in_this_order():
    """There are no strides of shared memory, and the tensor's extents stand before all the others."""
    driver = pytest.importorskip("cuda.bindings.driver")
    signature = (inspect.getdoc(driver.cuTensorMapEncodeTiled) or "").split("\n", 1)[0]
    names = re.findall(r"(\w+)(?=:|,|\))", re.sub(r": [^,)]*(\[[^\]]*\])*", ":", signature))
    order = [
        name for name in names if re.match(r"(tensor|global|box|element|interleave|swizzle|l2|oob)", name)
    ]
    assert order == [
        "tensorDataType",
        "tensorRank",
        "globalAddress",
        "globalDim",
        "globalStrides",
        "boxDim",
        "elementStrides",
        "interleave",
        "swizzle",
        "l2Promotion",
        "oobFill",
    ]
