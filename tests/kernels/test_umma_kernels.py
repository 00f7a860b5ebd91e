"""The kernels of tcgen05, rung by rung: what ptxas says of each for both Blackwell generations."""

import re
import shutil
import subprocess

import pytest

from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, SpecError, umma_gemm, umma_persistent, umma_scheduled, umma_store
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.kernels.files import kernel_module

# A CTA of compute capability 10.x can have 227 KiB of shared memory (CUDA C++ Programming Guide, table
# "Technical Specifications per Compute Capability").
SHARED_MEMORY_BYTES = 227 * 1024
# Four warps share an SM's 64 Ki registers with whoever else is there; a thread can have 255 (same table).
REGISTERS = 255

UMMA_KERNELS = [
    name for chapter in CHAPTERS for name in chapter.kernels if kernel_module(name).LAUNCH.target == "sm_100a"
]
SPECS = {
    f"{name}.{attribute}": spec
    for name in UMMA_KERNELS
    for attribute, spec in vars(kernel_module(name)).items()
    if isinstance(spec, LaunchSpec)
}

# How many SMs share an MMA, and how many MMAs stand in the kernel's text: one for each 16 of a k-tile.
MMAS = {
    "umma_one.LAUNCH": (1, 1),
    "umma_tile.LAUNCH": (1, 4),
    "umma_parts.LAUNCH": (1, 16),  # its loop over the k-tiles is unrolled
    "umma_tile_broken.LAUNCH": (1, 4),
    "umma_tma.LAUNCH": (1, 4),
    "umma_tma_multicast.LAUNCH": (1, 4),
    "umma_tma_broken.LAUNCH": (1, 4),
    "umma_two_sm.LAUNCH": (2, 4),
    "umma_two_sm_pipeline.LAUNCH": (2, 4),
    "umma_gemm.LAUNCH": (2, 4),
    "umma_gemm.ONE_SM": (1, 4),
    "umma_gemm.MN_MAJOR": (2, 4),
    "umma_gemm.RAGGED": (2, 4),
    "umma_broken.LAUNCH": (2, 4),
    "umma_store.LAUNCH": (2, 4),
    "umma_store.BLEND": (2, 4),
    "umma_store.ONE_SM": (1, 4),
    "umma_persistent.LAUNCH": (2, 4),
    "umma_persistent.BLEND": (2, 4),
    "umma_persistent.ONE_SM": (1, 4),
    "umma_scheduled.LAUNCH": (2, 4),
    "umma_scheduled.IN_TURN": (2, 4),
    "umma_scheduled.ONE_SM": (1, 4),
    "umma_scheduled.TWO_CTAS": (2, 4),
    "umma_scheduled.THREE_PIECES": (2, 4),
    "umma_classes.LAUNCH": (2, 4),
    "umma_classes.ONE_SM": (1, 4),
    "scale_stamp.LAUNCH": (1, 0),
    "scaled_one.LAUNCH": (1, 4),
    "scaled_one.FOUR_BITS": (1, 4),
    "scaled_tile.LAUNCH": (1, 4),
    "scaled_persistent.LAUNCH": (2, 4),
    "scaled_persistent.FOUR_BITS": (2, 4),
    "scaled_persistent.QUANTISED": (1, 4),
    "scaled_persistent.QUANTISED_FOUR": (1, 4),
    "umma_attention.LAUNCH": (1, 2),  # one for S, one for O, each in a loop
    "umma_attention.CAUSAL": (1, 2),
}


@pytest.mark.program("ptxas")
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("name", SPECS)
def test_umma_kernel__assembles_without_spills(name, arch, tmp_path, record_property):
    spec = SPECS[name]
    source = tmp_path / "kernel.ptx"
    # The text is the same for both generations but for the line that names them: see the test below.
    source.write_text(runtime.compile(spec).ptx.replace(".target sm_100a", f".target {arch}"))
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


@pytest.mark.parametrize("name", SPECS)
def test_umma_kernel__multiplies_and_gives_its_tensor_memory_back(name):
    sms, count = MMAS[name]
    ptx = runtime.compile(SPECS[name]).ptx
    assert (
        re.findall(r"tcgen05\.mma\.cta_group::(\d)\.kind::(?:f16|mx\w+\.block_scale)", ptx)
        == [str(sms)] * count
    )
    for operation in ("alloc", "relinquish_alloc_permit", "dealloc"):
        assert re.findall(rf"tcgen05\.{operation}\.cta_group::(\d)", ptx) == [str(sms)]


def test_umma_kernel__has_the_same_text_for_both_generations():
    kernel = kernel_module("umma_two_sm_pipeline")
    text, later = (runtime.compile(kernel, target=target).ptx for target in ("sm_100a", "sm_103a"))
    assert ".target sm_103a" in later
    assert later.replace("sm_103a", "sm_100a") == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mnk": (512, 1024, 100)}, "multiples of 16 bytes"),
        ({"mnk": (500, 1024, 64), "major_a": "mn"}, "rows of a at multiples of 16 bytes"),
        ({"mnk": (512, 1, 64)}, "a mode of one element out of the tensor map"),
        ({"dtype": "tf32"}, "dtype is 'f16' or 'bf16', not 'tf32'"),
        ({"major_b": "MN"}, "major_b is 'k' or 'mn'"),
        ({"sms": 4}, "sms is 1 or 2"),
        ({"cluster": (1, 4)}, "a cluster of 2, 4, ... CTAs along M"),
    ],
)
def test_gemm_spec__refuses_what_cannot_be_launched(arguments, said):
    with pytest.raises(SpecError, match=said):
        umma_gemm.gemm_spec(**arguments)


@pytest.mark.parametrize(
    ("kernel", "mnk", "choices", "said"),
    [
        (umma_store, (256, 256, 100), {}, "N and K must be multiples of 8"),
        (umma_store, (256, 260, 64), {}, "N and K must be multiples of 8"),
        (umma_store, (1, 256, 64), {}, "M at least 2"),
        (umma_store, (256, 256, 64), {"sms": 3}, "umma_store: sms is 1 or 2, not 3"),
        (umma_persistent, (256, 256, 64), {"pairs": 0}, "pairs is at least 1, not 0"),
        (umma_scheduled, (256, 256, 64), {"pairs": 0}, "pairs is at least 1, not 0"),
        (umma_scheduled, (256, 256, 64), {"columns": 96}, "columns is 64, 128, 192 or 256, not 96"),
        (umma_scheduled, (256, 256, 64), {"stages": 0}, "stages is at least 1, not 0"),
        (umma_scheduled, (256, 256, 64), {"stages": 7}, "use 6 stages or fewer"),
        (umma_scheduled, (256, 256, 64), {"ctas": 2}, "not 2 with 256"),
        (umma_scheduled, (256, 256, 64), {"blends": True, "fuses": True}, "choose one"),
    ],
)
def test_rung_spec__refuses_what_cannot_be_launched(kernel, mnk, choices, said):
    with pytest.raises(SpecError, match=said):
        kernel.spec(*mnk, **choices)
