"""Every PTX case: on the emulator, against its NumPy expression, against recordings, and on a GPU."""

import shutil
import subprocess
from functools import cache

import numpy as np
import pytest

from support import machine, speed
from tools import record_cases
from tools.cases import ptx_cases, ptx_recordings
from tools.cases.case_texts import FOLDER, case_texts, hint

CASES = ptx_cases.names()


@pytest.fixture(params=CASES)
def case(request):
    return ptx_cases.load(request.param)


@cache
def outputs(name):
    """What the emulator computes for a case: the same for each comparison, so it runs once."""
    return ptx_cases.run_on_emulator(ptx_cases.load(name))


@pytest.fixture(scope="session")
def recorded():
    return ptx_recordings.read()


@pytest.fixture(scope="session")
def gpu():
    from tools.cases.ptx_gpu import Gpu

    return Gpu()


def _compare(case, got, wanted, *, any_nan):
    problems = [
        ptx_cases.difference(name, got[name], values, case.tolerance, any_nan=any_nan)
        for name, values in wanted.items()
    ]
    problems = [p for p in problems if p]
    assert not problems, "\n".join([*problems, hint(case.name)])


def test_cases__emulator_agrees_with_the_numpy_expression(case):
    got = outputs(case.name)
    before = case.make_args()
    for name in case.outputs:
        assert got[name].tobytes() != before[name].tobytes(), f"{name} was not written"
    # NumPy's NaNs carry other bits than the hardware's; which bits is a matter of the recording.
    _compare(case, got, case.expected(), any_nan=True)


def test_cases__emulator_agrees_with_the_recording(case, recorded):
    entry = recorded.get(case.name)
    if entry is None:
        unexpected = set(case.outputs) - set(case.expect)
        assert not unexpected, f"neither a recording nor an expectation says what {unexpected} must be"
        if not case.specification_only:
            pytest.skip(machine.NOT_YET_RECORDED)
        return
    assert not case.specification_only, f"{case.name} is recorded: it is not 'specification only'"
    assert entry["ptx_sha256"] == case.sha256, (
        f"{case.name} has changed since it was recorded: undo the change, make it a case of its own, or give "
        f"up the recording with 'python -m tools.record_cases --forget'. {hint(case.name)}"
    )
    got = outputs(case.name)
    wanted = {name: ptx_recordings.unpack(packed, got[name]) for name, packed in entry["outputs"].items()}
    assert set(wanted) == set(case.outputs)
    _compare(case, got, wanted, any_nan=False)


def test_cases__recording_names_no_case_that_is_gone(recorded):
    assert len(recorded) > 1000
    assert set(recorded) <= set(CASES)


@pytest.mark.gpu
def test_cases__gpu_agrees_with_the_emulator(case, gpu):
    if case.specification_only:
        pytest.skip(f"specification only: {case.specification_only}")
    if (reason := machine.too_old_for(case.target)) is not None:
        pytest.skip(reason)
    _compare(case, outputs(case.name), gpu.run(case), any_nan=False)


@pytest.mark.long
def test_cases__other_seeds_change_no_result(case):
    _compare_seeds(case)


@pytest.mark.parametrize("family", sorted({name.partition("/")[0] for name in CASES}))
def test_cases__other_seeds_change_no_result_of_a_part(family):
    names = [name for name in CASES if name.startswith(f"{family}/")]
    for name in names[:: max(1, len(names) // 12)]:
        _compare_seeds(ptx_cases.load(name))


@pytest.mark.long
@pytest.mark.parametrize("change", [speed.one_by_one, speed.at_once], ids=["one by one", "at once"])
def test_cases__what_makes_the_emulator_faster_changes_no_result(case, change, monkeypatch):
    _compare_speeds(case, change, monkeypatch)


@pytest.mark.parametrize("change", [speed.one_by_one, speed.at_once], ids=["one by one", "at once"])
@pytest.mark.parametrize("family", sorted({name.partition("/")[0] for name in CASES}))
def test_cases__what_makes_the_emulator_faster_changes_no_result_of_a_part(family, change, monkeypatch):
    names = [name for name in CASES if name.startswith(f"{family}/")]
    for name in names[1 :: max(1, len(names) // 6)]:
        _compare_speeds(ptx_cases.load(name), change, monkeypatch)


def _compare_speeds(case, change, monkeypatch):
    usual = ptx_cases.run_on_emulator(case)
    with monkeypatch.context() as changed:
        change(changed)
        other = ptx_cases.run_on_emulator(case)
    for name, values in usual.items():
        np.testing.assert_array_equal(values.view(np.uint8), other[name].view(np.uint8))


def _compare_seeds(case):
    first = ptx_cases.run_on_emulator(case, seed=1)
    second = ptx_cases.run_on_emulator(case, seed=2)
    for name, values in first.items():
        np.testing.assert_array_equal(values.view(np.uint8), second[name].view(np.uint8))


@pytest.mark.program("ptxas")
@pytest.mark.inputs(
    "tests/emulator/cases",
    "tools/cases/case_texts.py",
    "tools/cases/wgmma_cases.py",
    "tools/cases/wgmma_ptx.py",
)
def test_cases__ptxas_assembles_every_case(tmp_path, find_program):
    refused = []
    for case in ptx_cases.all_cases():
        path = tmp_path / f"{case.name.replace('/', '.')}.ptx"
        path.write_text(case.ptx)
        done = subprocess.run(
            [find_program("ptxas"), f"-arch={case.target}", "-o", tmp_path / "out.cubin", path],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            refused.append(f"{done.stderr or done.stdout}{hint(case.name)}")
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert not refused, "\n".join(refused)


@pytest.fixture
def two_cases(tmp_path, monkeypatch):
    """A folder with two cases of one family and their recording, in place of the repository's."""
    cases = tmp_path / "cases"
    (cases / "elect").mkdir(parents=True)
    for path in (FOLDER / "elect").glob("*.ptx"):
        shutil.copy(path, cases / "elect")
    shutil.copytree(
        ptx_cases.RECORDING,
        tmp_path / "recordings",
        ignore=lambda _, names: {*names} - {"elect.json"},
    )
    monkeypatch.setattr(ptx_cases, "texts", lambda: case_texts(cases))
    assert sorted(ptx_recordings.read(tmp_path / "recordings")) == ["elect/exited", "elect/masks"]
    return tmp_path


def forget(folder, capsys):
    assert record_cases.main(["--forget", "--output", str(folder / "recordings")]) == 0
    return capsys.readouterr().out.splitlines()


def test_forget__leaves_current_recordings_as_they_are(two_cases, capsys):
    file = two_cases / "recordings" / "elect.json"
    before = file.read_bytes()
    assert forget(two_cases, capsys) == ["every recording belongs to its case"]
    assert file.read_bytes() == before


def test_forget__removes_the_recording_of_a_case_that_has_changed(two_cases, capsys):
    file = two_cases / "recordings" / "elect.json"
    before = file.read_text().splitlines()
    changed = two_cases / "cases" / "elect" / "masks.ptx"
    changed.write_text(changed.read_text() + "\n")
    assert forget(two_cases, capsys) == [
        "removed the recording of elect/masks, which is now not yet recorded on hardware"
    ]
    assert sorted(ptx_recordings.read(two_cases / "recordings")) == ["elect/exited"]
    left = file.read_text().splitlines()
    assert [line.rstrip(",") for line in before if "elect/masks" not in line] == [
        line.rstrip(",") for line in left
    ]


def test_forget__removes_the_file_of_a_family_that_is_gone(two_cases, capsys):
    shutil.rmtree(two_cases / "cases" / "elect")
    assert forget(two_cases, capsys) == [
        "removed the recording of elect/exited, whose case is gone",
        "removed the recording of elect/masks, whose case is gone",
    ]
    assert not (two_cases / "recordings" / "elect.json").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--family", "mma", "wgma"], "no family 'wgma' has cases to record; there are approximate, "),
        (["--only", "mma/", "wgma/one"], "no case begins with 'wgma/one'; the families are approximate, "),
    ],
)
def test_record_cases__refuses_a_family_or_case_that_there_is_not(given, words, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        record_cases.main([*given, "--output", str(tmp_path)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
