"""TMA loads dumped byte by byte: the library's prediction, the emulator, and what an H200 left in memory."""

import hashlib
import json

import numpy as np
import pytest

from cutecourse import emulator, runtime
from cutecourse.kernels import SpecError, tma_dump
from cutecourse.tma import TensorMapEncoding, smem_image
from tools.cases.ptx_recordings import unpack
from tools.cases.tma_cases import CASES, RECORDING

BYTES = np.zeros(0, np.uint8)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDING.read_text(encoding="utf-8"))


def dumped(case, device="emulator", seed=0):
    run = runtime.run(case.spec(), device=device, seed=seed, **case.arguments())
    assert run["arrived"].tolist() == [1]
    return run["out"]


@pytest.mark.parametrize("name", CASES)
def test_smem_image__is_the_swizzled_tile(name):
    case = CASES[name]
    assert np.array_equal(smem_image(case.trace, case.source(), case.tile), case.predicted())


@pytest.mark.parametrize(
    "device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu("sm_90"), id="gpu")]
)
@pytest.mark.parametrize("name", CASES)
def test_load__leaves_the_bytes_that_the_layouts_say(name, device):
    case = CASES[name]
    assert np.array_equal(dumped(case, device), case.predicted())


@pytest.mark.parametrize("name", ["K-128B-16", "slices4-MN-128B-16", "rank5"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_load__leaves_the_same_bytes_whenever_they_land(name, seed):
    assert np.array_equal(dumped(CASES[name], seed=seed), CASES[name].predicted())


@pytest.mark.parametrize("name", CASES)
def test_recording__is_what_library_and_emulator_say(name, recorded):
    case, entry = CASES[name], recorded["cases"][name]
    assert entry["ptx_sha256"] == hashlib.sha256(case.spec().ptx.encode()).hexdigest(), "record it anew"
    dump = unpack(entry["outputs"]["out"], BYTES)
    assert unpack(entry["outputs"]["arrived"], np.zeros(0, np.uint32)).tolist() == [1]
    assert np.array_equal(dump, smem_image(case.trace, case.source(), case.tile))
    assert np.array_equal(dump, dumped(case))


def test_recording__has_every_case_and_says_where_it_is_from(recorded):
    assert set(recorded["cases"]) == set(CASES)
    assert recorded["compute_capability"] == "9.0"
    assert all(recorded[field] for field in ("driver", "date", "commit"))


def test_cases__reach_every_swizzle_major_and_width():
    encodings = [CASES[name].trace.encoding for name in CASES if name.startswith(("K-", "MN-"))]
    assert len({(e.swizzle, e.dtype.bits) for e in encodings}) == 16
    assert len(encodings) == 32
    assert {case.trace.rank for case in CASES.values()} == {1, 2, 3, 4, 5}
    assert any(np.any(case.predicted() == 0) for case in CASES.values())


def test_dump__leaves_alone_what_no_load_touches():
    encoding = TensorMapEncoding("u8", dims=(64, 4), strides_bytes=(64,), box=(32, 2))
    spec = tma_dump.dump(encoding, (4, 64), (64, 1), coords=(16, 1), smem_bytes=256, offset=128)
    source = np.arange(256, dtype=np.uint8).reshape(4, 64)
    run = runtime.run(
        spec, device="emulator", source=source, out=np.zeros(256, np.uint8), arrived=np.zeros(1, np.uint32)
    )
    assert np.all(run["out"][:128] == tma_dump.FILL_BYTE)
    assert np.array_equal(run["out"][128:192], source[1:3, 16:48].ravel())
    assert np.all(run["out"][192:] == tma_dump.FILL_BYTE)


def test_load__finds_its_tensor_map_in_a_struct():
    # As CUTLASS passes an atom: the tensor map and what else the atom holds, in one parameter.
    spec = tma_dump.LAUNCH
    wider = spec.ptx.replace(".b8 map[128]", ".b8 map[320]").replace("mov.b64             %map, map;", "")
    moved = wider.replace(
        "cvta.param.u64      %map, %map;",
        "mov.b64 %map, map;\n    cvta.param.u64 %map, %map;\n    add.u64 %map, %map, 64;",
    )
    assert moved.count("map[320]") == moved.count("add.u64 %map, %map, 64;") == 1
    source = np.arange(64 * 128, dtype=np.uint16).reshape(64, 128).view(np.float16)
    tensor_map = runtime.emulator_tensor_map(spec.params[0].encoding, source)
    out, arrived = np.zeros(1024, np.uint8), np.zeros(1, np.uint32)
    struct = (np.uint64(7), tensor_map, np.uint32(9))
    emulator.launch(moved, grid=spec.grid, block=spec.block, args=[struct, out, arrived])
    assert arrived.tolist() == [1]
    assert sorted(out.view(np.uint16)) == sorted(source[16:24, 64:].view(np.uint16).ravel())


def test_dump__fills_with_zeros_what_lies_before_the_tensor():
    encoding = TensorMapEncoding("u8", dims=(64, 4), strides_bytes=(64,), box=(32, 2))
    spec = tma_dump.dump(encoding, (4, 64), (64, 1), coords=(-16, -1), smem_bytes=64)
    source = np.arange(1, 257, dtype=np.uint16).astype(np.uint8).reshape(4, 64)
    run = runtime.run(
        spec, device="emulator", source=source, out=np.zeros(64, np.uint8), arrived=np.zeros(1, np.uint32)
    )
    expected = np.zeros((2, 32), np.uint8)
    expected[1, 16:] = source[0, :16]
    assert np.array_equal(run["out"], expected.ravel())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"coords": (0,)}, "rank 2 starts at 2 coordinates, not at (0,)"),
        ({"smem_bytes": 24}, "24 bytes of shared memory cannot be dumped"),
        ({"smem_bytes": 1 << 16}, "65536 bytes of shared memory cannot be dumped"),
        ({"offset": 128}, "a box that spans 1024 bytes at offset 128 does not fit 1024 bytes"),
    ],
)
def test_dump__refuses_what_cannot_be_dumped(changes, words):
    given = {"coords": (0, 0), "smem_bytes": 1024} | changes
    encoding = TensorMapEncoding("f16", dims=(128, 64), strides_bytes=(256,), box=(64, 8))
    with pytest.raises(SpecError) as error:
        tma_dump.dump(encoding, (64, 128), (128, 1), **given)
    assert words in str(error.value)
