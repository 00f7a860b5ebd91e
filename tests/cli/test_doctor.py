"""The doctor's findings and its table, on made-up machines and on this one."""

import importlib.metadata
import json
import platform
import subprocess
import sys

import pytest

from cutecourse.cli import doctor, main
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.runtime.discovery import Device, Discovery

H200 = Discovery((Device(0, "NVIDIA H200", (9, 0), 150 * 2**30, 132),), "13.0", None)
ORIN = Discovery((Device(0, "Orin", (8, 7), 32 * 2**30, 16),), "12.6", None)
TURING = Discovery((Device(0, "Tesla T4", (7, 5), 16 * 2**30, 40),), "13.0", None)
B200 = Discovery((Device(0, "NVIDIA B200", (10, 0), 180 * 2**30, 148),), "13.0", None)
NOTHING = Discovery((), None, "no NVIDIA driver was found (SomeError)")

# Chapters that every GPU of the table runs.
SM_80 = {chapter.name for chapter in CHAPTERS if chapter.target == "sm_80"}


def head_and_rows(text):
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip().startswith("chapter"))
    return lines[start].split(), [line.split() for line in lines[start + 1 :] if line.split()[0] in SM_80]


@pytest.mark.parametrize(
    ("found", "marked", "here"),
    [
        (H200, ["[9.0]"], "native"),
        (ORIN, ["[8.7]"], "native"),
        (TURING, ["[7.5]"], "emulator"),
        (NOTHING, ["[no", "GPU]"], "emulator"),
    ],
)
def test_report__marks_this_machines_column(found, marked, here):
    text = doctor.report(doctor.examine(found))
    head, rows = head_and_rows(text)
    assert [word for word in head if "[" in word or "]" in word] == marked
    columns = [word.strip("[]") for word in head]
    own = marked[0].strip("[]")
    assert {row[0] for row in rows} == SM_80
    for row in (row for row in rows if row[1] != "needs"):
        assert row[columns.index(own)] == here
        assert row[columns.index("8.0")] == "native"
        assert row[-1] == "emulator"


def test_report__keeps_its_columns_under_their_heads():
    """A chapter's name may be longer than the first ones were."""
    lines = doctor.report(doctor.examine(H200)).splitlines()
    head = next(line for line in lines if line.startswith("  chapter "))
    rows = [line for line in lines if line[:4].strip().isdigit() and " needs " not in line]
    assert len(rows) == len(CHAPTERS)
    assert {len(row) for row in rows} == {len(head)}


def test_report__chapters_of_tma_run_on_the_emulator_before_hopper():
    found = doctor.examine(ORIN)
    runs = {
        chapter["chapter"]: chapter["runs"] for chapter in found["chapters"] if chapter["target"] == "sm_90"
    }
    assert runs
    for row in runs.values():
        assert (row["8.0"], row["8.9"], row["9.0"], row["10.0"]) == (
            "emulator",
            "emulator",
            "native",
            "native",
        )


def test_report__chapters_of_tcgen05_run_on_their_own_generation_only():
    found = doctor.examine(B200)
    chapters = [chapter for chapter in found["chapters"] if chapter["target"] == "sm_100a"]
    assert [chapter["chapter"] for chapter in chapters] == [
        "11_hello_umma",
        "12_umma_tma_multicast",
        "13_two_sm_umma",
        "14_persistent_umma",
        "15_block_scales",
        "16_blackwell_attention",
    ]
    for chapter in chapters:
        assert chapter["here"] == "native"
        assert {column for column, where in chapter["runs"].items() if where == "native"} == {"10.0"}


def test_report__has_a_row_and_a_reason_for_each_chapter():
    found = doctor.examine(NOTHING)
    text = doctor.report(found)
    for chapter in found["chapters"]:
        assert f"{chapter['chapter']} needs {chapter['target']}: {chapter['reason']}" in text
    assert "no NVIDIA driver was found (SomeError). The emulator runs every chapter." in text


def test_report__names_the_gpu_and_the_driver():
    text = doctor.report(doctor.examine(H200))
    assert "cuda:0     NVIDIA H200, compute capability 9.0, 150 GiB, 132 multiprocessors" in text
    assert "for CUDA 13.0" in text


def test_examine__finds_what_is_installed_and_what_is_missing(monkeypatch):
    real_version = importlib.metadata.version

    def without_compilers(package):
        if package in {"nvidia-cutlass-dsl", "numba-cuda"}:
            raise importlib.metadata.PackageNotFoundError(package)
        return real_version(package)

    monkeypatch.setattr(importlib.metadata, "version", without_compilers)
    found = doctor.examine(NOTHING)
    assert found["packages"]["nvidia-cutlass-dsl"] is None
    assert found["packages"]["numpy"] == real_version("numpy")
    text = doctor.report(found)
    assert [line.split()[:2] for line in text.splitlines() if "missing" in line] == [
        ["nvidia-cutlass-dsl", "missing"],
        ["numba-cuda", "missing"],
    ]


def test_report__says_that_the_device_is_forced(monkeypatch):
    monkeypatch.setenv("CUTECOURSE_DEVICE", "emulator")
    assert "CUTECOURSE_DEVICE=emulator decides" in doctor.report(doctor.examine(H200))


@pytest.mark.parametrize("device", ["nonsense", "cuda:7"])
def test_report__says_that_the_forced_device_cannot_be_had(monkeypatch, device):
    monkeypatch.setenv("CUTECOURSE_DEVICE", device)
    report = doctor.report(doctor.examine(H200))
    assert f"no kernel will run: CUTECOURSE_DEVICE={device} is " in report
    assert "decides where kernels run" not in report


def test_doctor__prints_json(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["python"]["version"] == platform.python_version()
    assert list(found["chapters"][0]["runs"]) == ["8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0"]


def test_doctor__runs_where_no_compiler_and_no_cuda_is_installed(tmp_path):
    # Stand-ins that fail on import come first on the path.
    for package in ("cutlass", "numba", "cuda"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('not installed')\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from cutecourse.cli import main; "
        "sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "none found: the package cuda-bindings is not installed" in done.stdout


def test_main__without_a_command_says_which_there_are(capsys):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "doctor" in capsys.readouterr().err


def test_main__tells_a_course_error_in_one_line(capsys, monkeypatch):
    from cutecourse.errors import CourseError

    def fail():
        raise CourseError("the thing is wrong; do this")

    monkeypatch.setattr(doctor, "examine", fail)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == "cutecourse: the thing is wrong; do this\n"
