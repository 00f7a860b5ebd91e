"""What the doctor's table promises: kernels compile for the columns that say native."""

import shutil
import subprocess

import pytest

from cutecourse import runtime
from cutecourse.kernels.chapters import CHAPTERS, COMPUTE_CAPABILITIES, REFUSED
from cutecourse.kernels.files import kernel_module, kernel_names
from cutecourse.kernels.spec import LaunchSpec, compute_capability_of, runs_on


def specs(name):
    """All launch specifications of a kernel's module, the alternatives too."""
    return [value for value in vars(kernel_module(name)).values() if isinstance(value, LaunchSpec)]


def architecture(capability, target=""):
    """The architecture of a capability, with the letter that the target has: tcgen05 is no part of sm_100."""
    return f"sm_{capability[0]}{capability[1]}{'a' if target.endswith('a') else ''}"


# The target that the doctor's table promises, or that of a kernel which no chapter lists.
TARGETS = {name: kernel_module(name).LAUNCH.target for name in kernel_names() if name not in REFUSED} | {
    name: chapter.target for chapter in CHAPTERS for name in chapter.kernels
}
LAST = {chapter.kernels[-1] for chapter in CHAPTERS}


def columns(name):
    """The columns that a kernel is tried in: the first and last native ones; all for a chapter's last kernel.

    The columns between differ from their neighbours in the name of the target only, and each costs a compile.
    """
    native = [capability for capability in COMPUTE_CAPABILITIES if runs_on(TARGETS[name], capability)]
    return native if name in LAST else sorted({native[0], native[-1]})


CELLS = [
    pytest.param(name, capability, id=f"{name}-{architecture(capability, TARGETS[name])}")
    for name in TARGETS
    for capability in columns(name)
]


def assemble(ptx, arch, folder):
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    done = subprocess.run(
        [shutil.which("ptxas"), f"-arch={arch}", "-o", folder / "kernel.cubin", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{arch}: {done.stderr or done.stdout}"


@pytest.mark.sample(20)
@pytest.mark.parametrize(("name", "capability"), CELLS)
def test_column__that_says_native_compiles(name, capability):
    arch = architecture(capability, TARGETS[name])
    for spec in specs(name):
        compiled = runtime.compile(spec, target=arch)
        assert f".target {arch}" in compiled.ptx
        assert compiled.entry in compiled.ptx


@pytest.mark.sample(40)
@pytest.mark.program("ptxas")
@pytest.mark.parametrize(("name", "capability"), CELLS)
def test_column__that_says_native_assembles_the_ptx_that_runs_there(name, capability, tmp_path):
    # The runtime hands every GPU the PTX of the kernel's own target, and the GPU's driver assembles it.
    for spec in specs(name):
        compiled = runtime.compile(spec)
        assert runs_on(compiled.target, capability)
        assemble(compiled.ptx, architecture(capability, compiled.target), tmp_path)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_chapter__needs_the_highest_target_of_its_kernels(chapter):
    targets = {spec.target for name in chapter.kernels for spec in specs(name)}
    assert max(targets, key=compute_capability_of) == chapter.target


def test_chapters__list_kernels_that_there_are():
    assert {*TARGETS, *REFUSED} == set(kernel_names())


@pytest.mark.parametrize("name", REFUSED)
def test_refused__is_refused_for_every_target(name):
    for capability in COMPUTE_CAPABILITIES:
        with pytest.raises(runtime.CompileError, match="alignment"):
            runtime.compile(kernel_module(name), target=architecture(capability))
