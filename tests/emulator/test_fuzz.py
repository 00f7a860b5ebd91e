"""A few hundred broken texts and odd launches: each ends in a result or in an error that says what it is."""

import json
from collections import Counter

import pytest

from benchmarks import fuzz, results_file
from benchmarks.fuzz_mutations import LAUNCH_CHANGES, TEXT_CHANGES, WEIGHTS
from benchmarks.results_file import result_path
from cutecourse import ptx
from cutecourse.emulator import errors

COUNT = 300


@pytest.fixture(scope="module")
def bases():
    return fuzz.texts()


@pytest.fixture(scope="module")
def rows(bases):
    return fuzz.fuzz(range(COUNT), bases)


def test_fuzz__ends_in_results_and_documented_errors(rows):
    assert [row["number"] for row in rows] == list(range(COUNT))
    assert not [row for row in rows if row["outcome"].startswith("finding")]


def test_fuzz__reaches_the_parser_the_translation_and_the_run(rows):
    seen = Counter(row["outcome"] for row in rows)
    assert seen["PtxSyntaxError"] > 30
    assert seen["result"] > 30
    assert seen["LaunchError"] > 5
    assert seen["UnsupportedInstruction"] + seen["InvalidOperand"] > 10
    assert seen["AddressError"] > 2


def test_make__gives_the_same_mutation_for_a_number(bases):
    one, again = fuzz.make(17, bases), fuzz.make(17, bases)
    assert (one.ptx, one.changes, one.base) == (again.ptx, again.changes, again.base)
    made = [fuzz.make(number, bases) for number in range(COUNT)]
    assert {name for mutation in made for name in mutation.changes} == {*TEXT_CHANGES, *LAUNCH_CHANGES}
    assert set(WEIGHTS) == set(TEXT_CHANGES)
    texts = {base.name: base.ptx for base in bases}
    changed = [mutation for mutation in made if mutation.ptx != texts[mutation.base]]
    assert len(changed) > 0.6 * COUNT


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        ("raise KeyError('x')", "KeyError"),
        ("import warnings; warnings.warn('x')", "UserWarning"),
        ("while True: pass", "TooLongError"),
    ],
)
def test_outcome__anything_else_is_a_finding(bases, monkeypatch, body, finding):
    monkeypatch.setattr(fuzz, "CPU_LIMIT_S", 0.2)
    monkeypatch.setattr(fuzz, "run", lambda mutation: exec(body))
    row = fuzz.outcome(fuzz.make(0, bases))
    assert row["outcome"] == f"finding: {finding}"


def test_work__memory_beyond_the_limit_is_a_finding(bases):
    # In a worker of its own, whose limit stays with it.
    from multiprocessing import get_context

    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_greedy, args=(theirs,), daemon=True)
    process.start()
    assert ours.poll(60)
    assert ours.recv() == "MemoryError"
    process.join()


def _greedy(pipe):
    fuzz.limit_memory()
    try:
        pipe.send(len(bytearray(2 * fuzz.MEMORY_LIMIT_BYTES)))
    except MemoryError:
        pipe.send("MemoryError")


def test_main__keeps_a_part_only_where_it_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr(fuzz, "everything", list)
    monkeypatch.setattr(fuzz, "fuzz", lambda numbers, bases, workers: [])
    assert fuzz.main(["--count", "5"]) == 0
    assert not list(tmp_path.iterdir())
    assert fuzz.main(["--count", "5", "--output", str(tmp_path / "part.json")]) == 0
    assert fuzz.main([]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fuzz.json", "part.json"]


def test_result__is_of_ten_thousand_and_has_no_open_finding():
    result = json.loads(result_path("fuzz").read_text())
    assert (result["mutations"], result["first"]) == (fuzz.COUNT, 0)
    assert sum(result["outcomes"].values()) == fuzz.COUNT
    assert result["findings"] == []
    assert result["slowest_processor_s"] < result["limits"]["processor_s"]
    assert set(result["outcomes"]) <= {"result", *errors.__all__, *ptx.__all__}
