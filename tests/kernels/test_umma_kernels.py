"""The kernels of tcgen05, rung by rung: what ptxas says of each for both Blackwell generations."""

import re
import shutil
import subprocess

import pytest

from cutecourse import runtime
from cutecourse.kernels.chapters import kernel_module
from support.umma_kernels import UMMA_KERNELS

# A CTA of compute capability 10.x can have 227 KiB of shared memory (CUDA C++ Programming Guide, table
# "Technical Specifications per Compute Capability").
SHARED_MEMORY_BYTES = 227 * 1024
# Four warps share an SM's 64 Ki registers with whoever else is there; a thread can have 255 (same table).
REGISTERS = 255


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("name", UMMA_KERNELS)
def test_umma_kernel__assembles_without_spills(name, arch, tmp_path, record_property):
    spec = kernel_module(name).LAUNCH
    source = tmp_path / "kernel.ptx"
    source.write_text(runtime.compile(spec, target=arch).ptx)
    done = subprocess.run(
        [shutil.which("ptxas"), "-v", f"-arch={arch}", "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    registers = int(re.search(r"Used (\d+) registers", done.stderr)[1])
    spills = sum(int(size) for size in re.findall(r"(\d+) bytes (?:stack frame|spill \w+)", done.stderr))
    static = sum(int(size) for size in re.findall(r"(\d+) bytes smem", done.stderr))
    report = {
        "registers": registers,
        "stack_and_spill_bytes": spills,
        "shared_bytes": static + spec.dynamic_smem,
    }
    record_property(f"{name} {arch}", report)
    print(name, arch, report)
    assert spills == 0
    assert registers < REGISTERS
    assert report["shared_bytes"] <= SHARED_MEMORY_BYTES


@pytest.mark.parametrize("name", UMMA_KERNELS)
def test_umma_kernel__multiplies_and_gives_its_tensor_memory_back(name):
    """One MMA for each 16 of a k-tile, in one place of the text, and as many deallocations as allocations."""
    module = kernel_module(name)
    ptx = runtime.compile(module).ptx
    group = "cta_group::2" if "two_sm" in name else "cta_group::1"
    assert len(re.findall(rf"tcgen05\.mma\.{group}\.kind::f16", ptx)) == module.TILE[2] // module.MMA[2]
    for operation in ("alloc", "relinquish_alloc_permit", "dealloc"):
        assert re.findall(rf"tcgen05\.{operation}\.(cta_group::\d)", ptx) == [group]
