"""The public kernels: what is kept of them holds, and the runner tells right, wrong, reported and refused."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest

from benchmarks.corpus import table
from benchmarks.corpus.compiling import launch_arguments
from benchmarks.corpus.entries import Entry
from benchmarks.corpus.kernels import ENTRIES
from benchmarks.corpus.one import Running, outcome
from benchmarks.corpus.problems import TOLERANCES, Draw, Problem, Tensor, poisoned
from benchmarks.corpus.sources import COMPILERS, PACKAGES
from tools.paths import ROOT

DOUBLE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry run(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<3>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd5], %f2;
    ret;
}
"""


def _problem(draw: Draw, factor: float, threads: int) -> Problem:
    x = draw.normal(64)
    return Problem(1, [x, poisoned(factor * x.values, "f32")], block=threads)


def _entry(factor: float = 2.0, threads: int = 64) -> Entry:
    return Entry(
        "ours/double", "liger", "run", "nvcc", ("sm_80",), lambda draw: _problem(draw, factor, threads)
    )


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    """What `python -m benchmarks.corpus` kept."""
    return table.kept()


def test_kept__has_each_kernel_on_each_of_its_architectures(result) -> None:
    ran = Counter((row["kernel"], row["on"]) for row in result["rows"])
    assert ran == Counter((entry.name, arch) for entry in ENTRIES.values() for arch in entry.on)
    assert result["packages"] == {name: PACKAGES[name] for name in result["packages"]}
    assert {entry.package for entry in ENTRIES.values()} == set(result["packages"])
    assert result["compilers"] == {name: list(COMPILERS[name]) for name in COMPILERS}


def test_kept__nothing_is_wrong_and_every_other_outcome_has_its_reason(result) -> None:
    outcomes = Counter(row["outcome"] for row in result["rows"])
    assert set(outcomes) <= {"right", "found", "not compiled", "refused"}
    for row in result["rows"]:
        entry = ENTRIES[row["kernel"]]
        assert row["source"] == entry.kernel
        assert row["why"] == entry.why
        if row["outcome"] == "right":
            assert row["error"] <= 1
        else:
            assert entry.why, f"{entry.name} on {row['on']}: {row['said']}"


def test_kept__most_kernels_are_right_and_many_use_tcgen05(result) -> None:
    rows: dict[str, list[dict[str, object]]] = {}
    for row in result["rows"]:
        rows.setdefault(row["kernel"], []).append(row)
    right = {name: found for name, found in rows.items() if all(row["outcome"] == "right" for row in found)}
    assert len(right) >= 120
    assert sum(any(row["uses"] == ["tcgen05.mma"] for row in found) for found in right.values()) >= 30
    assert sum(row["outcome"] == "refused" for row in result["rows"]) <= 10


def test_kept__each_finding_was_met(result) -> None:
    met = {(row["kernel"], hazard) for row in result["rows"] for hazard in row.get("places", {})}
    assert {(entry.name, hazard) for entry in ENTRIES.values() for hazard in entry.findings} <= met


@pytest.mark.parametrize("name", ENTRIES)
def test_entry__states_results_that_its_seed_decides(name: str) -> None:
    first, again, other = (ENTRIES[name].make(Draw(seed)).outputs() for seed in (0, 0, 1))
    assert first, "no output has an expectation"
    for one, same in zip(first.values(), again.values(), strict=True):
        np.testing.assert_array_equal(one.expected, same.expected)
    changes = [
        not np.array_equal(one.expected, different.expected)
        for one, different in zip(first.values(), other.values(), strict=True)
    ]
    assert any(changes)
    assert any(one.error() > 1 for one in first.values()), "the outputs are right before the kernel runs"


def test_tensor__sees_one_wrong_element_and_an_unwritten_one() -> None:
    for kind in TOLERANCES:
        expected = np.linspace(-2, 2, 9)
        written = Tensor(expected, kind).becomes(expected)
        assert written.error() <= 1
        written.codes[3] = Tensor([1.5 * expected[3]], kind).codes[0]
        assert written.error() > 1
        unwritten = poisoned(expected, kind)
        assert unwritten.error() == np.inf


def test_tensor__integers_must_be_equal() -> None:
    one = Tensor(np.arange(5), "s32").becomes(np.arange(5))
    assert one.error() == 0
    one.codes[2] += 1
    assert one.error() == np.inf


def test_outcome__right_wrong_reported_and_refused() -> None:
    assert outcome(_entry(), {"ptx": DOUBLE})["outcome"] == "right"
    assert "tolerances off" in outcome(_entry(3.0), {"ptx": DOUBLE})["said"]
    assert outcome(_entry(threads=32), {"ptx": DOUBLE})["outcome"] == "wrong"
    assert outcome(_entry(threads=128), {"ptx": DOUBLE})["outcome"] == "reported"
    assert outcome(_entry(), {"ptx": DOUBLE.replace("add.f32", "add.f33")})["outcome"] == "refused"


def test_running__ends_what_takes_too_long() -> None:
    endless = DOUBLE.replace("    ret;", "again: add.u32 %r1, %r1, 1; bra again;")
    running = Running(_entry(), {"ptx": endless}, seconds=0.2, gib=8)
    while (found := running.result(0.05)) is None:
        pass
    assert found["outcome"] == "over the limit"
    assert not running.process.is_alive()


def test_launch_arguments__takes_triton_parameters_in_the_kernels_order() -> None:
    x = Draw(0).normal(4)
    problem = Problem(3, {"n": 4, "x": x})
    entry = Entry("t/t", "liger", "m:f", "triton", ("sm_80",), lambda draw: problem, {"num_warps": 2})
    answer = {
        "order": ["x", "n"],
        "entry": "f",
        "smem_bytes": 16,
        "cluster": 1,
        "scratch_bytes": 8,
        "ptx": "",
    }
    given = launch_arguments(entry, problem, answer)
    assert given["args"][0] is x.codes
    assert given["args"][1] == 4
    assert [array.nbytes for array in given["args"][2:]] == [24, 1]
    assert (given["block"], given["dynamic_smem"]) == (64, 16)
    specialized = launch_arguments(entry, problem, {**answer, "ptx": ".reqntid 256\n.maxnreg 128"})
    assert specialized["block"] == 256


def test_page__shows_each_kernel_and_counts_them(result) -> None:
    shown = (ROOT / "book" / "kernels_that_run.md").read_text(encoding="utf-8")
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("```{corpus}")] == [
        "summary", "rates", "kernels", "findings", "others", "packages",
    ]  # fmt: skip
    text = {part: table.markdown(part) for part in table.PARTS}
    names = set(ENTRIES)
    listed = {
        line.split(" | ")[0].removeprefix("| ") for line in chain(*(text[part].splitlines() for part in text))
    }
    assert names <= listed
    right = len(text["kernels"].splitlines()) - 2
    assert f"**{right} of {len(ENTRIES)} kernels" in text["summary"]
