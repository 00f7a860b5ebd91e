"""Packs from owners of a Blackwell, made by hand from the emulator's outputs: accepted, or refused."""

import base64
import json
import zlib

import numpy as np
import pytest

from benchmarks import umma_throughput as bench
from cutecourse import runtime
from cutecourse.runtime import Device, Discovery
from tools import blackwell_pack, emulator_coverage
from tools.cases import packs, ptx_cases, ptx_recordings

B300 = Device(0, "NVIDIA B300", (10, 3), 288 * 2**30, 148)


@pytest.fixture(scope="module")
def cases():
    """A few of the cases, so that a pack is made in a moment."""
    found = list(packs.cases_for_blackwell().values())
    return [next(case for case in found if case.family == family) for family in ("tcgen05", "cvt")]


def row(case):
    """A row of the throughput as a GPU would give it, at half of its bound."""
    seconds = bench.flops(case.mnk) / 1e15
    return {
        **case.__dict__,
        "seconds": seconds,
        "tflops": 1000.0,
        "bound_tflops": {"tensor_cores": 2000.0, "memory": None},
        "rows_checked": -(-case.mnk[0] // 128),
    }


@pytest.fixture(scope="module")
def made(cases):
    """A pack of a B300 that computes what the emulator does and has no time for most benchmarks."""
    ways = list(bench.cases())

    def measure(gpu, chosen):
        if ways.index(chosen[0]) > 2:
            raise bench.WrongProductError(f"{chosen[0]}: C[0,0] is wrong")
        return [row(chosen[0])]

    def run(case, capability):
        assert "sm_100a" not in packs.for_gpu(case, capability).ptx
        return ptx_recordings.entry_of(case, ptx_cases.run_on_emulator(case))

    pack = blackwell_pack.make(B300, "13.0", cases={c.name: c for c in cases}, run=run, measure=measure)
    return {**pack, "driver": "580.1", "commit": "5cd06b6a3fda"}


def written(pack, path):
    ptx_recordings.write({key: one for key, one in pack.items() if key != "cases"}, pack["cases"], path)
    return path


def test_check__accepts_a_pack_and_says_what_it_shows(made, cases, tmp_path):
    seen = packs.check(written(made, tmp_path / "b300.json"), cases)
    assert (seen.machine, seen.compute_capability) == ("NVIDIA B300", "10.3")
    assert set(seen.agree) == {case.name for case in cases}
    assert not seen.differ
    assert seen.fastest["tflops"] == 1000
    assert len(made["throughput"]) == 3
    assert all("is wrong" in said for said in made["throughput_failed"])


def test_check__accepts_what_differs_and_names_it(made, cases, tmp_path):
    """A GPU that computes something else than we expect is worth more than one that agrees."""
    case = cases[0]
    outputs = ptx_cases.run_on_emulator(case)
    outputs[case.outputs[0]].view(np.uint8).flat[0] ^= 1
    pack = {**made, "cases": {**made["cases"], case.name: ptx_recordings.entry_of(case, outputs)}}
    seen = packs.check(written(pack, tmp_path / "b300.json"), cases)
    assert set(seen.differ) == {case.name}
    assert "1 of " in seen.differ[case.name]
    assert case.name not in seen.agree


def changed(pack, *path, to):
    """A copy of the pack with the value at a place changed, or taken out with `to=None`."""
    pack = json.loads(json.dumps(pack))
    place = pack
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return pack


BAD = {
    "another_gpu": (("compute_capability",), "9.0", "compute_capability: '9.0' is none of 10.0, 10.3"),
    "no_driver": (("driver",), None, "driver: not said"),
    "no_commit": (("commit",), "mine", "commit: 'mine' is none"),
    "tomorrow": (("date",), "2999-01-01", "still to come"),
    "no_day": (("date",), "today", "no day such as"),
    "case_missing": (("cases", "{case}"), None, "1 cases are missing: {case}"),
    "stranger": (("refused",), {"tcgen05/none": "no"}, "no cases that need a Blackwell: tcgen05/none"),
    "twice": (("refused",), {"{case}": "no"}, "both recorded and refused: {case}"),
    "no_reason": (("refused",), {"{case}": ""}, "refused without a reason"),
    "stale": (("cases", "{case}", "ptx_sha256"), "0" * 64, "{case}: recorded from another text"),
    "no_outputs": (("cases", "{case}", "outputs"), {}, "{case}: has the outputs , not"),
    "shape": (("cases", "{case}", "outputs", "{output}", "shape"), [1], "has the shape [1], not"),
    "bytes": (("cases", "{case}", "outputs", "{output}", "bytes"), "AAAA", "cannot be read"),
    "too_fast": (("throughput", 0, "bound_tflops"), {"tensor_cores": 900.0}, "more than its bound 900"),
    "arithmetic": (("throughput", 0, "tflops"), 1500.0, "1500.0 TFLOP/s, but its seconds give 1000.0"),
    "unchecked": (("throughput", 1, "rows_checked"), 0, "row 1: 0 rows checked of 16"),
    "half_a_row": (("throughput", 1, "mnk"), None, "row 1: KeyError 'mnk'"),
    "no_number": (("throughput", 0, "seconds"), float("nan"), "row 0: seconds is nan"),
    "no_speed": (("throughput", 0, "tflops"), float("nan"), "row 0: tflops is nan"),
    "negative": (("throughput", 0, "seconds"), -0.001, "row 0: seconds is -0.001"),
    "words": (("throughput", 0, "seconds"), "0.1", "row 0: seconds is '0.1'"),
    "no_bound": (("throughput", 0, "bound_tflops"), {"memory": 9.0}, "tensor cores' bound is None"),
    "any_bound": (("throughput", 0, "bound_tflops", "tensor_cores"), 1e12, "bound is 1000000000000.0"),
    "own_kernel": (("throughput", 0, "kernel"), "mine", "row 0: no case of the benchmark"),
    "own_size": (("throughput", 0, "mnk"), [64, 64, 64], "row 0: no case of the benchmark"),
    "twice_timed": (("throughput", 1, "cluster"), [1, 1], "row 1: the same case as row 0"),
    "row_lost": (("throughput", 2), None, "2 rows and {failed} failures, of {ways} cases"),
    "no_reasons": (("throughput_failed",), "all", "throughput_failed: no list of reasons"),
    "markup": (("machine",), "NVIDIA B300 <b>", "machine: 'NVIDIA B300 <b>' is no plain line"),
    "two_lines": (("driver",), "580\n# Fast", "driver: '580\\n# Fast' is no plain line"),
    "hopper": (("machine",), "NVIDIA H200", "machine: 'NVIDIA H200' is no Blackwell with tcgen05"),
    "other_blackwell": (("compute_capability",), "10.0", "a GPU called 'NVIDIA B300' has 10.3"),
    "long_ago": (("date",), "1999-01-01", "date: 1999-01-01 is before the first case"),
    "further_key": (("note",), "hello", "note: no part of a pack"),
    "tail": (("cases", "{case}", "outputs", "{output}", "bytes"), "{bytes}!!!!", "cannot be read"),
    "bomb": (("cases", "{case}", "outputs", "{output}", "bytes"), "{bomb}", "read: holds more than"),
    "no_rows": (("throughput",), "none", "throughput: no list of rows"),
    "no_entries": (("cases", "{case}"), 3, "no pack; make it with"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_check__refuses_what_is_not_whole_or_not_of_these_cases(name, made, cases, tmp_path):
    where, to, said = BAD[name]
    case, output = cases[0].name, cases[0].outputs[0]
    names = {
        "case": case,
        "output": output,
        "bytes": made["cases"][case]["outputs"][output]["bytes"],
        "bomb": base64.b64encode(zlib.compress(bytes(1 << 20))).decode(),
        "failed": len(made["throughput_failed"]),
        "ways": len(bench.cases()),
    }
    where = [key.format(**names) if isinstance(key, str) else key for key in where]
    if isinstance(to, dict):
        to = {key.format(**names): one for key, one in to.items()}
    elif isinstance(to, str):
        to = to.format(**names)
    with pytest.raises(packs.BadPack) as error:
        packs.check(written(changed(made, *where, to=to), tmp_path / "bad.json"), cases)
    assert said.format(**names) in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "no pack"),
        ("[" * 100_000, "no JSON"),
        ('{"date": "2026-11-26", "date": "2026-11-27"}', "date stands there twice"),
        (" " * (1 << 20) + "{}", "bytes; a pack has at most"),
    ],
)
def test_check__refuses_what_is_no_pack(text, said, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(packs.BadPack, match=said):
        packs.check(file, [])


def test_packs__of_the_repository_are_accepted():
    packs.accepted()


def test_main__checks_files_and_refuses_where_there_is_no_blackwell(made, tmp_path, monkeypatch, capsys):
    bad = written({**made, "date": "today"}, tmp_path / "bad.json")
    assert blackwell_pack.main(["--check", str(bad)]) == 1
    assert "bad.json is refused" in capsys.readouterr().err
    monkeypatch.setattr(packs, "FOLDER", tmp_path / "none")
    assert blackwell_pack.main(["--check"]) == 0
    assert "no pack from a Blackwell GPU yet" in capsys.readouterr().out
    monkeypatch.setattr(runtime, "discover", lambda: Discovery((), None, "no NVIDIA driver was found"))
    assert blackwell_pack.main([]) == 77
    assert "left out, it needs a GPU of compute capability 10.0" in capsys.readouterr().err


def test_run_apart__gives_the_gpus_reason(monkeypatch):
    """Here the reason is that the case's process finds no GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    case = next(iter(packs.cases_for_blackwell().values()))
    with pytest.raises(RuntimeError, match=r"\w"):
        blackwell_pack.run_apart(case, "10.0")


def test_make__goes_on_when_a_case_is_refused(cases):
    def refuse(case, capability):
        raise RuntimeError("the CUDA driver answered CUDA_ERROR_ILLEGAL_INSTRUCTION")

    pack = blackwell_pack.make(
        B300, "13.0", cases={c.name: c for c in cases}, run=refuse, measure=lambda *_: []
    )
    assert set(pack["refused"]) == {case.name for case in cases}
    assert not pack["cases"]


def test_coverage__says_what_a_pack_shows(made, cases, tmp_path, monkeypatch):
    sent = [packs.check(written(made, tmp_path / "b300.json"), cases)]
    monkeypatch.setattr(emulator_coverage, "accepted", lambda folder: sent)
    coverage = emulator_coverage.measure()
    monkeypatch.setattr(emulator_coverage, "_measured", lambda: coverage)
    shown = emulator_coverage.markdown("blackwell")
    assert "NVIDIA B300 (10.3), driver 580.1" in shown
    assert "2 cases as expected, 0 differ, 0 refused" in shown
    assert "1000 (" in shown
    seen = [name for name, count in coverage.counts.items() if count.seen]
    assert any(name.startswith("tcgen05") for name in seen)
    assert "tcgen05" not in emulator_coverage.markdown("unmet")
    assert "a Blackwell GPU of a reader" in emulator_coverage.markdown("instructions")
