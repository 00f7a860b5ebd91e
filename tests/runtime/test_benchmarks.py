"""The benchmarks' arithmetic and reading of counters, without a GPU."""

import json

import numpy as np
import pytest

from benchmarks import (
    emulator_umma,
    gemm_timing,
    gemm_variants,
    memory_counters,
    mma_ceiling,
    mma_latency,
    results_file,
    tile_loads,
    tma_bandwidth,
)
from benchmarks.results_file import result_path
from cutecourse import runtime
from cutecourse.kernels import mma_timing
from cutecourse.kernels.spec import SpecError
from tools.paths import ROOT

NCU = """==PROF== Connected to process 7
==PROF== Disconnected from process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","epilogue_direct_0","l1tex__t_requests_pipe_lsu_mem_global_op_st.sum","request","4"
"0","7","epilogue_direct_0","l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum","sector","16"
"1","7","mma_raw","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,064"
"""


def test_counters__reads_nsight_computes_table_by_launch():
    sectors, requests = (f"l1tex__t_{what}_pipe_lsu_mem_global_op_st.sum" for what in ("sectors", "requests"))
    loaded = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert memory_counters.counters(NCU) == [{requests: 4, sectors: 16}, {loaded: 1064}]


def test_counters__without_a_table_shows_what_was_printed():
    with pytest.raises(runtime.GpuError, match="ERR_NVGPUCTRPERM"):
        memory_counters.counters("==ERROR== ERR_NVGPUCTRPERM")


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        (None, "mma_latency.json"),
        ("NVIDIA H200", "mma_latency_h200.json"),
        ("NVIDIA GeForce RTX 3090", "mma_latency_geforce_rtx_3090.json"),
        ("NVIDIA A100-SXM4-80GB", "mma_latency_a100_sxm4_80gb.json"),
    ],
)
def test_result_path__is_the_gpus_or_the_one_of_any_cpu(gpu, name):
    assert result_path("mma_latency", gpu).name == name


class MadeUpGpu:
    """A multiprocessor that takes 33 cycles to answer and starts an mma every other cycle."""

    def __init__(self, ptx, entry, fault=0):
        self.chains = ptx.count("mma.sync") // mma_timing.UNROLLED
        self.fault = fault

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def launch(self, args, *, grid, block):
        start, stop, sums, turns = args
        warps = block[0] // 32
        rounds = mma_timing.UNROLLED * int(turns)
        start[:] = 1000
        stop[:] = 1000 + 77 + rounds * max(33, 2 * self.chains * warps)
        sums[:] = 16 * 4 * self.chains * rounds - self.fault
        return [1e-6]


def test_measure__finds_latency_and_throughput(monkeypatch):
    monkeypatch.setattr(runtime, "GpuKernel", MadeUpGpu)
    rows = {(row["warps"], row["chains"]): row for row in mma_latency.measure()}
    assert rows[1, 1]["cycles_per_round"] == 33
    assert rows[1, 4]["cycles_per_mma_in_a_warp"] == 33 / 4
    assert rows[16, 8]["cycles_per_mma_on_the_multiprocessor"] == 2
    assert rows[16, 8]["fmas_per_cycle"] == 1024
    assert "    2.00" in mma_latency.table(list(rows.values())).splitlines()[-1]


def test_measure__refuses_sums_of_another_amount_of_work(monkeypatch):
    monkeypatch.setattr(runtime, "GpuKernel", lambda ptx, entry: MadeUpGpu(ptx, entry, fault=16))
    with pytest.raises(mma_latency.WrongSumError, match="1 chains, 1 warps"):
        mma_latency.measure()


# --- tma_bandwidth ----------------------------------------------------------------------------------------

LOADS = [
    ("plain", 2, 1, 2),
    ("cp.async", 2, 1, 2),
    ("cp.async", 3, 1, 2),
    ("tma", 3, 1, 2),
    ("tma", 2, 4, 8),
    ("multicast", 2, 4, 4),
    ("multicast", 3, 4, 8),
]


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda:0", marks=pytest.mark.gpu, id="gpu")])
@pytest.mark.parametrize(("method", "stages", "cluster", "blocks"), LOADS)
@pytest.mark.parametrize("words", [1, 32])
def test_tile_loads__add_up_the_words_that_they_brought(device, method, stages, cluster, blocks, words):
    """More tiles than stages, and the matrix round more than once, so that every barrier is used again."""
    tiles, count = 16, 7
    matrix = tma_bandwidth.make_matrix(tiles, seed=words)
    spec = tile_loads.loads_spec(method, stages=stages, tiles=tiles, blocks=blocks, cluster=cluster)
    numbers = {"count": count, "workers": blocks // cluster, "last_tile": tiles - 1, "words": words}
    run = runtime.run(spec, device=device, matrix=matrix, sums=np.zeros(blocks, np.uint32), **numbers)
    workers = blocks // cluster
    for block in range(blocks):
        total = 0
        for index in range(count):
            tile = (index * workers + block // cluster) % tiles
            row, column = 128 * (tile // 16), 32 * (tile % 16)
            total += int(matrix[row : row + 4 * words, column : column + 32].sum(dtype=np.uint64))
        assert int(run["sums"][block]) == total % 2**32


def test_expected_sums__are_those_of_each_blocks_tiles():
    sums = np.array([1, 10, 100, 1000], np.uint32)
    # Block 0 takes tiles 0, 2, 0 and block 1 tiles 1, 3, 1.
    assert tma_bandwidth.expected_sums(sums, blocks=2, cluster=1, count=3).tolist() == [102, 1020]
    assert tma_bandwidth.expected_sums(sums, blocks=4, cluster=4, count=2).tolist() == [11] * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "ldgsts"}, "no method 'ldgsts'"),
        ({"method": "plain", "stages": 3}, "3 stages do not fit plain"),
        ({"method": "multicast", "cluster": 1}, "a cluster of 1 does not fit multicast"),
        ({"tiles": 24}, "24 tiles; give a power of two"),
    ],
)
def test_loads_spec__refuses_what_does_not_fit(changes, message):
    given = {"method": "tma", "stages": 4, "tiles": 16, "blocks": 4, "cluster": 4}
    with pytest.raises(SpecError, match=message):
        tile_loads.loads_spec(**{**given, **changes})


class TileGpu:
    """A GPU that brings 1 GB/s to each block, and adds up rightly unless it has a fault."""

    def __init__(self, ptx, entry, dynamic_smem, fault=0):
        self.fault = fault

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def launch(self, args, *, grid, block, cluster, repeat):
        matrix, sums = args[1:3]
        count, words = int(args[3]), int(args[6])
        each = tma_bandwidth.tile_sums(matrix, words)
        size = cluster[0] * cluster[1] * cluster[2]
        sums += tma_bandwidth.expected_sums(each, grid[0], size, count) * np.uint32(repeat)
        sums[-1] += np.uint32(self.fault)
        return [count * tile_loads.TILE_BYTES / 1e9] * repeat


def test_tma_bandwidth__counts_what_every_block_was_brought(monkeypatch):
    monkeypatch.setattr(runtime, "GpuKernel", TileGpu)
    rows = tma_bandwidth.measure(12, {"L2": 16, "memory": 32})
    assert {(row["blocks"], round(row["gigabytes_per_second"], 6)) for row in rows} == {
        *((blocks, float(blocks)) for blocks in (1, 4, 8, 12, 48))
    }
    of_method = {row["method"]: row for row in rows}
    for method in ("plain", "tma"):
        assert of_method[method]["bytes_requested_of_L2"] == of_method[method]["bytes_delivered"]
    multicast = of_method["multicast"]
    assert 4 * multicast["bytes_requested_of_L2"] == multicast["bytes_delivered"]
    lines = tma_bandwidth.table(rows).splitlines()
    assert len(lines) == 2 + len(tma_bandwidth.WAYS) + len(tma_bandwidth.SHARED_WAYS)
    assert lines[2].split()[-4:] == ["1", "1", "12", "12"]


def test_tma_bandwidth__refuses_sums_of_other_tiles(monkeypatch):
    monkeypatch.setattr(runtime, "GpuKernel", lambda *given, **named: TileGpu(*given, **named, fault=1))
    with pytest.raises(tma_bandwidth.WrongSumError, match="plain, 2 stages, 12 blocks: block 11"):
        tma_bandwidth.measure(12, {"L2": 16})


# --- emulator_umma ----------------------------------------------------------------------------------------

ONE_PROCESS = {
    "seconds": [2.0],
    "cpu": [3.0],
    "compile_s": 1.0,
    "instructions": 7,
    "processes": 1,
    "tensors_mb": 1.0,
    "peak_mb_above_tensors": 1.0,
    "before_launch_mb": 1.0,
    "copy_mb": 0.0,
    "load": 0.0,
}


def kept(folder, column):
    """The rows of each file in a folder, as what stands in one column."""
    return {
        path.name: {row[column] for row in json.loads(path.read_text())["rows"]} for path in folder.iterdir()
    }


def test_emulator_umma__keeps_some_of_the_cases_only_where_it_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr(
        emulator_umma, "ask", lambda *given, library: {**ONE_PROCESS, "library": str(library.resolve())}
    )
    monkeypatch.setattr(
        emulator_umma, "profile", lambda case: [{"function": "step", "calls": 1, "share": 1.0}]
    )
    assert emulator_umma.main(["--cases", "0", "2"]) == 0
    assert not list(tmp_path.iterdir())
    assert "a part; --output FILE keeps it" in capsys.readouterr().out
    assert emulator_umma.main(["--cases", "1", "--output", str(tmp_path / "part.json")]) == 0
    assert emulator_umma.main([]) == 0
    cases = [case.name for case in emulator_umma.CASES]
    assert kept(tmp_path, "case") == {"part.json": {cases[1]}, "emulator_umma.json": {*cases}}


def test_emulator_umma__launches_two_libraries_in_turns(monkeypatch, tmp_path):
    """Here the other library is this one; the rest of the kept figures stays."""
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr(emulator_umma, "commit_of", lambda checkout: "0123456789ab")
    (tmp_path / "emulator_umma.json").write_text('{"rows": [{"case": "kept"}]}')
    command = ["--turns", "copy_threads", "--before", str(ROOT), "--launches", "3", "--pairs", "1"]
    assert emulator_umma.main(command) == 0
    found = json.loads((tmp_path / "emulator_umma.json").read_text())
    assert found["rows"] == [{"case": "kept"}]
    row = found["turns"]["copy_threads"]
    assert (row["recorded"]["before"], row["launches"]) == ("0123456789ab", 3)
    assert min(row["before_s"], row["after_s"], row["after_by_before"]) > 0


def test_emulator_umma__refuses_turns_of_another_library(tmp_path):
    with pytest.raises(RuntimeError, match=rf" was timed, not {tmp_path}"):
        emulator_umma.in_turns("copy_threads", 1, tmp_path)


def test_emulator_umma__refuses_times_of_another_library(monkeypatch, tmp_path):
    monkeypatch.setattr(emulator_umma, "ask", lambda *given, library: {**ONE_PROCESS, "library": "/else"})
    with pytest.raises(RuntimeError, match=r"/else was timed, not "):
        emulator_umma.main(["--output", str(tmp_path / "none.json")])


def test_ask__runs_a_module_with_the_library_before_others(tmp_path):
    (tmp_path / "which_library.py").write_text(
        "import json, os, sys\nprint('words')\n"
        "print(json.dumps([__file__, sys.argv[1:], os.environ['ASKED']]))\n"
    )
    told = gemm_timing.ask("which_library", "a", "b", library=tmp_path, environment={"ASKED": "yes"})
    assert told == [str(tmp_path / "which_library.py"), ["a", "b"], "yes"]


def test_check__refuses_a_product_with_a_wrong_element():
    a, b, expected = gemm_timing.operands((16, 8, 32))
    product = a.astype(np.float32) @ b.astype(np.float32).T
    gemm_timing.check("it", product, expected, 32)
    product[3, 4] += 0.001
    with pytest.raises(gemm_timing.WrongProductError, match="it: an element is off by 1"):
        gemm_timing.check("it", product, expected, 32)


def test_mma_ceiling__adds_every_product_in_each_turn():
    spec = mma_ceiling.ceiling_spec(blocks=1, warps=2, along_m=2, along_n=3)
    a, b = mma_ceiling.fragments(spec, seed=0)
    c = np.full(spec.tensors[2].extents, np.nan, np.float32)
    run = runtime.run(spec, device="emulator", a=a, b=b, c=c, cycles=np.zeros(64, np.uint64), turns=3)
    assert np.allclose(run["c"], 3 * mma_ceiling.product_of_fragments(a, b), atol=1e-3)
    assert np.all(run["cycles"] > 0)
    assert mma_ceiling.flops(spec, 3) == 3 * 2 * 6 * 2 * 16 * 8 * 16  # turns, warps, MMAs, both operations


@pytest.mark.parametrize("variant", gemm_variants.VARIANTS, ids=lambda variant: variant.name)
def test_variant__is_a_kernel_of_its_own(variant):
    spec = variant.spec((4096, 4096, 4096))
    m, n, _ = variant.tile
    assert spec.grid == (-(-4096 // m) * -(-4096 // n), 1, 1)
    assert spec.block == (32 * variant.warps[0] * variant.warps[1], 1, 1)
    others = [one for one in gemm_variants.VARIANTS if one is not variant]
    assert variant.name not in [one.name for one in others]


def test_variant__multiplies():
    variant = gemm_variants.Variant(tile=(128, 128, 64), warps=(2, 2), stages=3, sets=1, cache="ca")
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 3, (rows, 200), endpoint=True).astype(np.float16) for rows in (130, 136))
    run = runtime.run(
        variant.spec((130, 136, 200)), device="emulator", a=a, b=b, c=np.zeros((130, 136), np.float16)
    )
    assert np.array_equal(run["c"].astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T)
