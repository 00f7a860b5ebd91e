"""The benchmarks' arithmetic and reading of counters, without a GPU."""

import pytest

from benchmarks import memory_counters, mma_latency
from benchmarks.memory_counters import LOAD_SECTORS, SHARED_LOAD_CONFLICTS, STORE_REQUESTS, STORE_SECTORS
from cutecourse import runtime

NCU = """==PROF== Connected to process 7
==PROF== Disconnected from process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","epilogue_direct_0","l1tex__t_requests_pipe_lsu_mem_global_op_st.sum","request","4"
"0","7","epilogue_direct_0","l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum","sector","16"
"1","7","mma_raw","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","sector","1,064"
"""


def test_counters__reads_nsight_computes_table_by_launch():
    assert memory_counters.counters(NCU) == [{STORE_REQUESTS: 4, STORE_SECTORS: 16}, {LOAD_SECTORS: 1064}]


def test_counters__without_a_table_shows_what_was_printed():
    with pytest.raises(runtime.GpuError, match="ERR_NVGPUCTRPERM"):
        memory_counters.counters("==ERROR== ERR_NVGPUCTRPERM")


def test_predictions__are_what_was_counted_by_hand():
    # Two ways to store 128 floats, each sector written once; 6 fragment loads of 8 rows of 16 bytes each, and
    # C's 16 sectors; a 2-way conflict for each of 6 registers, and for each of 6 matrices.
    assert list(memory_counters.predictions().values()) == [
        {STORE_SECTORS: 16, STORE_REQUESTS: 4},
        {STORE_SECTORS: 16, STORE_REQUESTS: 2},
        {LOAD_SECTORS: 6 * 8 + 16, STORE_SECTORS: 16},
        {SHARED_LOAD_CONFLICTS: 6},
        {SHARED_LOAD_CONFLICTS: 6},
    ]


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("NVIDIA H200", "mma_latency_h200.json"),
        ("NVIDIA GeForce RTX 3090", "mma_latency_geforce_rtx_3090.json"),
        ("NVIDIA A100-SXM4-80GB", "mma_latency_a100_sxm4_80gb.json"),
    ],
)
def test_file_name__is_the_gpus(gpu, name):
    assert mma_latency.file_name(gpu) == name


class MadeUpGpu:
    """A multiprocessor that takes 33 cycles to answer and starts an mma every other cycle."""

    def __init__(self, ptx, entry, fault=0):
        self.chains = ptx.count("mma.sync") // mma_latency.UNROLLED
        self.fault = fault

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def launch(self, args, *, grid, block):
        start, stop, sums, turns = args
        warps = block[0] // 32
        rounds = mma_latency.UNROLLED * int(turns)
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
