"""The kernels that are broken on purpose, as `benchmarks.kernel_faults` runs them."""

import json

import pytest

from benchmarks import kernel_faults
from benchmarks.kernel_faults import RIGHT, observe, subjects, tma_subjects
from cutecourse.errors import CourseError

ALL = {**subjects(), **tma_subjects()}


@pytest.mark.parametrize("name", ALL)
def test_right__gives_what_its_module_expects(name):
    row = observe(ALL[name], RIGHT, device="emulator", runs=1)
    assert (row["wrong_runs"], row["gave_up"] or 0, row["runs"]) == (0, 0, 1)


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, s in ALL.items() for fault in s.faults])
def test_fault__changes_the_launch_and_not_its_arguments(name, fault):
    right, wrong = ALL[name].launch(RIGHT), ALL[name].launch(fault)
    assert wrong != right
    assert (wrong.grid, wrong.block, wrong.params) == (right.grid, right.block, right.params)


def test_arguments__differ_with_the_seed():
    for subject in ALL.values():
        (_, _, first), (_, _, again), (_, _, other) = (subject.arguments(seed) for seed in (0, 0, 1))
        assert (first == again).all()
        assert (first != other).any()


class MadeUpDevice:
    """A GPU that every second run leaves one element as it was, and says that it gave up."""

    def __init__(self):
        self.runs = 0

    def __call__(self, spec, *, device, seed, **arrays):
        self.runs += 1
        result = 2 * arrays["source"]
        if self.runs % 2:
            result[0, 0] = 0
        return {"result": result, "gave_up": arrays["gave_up"] + self.runs % 2}


def test_observe__counts_runs_and_elements(monkeypatch):
    monkeypatch.setattr(kernel_faults.runtime, "run", MadeUpDevice())
    assert observe(ALL["tma_broken"], RIGHT, runs=5) == {
        "runs": 5,
        "gave_up": 3,
        "wrong_runs": 3,
        "most_wrong_elements": 1,
        "elements": 16 * 16 * 32,
        "error": None,
    }


def test_in_a_process__keeps_the_last_line_of_an_error(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    row = kernel_faults.in_a_process("no_such_module", RIGHT)
    assert list(row) == ["error"]
    assert row["error"]
    json.dumps(row)


def test_subjects__follow_the_protocol():
    for name, subject in subjects().items():
        assert subject.faults, name
        with pytest.raises(CourseError, match="has no fault 'none'"):
            subject.launch("none")
