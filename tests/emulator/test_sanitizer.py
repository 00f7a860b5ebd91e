"""compute-sanitizer beside the emulator: the kernels, how a tool's words are read, and what both say."""

import json
import sys

import pytest

from benchmarks import results_file, sanitizer, sanitizer_table
from benchmarks.sanitizer_kernels import KERNELS, RIGHT
from cutecourse.runtime import Device, Discovery
from support import machine

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 8 bytes
=========     at copy_pairs+0x80 in copy_pairs.ptx:28
=========     by thread (63,0,0) in block (0,0,0)
=========     Access at 0x7f0000000200 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x1234] in libcuda.so.1
========= 
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) on CUDA API call to cuEventSynchronize.
{"state": "error", "words": "CUDA_ERROR_LAUNCH_FAILED"}
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""  # noqa: W291 - as the tool writes it
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at reverse+0xb0 in reverse.ptx:27
=========     and Read access at reverse+0xf0 in reverse.ptx:30 [256 hazards]
=========
========= Error: Race reported between Write access at reverse+0xb0 and Read access at reverse+0xd0
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""
SILENT = """========= COMPUTE-SANITIZER
{"state": "right", "words": ""}
========= ERROR SUMMARY: 0 errors
"""


def test_verdict__has_the_tools_words_and_the_lines_of_the_text():
    found = sanitizer.verdict(MEMCHECK, sanitizer.REPORTED, "copy_pairs")
    assert (found["state"], found["words"]) == ("reports", "Invalid __global__ read of size 8 bytes")
    assert found["lines"] == [28]
    found = sanitizer.verdict(RACECHECK, sanitizer.REPORTED, "reverse")
    assert found["lines"] == [27, 30]
    assert found["count"] == 2
    assert found["words"].startswith("Error: Race reported between Write access")
    assert "0x" not in found["words"]
    assert "ptx" not in found["words"]


def test_main__keeps_a_part_only_where_it_is_told(monkeypatch, tmp_path, capsys):
    gpu = Device(0, "NVIDIA H200", (9, 0), 141 * 2**30, 132)
    monkeypatch.setattr(results_file, "RESULTS", tmp_path)
    monkeypatch.setattr(sanitizer.runtime, "discover", lambda: Discovery((gpu,), "13.0", None))
    monkeypatch.setattr(sanitizer, "version", lambda sanitizer: "2026.1")
    monkeypatch.setattr(sanitizer, "known_options", lambda sanitizer: [])
    monkeypatch.setattr(sanitizer, "observe", lambda *given: {"state": "silent", "words": ""})
    part = ["--sanitizer", "it", "--only", next(iter(KERNELS))]
    assert sanitizer.main(part) == 0
    assert not list(tmp_path.iterdir())
    assert sanitizer.main([*part, "--output", str(tmp_path / "part.json")]) == 0
    assert sanitizer.main(["--sanitizer", "it"]) == 0
    kernels = {
        path.name: {row["kernel"] for row in json.loads(path.read_text())["rows"]}
        for path in tmp_path.iterdir()
    }
    assert kernels == {"part.json": {part[-1]}, "sanitizer_h200.json": {*KERNELS}}
    with pytest.raises(SystemExit):
        sanitizer.main(["--sanitizer", "it", "--only", "copypairs"])
    assert "invalid choice: 'copypairs'" in capsys.readouterr().err


def test_verdict__silence_is_told_from_a_tool_that_failed():
    assert sanitizer.verdict(SILENT, 0, "k")["state"] == "silent"
    assert sanitizer.verdict(SILENT, None, "k") == {
        "state": "failed",
        "words": f"did not end within {sanitizer.LIMIT_S} s",
    }
    assert sanitizer.verdict("no such tool", 127, "k") == {"state": "failed", "words": "no such tool"}
    unsupported = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to\n"
    assert sanitizer.verdict(unsupported, 1, "k")["state"] == "failed"
    # What was reported before the time was over counts.
    assert sanitizer.verdict(MEMCHECK, None, "copy_pairs")["state"] == "reports"


def test_limited__ends_the_whole_group():
    sleeper = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    text, status = sanitizer.limited([sys.executable, "-c", sleeper], 0.5)
    assert (text, status) == ("", None)


def test_measure__runs_every_tool_and_keeps_what_each_said(tmp_path, monkeypatch):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        f"""#!{sys.executable}
import sys
given = sys.argv[1:]
if "--help" in given:
    print("--error-exitcode  --racecheck-report")
elif "--version" in given:
    print("NVIDIA Compute Sanitizer\\nVersion 9.8.7 (build 1)")
else:
    assert given[2:6] == ["--error-exitcode", "86", "--racecheck-report", "all"], given
    assert given[6:] == [sys.executable, "-m", "benchmarks.sanitizer", "--one", "copy_pairs", given[-1]]
    print({MEMCHECK!r} if given[1] == "memcheck" and given[-1] != "right" else {SILENT!r})
    sys.exit(86 if given[-1] != "right" and given[1] == "memcheck" else 0)
"""
    )
    tool.chmod(0o755)
    monkeypatch.setattr(sanitizer, "TOOLS", ("memcheck",))
    assert sanitizer.version(str(tool)) == "9.8.7"
    rows = sanitizer.measure(str(tool), 60, 2, ["copy_pairs"])
    said = {row["fault"]: row["runs"]["memcheck"]["state"] for row in rows}
    assert said[RIGHT] == "silent"
    assert set(said) - {RIGHT} == {fault.name for fault in KERNELS["copy_pairs"].faults}
    assert all(state == "reports" for fault, state in said.items() if fault != RIGHT)
    # The run without a tool needs a GPU.
    alone = {row["fault"]: row["runs"][sanitizer.PLAIN]["state"] for row in rows}
    assert alone[RIGHT] == ("right" if machine.find_gpu() else "error")
    assert all(not row["runs"] for row in sanitizer.measure(str(tool), -1, 2, ["copy_pairs"]))


@pytest.fixture(scope="module")
def recorded():
    return sanitizer_table.rows()


def test_recorded__has_every_launch_under_every_tool(recorded):
    assert [(row.kernel, row.fault) for row in recorded] == sanitizer.launches()


def test_emulated__names_each_fault_as_said_beforehand(recorded):
    said = {(row.kernel, row.fault): row for row in recorded}
    for kernel in KERNELS.values():
        for fault in kernel.faults:
            row = said[kernel.name, fault.name]
            assert row.emulator in fault.reports, (kernel.name, fault.name)
            assert row.line is not None


def test_recorded__every_fault_that_a_tool_reports_the_emulator_reports(recorded):
    reported = [row for row in recorded if row.fault != RIGHT and row.tools]
    assert len(reported) > 40
    assert all(row.emulator_reports for row in reported)
    # Where both name a line it is the same one, or the reader of what was not written or not waited for.
    assert sum(row.same_line for row in reported) > 0.8 * len(reported)


def test_recorded__every_right_kernel_passes_both(recorded):
    right = [row for row in recorded if row.fault == RIGHT]
    assert len(right) == len(KERNELS)
    for row in right:
        assert (row.alone, row.tools, row.failed, row.emulator) == ("right result", {}, {}, "")


def test_markdown__has_a_row_for_each_fault(recorded):
    text = sanitizer_table.markdown()
    faults = [fault for kernel in KERNELS.values() for fault in kernel.faults]
    table = [line for line in text.split("\n") if line.startswith("| `")]
    assert len(table) == len(faults)
    assert all(line.count(" | ") == 4 for line in table)
    assert f"of {len(faults)} faults" in text
