"""The C++ and DSL texts that pages show beside Python say the same: they are compiled, run and compared."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.kernels import (
    copy_async,
    hopper_stages,
    tma_load,
    tma_multicast,
    umma_store,
    umma_tile,
    umma_tma_multicast,
    umma_two_sm_pipeline,
)
from cutecourse.layout import (
    Layout,
    blocked_product,
    coalesce,
    complement,
    composition,
    make_layout,
    make_ordered_layout,
    right_inverse,
    zipped_divide,
)
from tools.cases.element_arrays import array_type

KERNELS = Path(__file__).resolve().parents[2] / "lib" / "cutecourse" / "kernels"


def cutlass_include() -> Path:
    files = importlib.metadata.files("nvidia-cutlass") or []
    for file in files:
        if str(file).endswith("include/cute/layout.hpp"):
            return Path(str(file.locate())).parents[1]
    pytest.fail("the package nvidia-cutlass has no include/cute/layout.hpp")


def nvcc(find_program, source: Path, output: Path, *options: str) -> None:
    command = [str(find_program("nvcc")), "-w", "-std=c++17", "--expt-relaxed-constexpr", *options]
    command += ["-I", str(cutlass_include()), "-o", str(output), str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stderr


def computed_layouts() -> dict[str, Layout]:
    row_major = make_layout((4, 8), stride=(8, 1))
    square = make_layout((8, 8), stride=(8, 1))
    return {
        "row_major": row_major,
        "ordered": make_ordered_layout((4, 8), order=(1, 0)),
        "merged": coalesce(Layout.parse("(2,(1,6)):(1,(6,2))")),
        "every_second": composition(square, (make_layout(4, stride=2), make_layout(2))),
        "rest": complement(make_layout(4, stride=2), 24),
        "zipped": zipped_divide(row_major, (2, 4)),
        "blocked": blocked_product(make_layout((2, 2)), make_layout((2, 3))),
        "inverse": right_inverse(row_major),
    }


def launch_twin(path: Path, spec, a, out):
    """Launch a twin's PTX as its DSL kernel is launched; the atom is a struct that begins with the map."""
    tensor_map = runtime.emulator_tensor_map(spec.params[0].encoding, a)
    emulator.launch(
        path.read_text(), grid=spec.grid, block=spec.block, cluster=spec.cluster, args=[(tensor_map,), out]
    )


def parsed(printed: str) -> dict[str, Layout]:
    return {name: Layout.parse(text) for name, text in (line.split() for line in printed.splitlines())}


@pytest.mark.inputs("lib/cutecourse/kernels/layout/layouts_dsl/layouts.cu")
@pytest.mark.program("nvcc")
def test_layouts_cu__prints_the_librarys_layouts(tmp_path, find_program):
    nvcc(find_program, KERNELS / "layout/layouts_dsl/layouts.cu", tmp_path / "layouts")
    printed = subprocess.run(
        [tmp_path / "layouts"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert parsed(printed) == computed_layouts()


def test_layouts_dsl__prints_the_librarys_layouts(capfd):
    from cutecourse.kernels.layout.layouts_dsl.source import layouts

    layouts()
    assert parsed(capfd.readouterr().out) == computed_layouts()


@pytest.mark.inputs("lib/cutecourse/kernels/mma/micro_gemm/kernel.cu")
@pytest.mark.program("nvcc")
def test_micro_gemm_cu__gives_the_product_on_the_emulator(tmp_path, find_program):
    nvcc(
        find_program, KERNELS / "mma/micro_gemm/kernel.cu", tmp_path / "micro_gemm.ptx", "-arch=sm_80", "-ptx"
    )
    rng = np.random.default_rng(5)
    a = rng.integers(-8, 9, (16, 16)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 16)).astype(np.float16)
    c = np.full((8, 16), np.nan, np.float32)  # column-major: one row of this array is a column of C
    emulator.launch(
        (tmp_path / "micro_gemm.ptx").read_text(), grid=(1, 1, 1), block=(32, 1, 1), args=[a, b, c]
    )
    np.testing.assert_array_equal(c.T, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.inputs("lib/cutecourse/kernels/gemm/global_gemm.cu")
@pytest.mark.program("nvcc")
def test_global_gemm_cu__gives_the_product_on_the_emulator(tmp_path, find_program):
    nvcc(find_program, KERNELS / "gemm/global_gemm.cu", tmp_path / "gemm.ptx", "-arch=sm_80", "-ptx")
    text = (tmp_path / "gemm.ptx").read_text()
    assert text.count("ldmatrix.sync.aligned.x4") + text.count("ldmatrix.sync.aligned.m8n8.x4") == 16
    m, n, k = 256, 128, 160
    rng = np.random.default_rng(5)
    a = rng.integers(-8, 9, (m, k)).astype(np.float16)
    b = rng.integers(-8, 9, (n, k)).astype(np.float16)
    c = np.full((m, n), np.nan, np.float16)
    sizes = [np.int32(extent) for extent in (m, n, k)]
    emulator.launch(text, grid=(2, 1, 1), block=(128, 1, 1), args=[a, b, c, *sizes])
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))


@pytest.mark.inputs("lib/cutecourse/kernels/copy/transpose_swizzled/kernel.cu")
@pytest.mark.program("nvcc")
def test_transpose_swizzled_cu__transposes_on_the_emulator(tmp_path, find_program):
    source = KERNELS / "copy/transpose_swizzled/kernel.cu"
    nvcc(find_program, source, tmp_path / "transpose.ptx", "-arch=sm_80", "-ptx")
    m, n = 32, 96
    given = np.random.default_rng(5).standard_normal((m, n)).astype(np.float32)
    result = np.full((n, m), np.nan, np.float32)
    args = [given, result, np.int32(m), np.int32(n)]
    text = (tmp_path / "transpose.ptx").read_text()
    emulator.launch(text, grid=(3, 1, 1), block=(256, 1, 1), args=args)
    np.testing.assert_array_equal(result, given.T)


@pytest.mark.inputs("lib/cutecourse/kernels/copy/copy_async/kernel.cu")
@pytest.mark.program("nvcc")
def test_copy_async_cu__copies_on_the_emulator(tmp_path, find_program):
    nvcc(
        find_program,
        KERNELS / "copy/copy_async/kernel.cu",
        tmp_path / "copy_async.ptx",
        "-arch=sm_80",
        "-ptx",
    )
    text = (tmp_path / "copy_async.ptx").read_text()
    source = np.random.default_rng(3).standard_normal((64, 256)).astype(np.float32)
    result = np.full_like(source, np.nan)
    spec = copy_async.LAUNCH
    emulator.launch(text, grid=spec.grid, block=spec.block, args=[source, result])
    np.testing.assert_array_equal(result, source)
    assert text.count("cp.async.ca.shared.global") == 4


@pytest.mark.inputs("lib/cutecourse/kernels/mma/ldmatrix_stmatrix.cu")
@pytest.mark.program("nvcc")
def test_ldmatrix_stmatrix_cu__gives_the_product_on_the_emulator(tmp_path, find_program):
    source = KERNELS / "mma/ldmatrix_stmatrix.cu"
    nvcc(find_program, source, tmp_path / "ldmatrix.ptx", "-arch=sm_90", "-ptx")
    text = (tmp_path / "ldmatrix.ptx").read_text()
    assert (text.count("ldmatrix.sync"), text.count("stmatrix.sync")) == (2, 1)
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.full((16, 16), np.nan, np.float16)
    emulator.launch(text, grid=(1, 1, 1), block=(32, 1, 1), args=[a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.inputs("lib/cutecourse/kernels/tma/tma_load/kernel.cu")
@pytest.mark.program("nvcc")
def test_tma_load_cu__brings_the_tile_on_the_emulator(tmp_path, find_program):
    nvcc(find_program, KERNELS / "tma/tma_load/kernel.cu", tmp_path / "tma_load.ptx", "-arch=sm_90", "-ptx")
    a = np.arange(128 * 256, dtype=np.uint16).reshape(128, 256).view(np.float16)
    out = np.zeros((64, 64), np.float16)
    launch_twin(tmp_path / "tma_load.ptx", tma_load.LAUNCH, a, out)
    np.testing.assert_array_equal(out.view(np.uint16), a[64:128, 128:192].view(np.uint16))


@pytest.mark.inputs("lib/cutecourse/kernels/tma/tma_multicast/kernel.cu")
@pytest.mark.program("nvcc")
def test_tma_multicast_cu__gives_every_cta_the_tile_on_the_emulator(tmp_path, find_program):
    source = KERNELS / "tma/tma_multicast/kernel.cu"
    nvcc(find_program, source, tmp_path / "tma_multicast.ptx", "-arch=sm_90", "-ptx")
    a = np.arange(128 * 64, dtype=np.uint16).reshape(128, 64).view(np.float16)
    out = np.zeros((4, 128, 64), np.float16)
    launch_twin(tmp_path / "tma_multicast.ptx", tma_multicast.LAUNCH, a, out)
    for received in out:
        np.testing.assert_array_equal(received.view(np.uint16), a.view(np.uint16))


@pytest.mark.inputs("lib/cutecourse/kernels/wgmma/wgmma_one/kernel.cu")
@pytest.mark.program("nvcc")
def test_wgmma_one_cu__multiplies_on_the_emulator(tmp_path, find_program):
    nvcc(find_program, KERNELS / "wgmma/wgmma_one/kernel.cu", tmp_path / "one.ptx", "-arch=sm_90a", "-ptx")
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-4, 5, (rows, 256)).astype(np.float16) for rows in (64, 256))
    c = np.full((64, 256), np.nan, np.float32)
    text = (tmp_path / "one.ptx").read_text()
    emulator.launch(text, grid=(1, 1, 1), block=(128, 1, 1), dynamic_smem=40 * 1024, args=[a, b, c])
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.inputs("lib/cutecourse/kernels/hopper/hopper_gemm.cu")
@pytest.mark.program("nvcc")
def test_hopper_gemm_cu__multiplies_on_the_emulator(tmp_path, find_program):
    source = KERNELS / "hopper/hopper_gemm.cu"
    nvcc(find_program, source, tmp_path / "hopper_gemm.ptx", "-arch=sm_90a", "-ptx")
    rng = np.random.default_rng(10)
    a, b = (rng.integers(-3, 4, (256, 192)).astype(np.float16) for _ in "ab")
    c = np.full((256, 256), np.nan, np.float16)
    spec = hopper_stages.LAUNCH
    maps = [
        (runtime.emulator_tensor_map(parameter.encoding, array),)
        for parameter, array in zip(spec.params, (a, b), strict=False)
    ]
    emulator.launch(
        (tmp_path / "hopper_gemm.ptx").read_text(),
        grid=spec.grid,
        block=spec.block,
        dynamic_smem=spec.dynamic_smem,
        args=[*maps, c],
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.inputs(
    "lib/cutecourse/kernels/umma/umma_tma_multicast/kernel.cu",
    "lib/cutecourse/kernels/umma/umma_two_sm/kernel.cu",
)
@pytest.mark.program("nvcc")
@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("umma_tma_multicast", umma_tma_multicast.LAUNCH),
        # The same problem, cluster and boxes, with one stage instead of three.
        ("umma_two_sm", umma_two_sm_pipeline.LAUNCH),
    ],
)
def test_umma_cu__multiplies_on_the_emulator(tmp_path, find_program, name, spec):
    nvcc(find_program, KERNELS / f"umma/{name}/kernel.cu", tmp_path / f"{name}.ptx", "-arch=sm_100a", "-ptx")
    rng = np.random.default_rng(13)
    a = rng.integers(-8, 9, (512, 256)).astype(np.float16)
    b = rng.integers(-8, 9, (1024, 256)).astype(np.float16)
    c = np.full((512, 1024), np.nan, np.float32)
    maps = [
        (runtime.emulator_tensor_map(parameter.encoding, array),)
        for parameter, array in zip(spec.params, (a, b), strict=False)
    ]
    text = (tmp_path / f"{name}.ptx").read_text()
    assert text.count("tcgen05.ld.sync") == 256 // 32  # one copy takes all columns out, 32 at a time
    emulator.launch(
        text,
        grid=spec.grid,
        block=spec.block,
        cluster=spec.cluster,
        dynamic_smem=spec.dynamic_smem,
        args=[*maps, c],
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.inputs("lib/cutecourse/kernels/umma/umma_store/kernel.cu")
@pytest.mark.program("nvcc")
def test_umma_store_cu__blends_and_stores_on_the_emulator(tmp_path, find_program):
    nvcc(find_program, KERNELS / "umma/umma_store/kernel.cu", tmp_path / "store.ptx", "-arch=sm_100a", "-ptx")
    spec = umma_store.spec(512, 512, 320, blends=True)
    rng = np.random.default_rng(13)
    a, b = (rng.integers(-8, 9, (512, 320)).astype(np.float16) for _ in "ab")
    c = rng.integers(-8, 9, (512, 512)).astype(array_type(spec.arguments["d"].dtype))
    d = np.full((512, 512), np.nan, array_type(spec.arguments["d"].dtype))
    maps = [
        (runtime.emulator_tensor_map(parameter.encoding, array),)
        for parameter, array in zip(spec.params, (a, b, d), strict=False)
    ]
    result = emulator.launch(
        (tmp_path / "store.ptx").read_text(),
        grid=spec.grid,
        block=spec.block,
        cluster=spec.cluster,
        dynamic_smem=spec.dynamic_smem,
        args=[*maps, c, np.float32(0.5), np.float32(-2)],
    )
    expected = 0.5 * (a.astype(np.float32) @ b.astype(np.float32).T) - 2 * c.astype(np.float32)
    np.testing.assert_array_equal(d, expected.astype(d.dtype))
    # CUTLASS leaves out tcgen05.fence::after_thread_sync, and the emulator remarks on it.
    assert [note.hazard.name for note in result.notes] == ["no fence after"]


@pytest.mark.inputs("lib/cutecourse/kernels/umma/umma_tile/kernel.cu")
@pytest.mark.program("nvcc")
def test_umma_tile_cu__multiplies_on_the_emulator(tmp_path, find_program):
    nvcc(
        find_program,
        KERNELS / "umma/umma_tile/kernel.cu",
        tmp_path / "umma_tile.ptx",
        "-arch=sm_100a",
        "-ptx",
    )
    rng = np.random.default_rng(11)
    a, b = (rng.integers(-8, 9, (128, 256)).astype(np.float16) for _ in "ab")
    c = np.full((128, 128), np.nan, np.float32)
    emulator.launch(
        (tmp_path / "umma_tile.ptx").read_text(),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        dynamic_smem=umma_tile.LAUNCH.dynamic_smem,
        args=[a, b, c],
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
