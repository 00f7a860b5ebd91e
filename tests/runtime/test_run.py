"""run: one call, the record it leaves, and what it refuses."""

import hashlib
import re

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from cutecourse import emulator, runtime
from cutecourse.atoms import mma_atom
from cutecourse.emulator.errors import DeadlockError
from cutecourse.kernels import (
    LaunchSpec,
    Scalar,
    Tensor,
    hello_ptx,
    micro_gemm,
    mma_ownership_map,
    mma_raw,
    stamp_layout,
    tma_broken,
)
from cutecourse.layout import Layout
from cutecourse.runtime.discovery import Device, Discovery


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    """These are tests of the call and its record; test_chapter_kernels runs the kernels on a GPU too."""
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")


def squares(**changes):
    return runtime.run(hello_ptx, out=np.zeros(32, np.uint32), **changes)


def test_run__takes_a_module_or_its_specification():
    assert np.array_equal(squares()["out"], runtime.run(hello_ptx.LAUNCH, out=np.zeros(32, np.uint32))["out"])


def test_run__leaves_a_record_of_what_happened():
    run = squares()
    record = run.record
    assert (record.kernel, record.language, record.where, record.target) == (
        "hello_ptx",
        "ptx",
        "emulator",
        "sm_80",
    )
    assert record.why == "asked for by CUTECOURSE_DEVICE=emulator"
    assert record.compute_capability is None
    assert record.driver is None
    assert record.ptx == hello_ptx.LAUNCH.ptx == run.ptx
    assert record.ptx_sha256 == hashlib.sha256(hello_ptx.LAUNCH.ptx.encode()).hexdigest()
    assert (record.launch.entry, record.launch.grid, record.launch.block) == (
        "hello_ptx",
        (1, 1, 1),
        (32, 1, 1),
    )
    assert 0 <= record.compile_s < record.run_s
    assert runtime.history()[-1] is record


def test_record__prints_as_a_short_table():
    text = str(squares().record)
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == ["kernel", "ran", "because", "launch", "PTX", "time"]
    assert "the emulator, on this machine's CPU" in lines[1]
    assert "hello_ptx <<<grid (1, 1, 1), block (32, 1, 1)>>>" in lines[3]
    assert squares().record.ptx_sha256[:12] in lines[4]


def test_record__in_a_notebook_is_one_line_that_opens():
    record = squares().record
    shown = record._repr_html_()
    line, table = re.fullmatch(
        r'<details class="cute-run"><summary>(.*)</summary><table>(.*)</table></details>', shown
    ).groups()
    assert re.fullmatch(r"hello_ptx ran on the emulator in [\d.]+ (s|ms|µs)", line)
    assert table.count("<tr>") == 6
    assert "&lt;&lt;&lt;grid" in table


def test_run__counts_what_the_emulator_executed():
    run = runtime.run(
        micro_gemm,
        a=np.ones((16, 16), np.float16),
        b=np.ones((8, 16), np.float16),
        c=np.zeros((16, 8), np.float32),
    )
    assert run.emulated.count("mma.sync") == 1


def test_run__names_the_arrays_there_are():
    with pytest.raises(runtime.ArgumentError, match="hello_ptx has no array 'c'; it has out"):
        squares()["c"]


def test_run__checks_arguments_before_it_compiles(monkeypatch):
    monkeypatch.setattr("cutecourse.runtime.running.compile_for", lambda *_: pytest.fail("compiled"))
    with pytest.raises(runtime.ArgumentError, match=r"hello_ptx\(out\) has no parameter b"):
        squares(b=1)


def test_run__refuses_a_gpu_that_is_not_there(monkeypatch):
    nothing = Discovery((), None, "no NVIDIA driver was found (SomeError)")
    monkeypatch.setattr("cutecourse.runtime.discovery.discover", lambda: nothing)
    with pytest.raises(
        runtime.DeviceError, match='device="cuda:0" is not there; there is no GPU: no NVIDIA driver'
    ):
        squares(device="cuda:0")
    assert squares(device="auto").record.why == "no GPU: no NVIDIA driver was found (SomeError)"


def test_run__on_a_gpu_hands_over_the_same_ptx_and_arguments(monkeypatch):
    seen = {}

    class MadeUpKernel:
        def __init__(self, ptx, entry, *, ordinal, dynamic_smem):
            seen.update(ptx=ptx, entry=entry, ordinal=ordinal, dynamic_smem=dynamic_smem)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            pass

        def launch(self, args, *, grid, block, cluster, programmatic):
            seen.update(grid=grid, block=block, cluster=cluster, programmatic=programmatic)
            seen["bytes"] = [arg.nbytes for arg in args]
            args[2][:] = np.arange(128)
            return [0.5]

    found = Discovery((Device(3, "Made-up GPU", (9, 0), 1, 1),), "13.0", None)
    monkeypatch.setattr("cutecourse.runtime.discovery.discover", lambda: found)
    monkeypatch.setattr("cutecourse.runtime.running.discover", lambda: found)
    monkeypatch.setattr("cutecourse.runtime.running.GpuKernel", MadeUpKernel)
    run = runtime.run(
        micro_gemm,
        device="auto",
        a=np.ones((16, 16), np.float16),
        b=np.ones((8, 16), np.float16),
        c=np.zeros((16, 8), np.float32),
    )
    assert (seen["entry"], seen["ordinal"], seen["dynamic_smem"]) == ("micro_gemm_0", 3, 768)
    assert (seen["grid"], seen["block"], seen["cluster"]) == ((1, 1, 1), (32, 1, 1), (1, 1, 1))
    assert seen["programmatic"] is False
    assert seen["ptx"] == runtime.compile(micro_gemm).ptx
    assert seen["bytes"] == [512, 256, 512]
    assert np.array_equal(run["c"], np.arange(128).reshape(8, 16).T)  # read back by C's stride
    assert (run.record.where, run.record.device, run.record.driver) == ("gpu", "Made-up GPU", "13.0")
    assert (run.record.compute_capability, run.record.run_s) == ("9.0", 0.5)
    assert "Made-up GPU, compute capability 9.0, driver for CUDA 13.0" in str(run.record)
    assert run.emulated is None


def test_run__passes_scalars_by_the_parameters_type():
    ptx = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 out, .param .u16 small, .param .f32 real)
{
    .reg .b64 %p; .reg .b16 %h; .reg .b32 %w; .reg .f32 %f;
    ld.param.u64 %p, [out];
    ld.param.u16 %h, [small];
    ld.param.f32 %f, [real];
    cvt.u32.u16 %w, %h;
    st.global.u32 [%p], %w;
    st.global.f32 [%p+4], %f;
    ret;
}
"""
    spec = LaunchSpec(
        name="add",
        language="ptx",
        ptx=ptx,
        entry="add",
        grid=1,
        block=1,
        params=(Tensor("out", "u32", (2,)), Scalar("small", "u16"), Scalar("real", "f32")),
    )
    out = runtime.run(spec, out=np.zeros(2, np.uint32), small=65535, real=1.5)["out"]
    assert out.tolist() == [65535, 0x3FC00000]


def test_run__lets_the_emulators_error_through_with_its_place():
    out = np.full(4, -1, np.int32)
    with pytest.raises(emulator.EmulatorError) as caught:
        runtime.run(stamp_layout, out=out, shape=np.array([8], np.int32), stride=np.array([1], np.int32))
    assert caught.value.kernel == "stamp_layout"
    assert caught.value.line is not None


def test_changing_one_operand_in_the_ptx__changes_the_result():
    a = np.arange(256, dtype=np.float16).reshape(16, 16)
    given = {"a": a, "b": np.ones((8, 16), np.float16), "c": np.zeros((16, 8), np.float32)}
    right = runtime.run(mma_raw, **given)["c"]
    swapped = mma_raw.PTX.replace("{%a0, %a1, %a2, %a3}", "{%a1, %a0, %a3, %a2}").lstrip()
    spec = LaunchSpec(
        name="mma_raw",
        language="ptx",
        ptx=swapped,
        entry="mma_raw",
        grid=1,
        block=32,
        params=mma_raw.LAUNCH.params,
    )
    wrong = runtime.run(spec, **given)["c"]
    assert np.array_equal(wrong, np.roll(right, 8, axis=0))  # the upper and the lower rows change places
    assert not np.array_equal(wrong, right)


def test_stamps__are_what_the_layout_library_predicts():
    layout = Layout(((2, 4), 3), ((1, 6), 2))
    run = runtime.run(
        stamp_layout,
        out=np.full(24, -1, np.int32),
        shape=np.array([2, 4, 3], np.int32),
        stride=np.array([1, 6, 2], np.int32),
    )
    assert [int(run["out"][layout(index)]) for index in range(24)] == list(range(24))


def test_stamps__are_what_the_atom_says():
    run = runtime.run(
        mma_ownership_map,
        a=np.full((16, 16), -1, np.int32),
        b=np.full((8, 16), -1, np.int32),
        c=np.full((16, 8), -1, np.int32),
    )
    atom = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    for operand, name in (("A", "a"), ("B", "b"), ("C", "c")):
        for cell in np.ndindex(run[name].shape):
            thread, value = atom.owner(operand, cell)
            assert run[name][cell] == thread * 256 + value


def test_run__takes_kernels_defined_in_a_notebooks_cells(tmp_path):
    cells = [
        """
import numpy as np
from numba import cuda
import cutlass
from cutlass import cute
from cutecourse import runtime
from cutecourse.kernels import LaunchSpec, Tensor
""",
        """
@cuda.jit
def double(out):
    out[cuda.threadIdx.x] = 2 * cuda.threadIdx.x

params = (Tensor("out", "s32", (4,)),)
spec = LaunchSpec(name="double", language="numba", kernel=double, grid=1, block=4, params=params)
print(runtime.run(spec, out=np.zeros(4, np.int32))["out"])
""",
        """
@cute.kernel
def triple(mOut: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    mOut[tid] = 3 * tid

@cute.jit
def host(mOut: cute.Tensor):
    triple(mOut).launch(grid=(1, 1, 1), block=(4, 1, 1))

spec = LaunchSpec(
    name="triple", language="cutedsl", kernel=triple, host=host, grid=1, block=4, params=params
)
print(runtime.run(spec, out=np.zeros(4, np.int32))["out"])
""",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [
        "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout").strip()
        for cell in notebook.cells
    ]
    assert printed == ["", "[0 2 4 6]", "[0 3 6 9]"]
    stderr = [output for cell in notebook.cells for output in cell.outputs if output.get("name") == "stderr"]
    assert stderr == []
    assert nbformat.validator.isvalid(notebook)
    assert list(tmp_path.iterdir()) == []


def test_run__that_fails_leaves_its_trace_with_the_error():
    wrong = tma_broken.broken("too_many_bytes")
    numbers = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    arrays = {"source": numbers, "result": np.zeros_like(numbers), "gave_up": np.zeros(2, np.uint32)}
    with pytest.raises(DeadlockError) as caught:
        runtime.run(wrong, device="emulator", trace=True, tiles=3, **arrays)
    waits = caught.value.trace.waits()
    assert sorted((wait.warp, wait.end) for wait in waits if wait.end is None) == [(0, None), (1, None)]
    with pytest.raises(DeadlockError) as untraced:
        runtime.run(wrong, device="emulator", tiles=3, **arrays)
    assert untraced.value.trace is None
