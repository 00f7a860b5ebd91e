"""What ptxas says of the tcgen05 kernels, and what is said where there is no ptxas."""

import dataclasses
import json
import os

import pytest

from benchmarks import umma_assembly
from cutecourse import runtime
from cutecourse.kernels import hello_ptx, umma_two_sm, umma_two_sm_pipeline
from cutecourse.runtime import assembly
from cutecourse.runtime.assembly import AssemblyReport, assembly_report, find_ptxas

# A CTA of compute capability 10.x can have 227 KiB of shared memory, and a thread 255 registers (CUDA C++
# Programming Guide, table "Technical Specifications per Compute Capability").
SHARED_MEMORY_BYTES = 227 * 1024
REGISTERS = 255

SPILLS = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry spills(.param .u64 out)
.maxnreg 16
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<40>;
    ld.param.u64 %rd0, [out];
"""


@pytest.mark.program("ptxas")
def test_report__tells_what_each_kernel_needs_for_both_generations():
    report = assembly_report([umma_two_sm, umma_two_sm_pipeline])
    assert [(row.kernel, row.target) for row in report] == [
        (name, target)
        for name in ("umma_two_sm", "umma_two_sm_pipeline")
        for target in ("sm_100a", "sm_103a")
    ]
    for row in report:
        assert 16 <= row.registers < REGISTERS
        assert (row.stack_bytes, row.spill_bytes) == (0, 0)
        assert row.static_smem + row.dynamic_smem <= SHARED_MEMORY_BYTES
    assert report.rows[0].dynamic_smem == umma_two_sm.LAUNCH.dynamic_smem
    lines = str(report).splitlines()
    assert lines[0].split()[:3] == ["kernel", "target", "registers"]
    assert lines[-1] == f"ptxas {report.ptxas}"
    assert report._repr_markdown_().count("\n| umma") == 4
    assert AssemblyReport.from_snapshot(json.loads(json.dumps(report.to_snapshot()))) == report


@pytest.mark.program("ptxas")
def test_report__counts_spills():
    """Forty values that live across a barrier, in sixteen registers a thread."""
    loads = "".join(f"    ld.volatile.global.u32 %r{i}, [%rd0+{4 * i}];\n" for i in range(40))
    stores = "".join(f"    st.volatile.global.u32 [%rd0+{4 * i}], %r{39 - i};\n" for i in range(40))
    text = SPILLS + loads + "    bar.sync 0;\n" + stores + "    ret;\n}\n"
    spec = dataclasses.replace(
        hello_ptx.LAUNCH, name="spills", language="ptx", ptx=text, kernel=None, target="sm_100a"
    )
    (row,) = assembly_report(spec, "sm_100a")
    assert row.spill_bytes > 0
    assert row.stack_bytes > 0
    assert row.registers <= 32
    assert row.barriers == 1


@pytest.mark.program("ptxas")
@pytest.mark.parametrize(
    ("written", "arch", "said"),
    [
        ("sm_100a", "sm_100a", ""),
        ("sm_100a", "sm_103a", "Program with .target 'sm_100a' cannot be compiled"),
        ("sm_103a", "sm_100a", "SM version specified by .target is higher"),
        ("sm_103a", "sm_103a", ""),
        ("sm_100f", "sm_100a", ""),
        ("sm_100f", "sm_103a", ""),
    ],
)
def test_ptxas__takes_a_target_for_itself_alone_and_a_family_for_both(written, arch, said, tmp_path):
    """Why the report compiles a kernel for each target, and which text would do for both."""
    text = tmp_path / "kernel.ptx"
    text.write_text(runtime.compile(umma_two_sm, target=written).ptx)
    done = assembly._ask(find_ptxas(), f"-arch={arch}", "-o", str(tmp_path / "kernel.cubin"), str(text))
    assert (done.returncode == 0) is (said == "")
    assert said in done.stderr + done.stdout


@pytest.mark.program("ptxas")
def test_report__names_the_kernel_that_ptxas_refuses():
    text = str(runtime.compile(umma_two_sm).ptx)
    spec = dataclasses.replace(umma_two_sm.LAUNCH, language="ptx", ptx=text, kernel=None, host=None)
    with pytest.raises(runtime.CompileError, match="umma_two_sm: ptxas did not assemble its PTX for sm_90a"):
        assembly_report(spec, "sm_90a")


@pytest.mark.parametrize("given", [None, "no/such/ptxas"])
def test_report__refuses_without_ptxas(given, monkeypatch):
    monkeypatch.setattr(assembly, "find_ptxas", lambda: None)
    with pytest.raises(runtime.CompileError, match=r"there is no ptxas .*it comes with the CUDA toolkit"):
        assembly_report(umma_two_sm, ptxas=given)


def test_find__looks_in_the_wheels_after_the_toolkit(tmp_path, monkeypatch):
    for name in ("PATH", "CUDA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    wheel = tmp_path / "nvidia" / "cu13" / "bin" / "ptxas"
    wheel.parent.mkdir(parents=True)
    wheel.write_text("#!/bin/sh\n")
    wheel.chmod(0o755)
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "nvidia")]})
    monkeypatch.setattr(assembly.importlib.util, "find_spec", lambda name: spec)
    found = find_ptxas()
    assert found in {wheel, assembly.Path("/usr/local/cuda/bin/ptxas")}
    toolkit = tmp_path / "toolkit" / "bin" / "ptxas"
    toolkit.parent.mkdir(parents=True)
    toolkit.write_text("#!/bin/sh\n")
    toolkit.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert find_ptxas() == toolkit
    assert os.access(toolkit, os.X_OK)


def test_recorded__report_is_of_the_kernels_of_today():
    recorded = AssemblyReport.from_snapshot(json.loads(umma_assembly.RESULT.read_text()))
    today = {
        (name, target): runtime.compile(spec, target=target).ptx.sha256
        for name, spec in umma_assembly.kernels().items()
        for target in assembly.BLACKWELL
    }
    assert {(row.kernel, row.target): row.ptx_sha256 for row in recorded} == today, (
        "run python -m benchmarks.umma_assembly"
    )
    assert all(row.spill_bytes == row.stack_bytes == 0 for row in recorded)
