"""The script for the GPU machine: what it runs, and how it tells what failed."""

import json
import os
import subprocess
import tarfile

import pytest


@pytest.fixture
def run_all(repository, tmp_path):
    """Run the script with a Python of our own making, a shell script that notes how it was called."""
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >>{tmp_path}/calls\n'
        'case "$*" in\n'
        '  "-m benchmarks.umma_throughput") echo "left out, no Blackwell"; exit 77;;\n'
        '  "-m benchmarks."*) echo "it broke"; exit 3;;\n'
        "  *--json*) echo '{\"python\": {}}';;\n"
        '  *tools.record) sleep "${SLEEP:-0}";;\n'
        '  *) echo "all is well";;\n'
        "esac\n"
    )
    fake.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHON": str(fake),
        "OUT": str(tmp_path / "out"),
        "WORKERS": "3",
        "CUTECOURSE_COMMIT": "abc123",
    }

    def run(*steps, **extra):
        done = subprocess.run(
            [repository / "tools" / "gpu" / "run_all.sh", *steps],
            env={**environment, **extra},
            capture_output=True,
            text=True,
            timeout=60,
        )
        calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
        return done, calls, tmp_path / "out"

    return run


def test_run_all__does_every_step_and_counts_the_failures(run_all):
    done, calls, out = run_all()
    assert done.returncode == 1, done.stderr
    assert [call.split()[1] for call in calls][:6] == [
        "cutecourse.cli",
        "cutecourse.cli",
        "pytest",
        "tools.record_cases",
        "tools.record_tma",
        "pytest",
    ]
    assert "-m pytest -m gpu -n 3" in calls[2]
    assert "--nbval" in calls[5]
    assert calls[6:8] == ["-m benchmarks.mma_latency", "-m benchmarks.tma_bandwidth"]
    # Last, since the pages show what the benchmarks measured.
    assert calls[-1] == "-m tools.record"
    table = (out / "summary.txt").read_text().splitlines()
    assert table[0] == "commit abc123"
    verdicts = {line.split()[0]: line.split()[1] for line in table[2:]}
    assert verdicts.pop("benchmarks") == "FAILED"
    assert verdicts.pop("blackwell") == "left"  # out: no failure, and its reason stands in the table
    assert next(line for line in table if line.startswith("blackwell")).endswith("left out, no Blackwell")
    assert set(verdicts.values()) == {"passed"}
    assert json.loads((out / "doctor.json").read_text()) == {"python": {}}
    with tarfile.open(out / "logs.tar.gz") as logs:
        assert "it broke" in logs.extractfile("logs/benchmarks.log").read().decode()


def test_run_all__does_the_steps_it_is_given_in_their_order(run_all):
    done, calls, _ = run_all("notebooks", "tests")
    assert done.returncode == 0
    assert ["--nbval" in call for call in calls] == [True, False]


def test_run_all__stops_a_step_that_takes_too_long(run_all):
    done, _, out = run_all("record", "doctor", STEP_LIMIT_S="1", SLEEP="30")
    assert done.returncode == 1
    assert "stopped after 1 s" in (out / "summary.txt").read_text()
    assert "doctor       passed" in (out / "summary.txt").read_text()


def test_run_all__refuses_a_step_it_does_not_have(run_all):
    done, calls, _ = run_all("doctor", "everything")
    assert done.returncode == 64
    assert "no step 'everything'" in done.stderr
    assert calls == []
