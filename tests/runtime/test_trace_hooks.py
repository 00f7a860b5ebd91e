"""The benchmark of the trace's cost: what the rewrite takes out, and that nothing but hooks goes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cutecourse
from benchmarks.trace_hooks import TakenOut, without_hooks, write_package
from benchmarks.tracing import summary

PACKAGE = Path(cutecourse.__file__).parent
LAUNCH = '''
import numpy as np
from cutecourse import runtime, emulator
from cutecourse.kernels import tma_broken
from cutecourse.trace import Recorder
source = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
run = runtime.run(
    tma_broken, device="emulator", trace=True, source=source, result=np.zeros_like(source),
    gave_up=np.zeros(2, np.uint32), tiles=3,
)
assert (run["result"] == 2 * source).all()
racing = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry racing()
{
    .shared .b32 word;
    .reg .b32 %r;
    mov.u32 %r, %tid.x;
    st.shared.b32 [word], %r;
    ret;
}
"""
try:
    emulator.launch(racing, grid=1, block=64)
except emulator.SharedMemoryRace:
    print(len(run.trace))
'''


@pytest.mark.parametrize(
    ("source", "rewritten"),
    [
        ("if recorder is not None:\n    a()\nelse:\n    b()", "b()"),
        ("if machine.recorder is None:\n    a()\nb()", "a()\nb()"),
        ("if machine.recorder is not None and c():\n    a()\nb()", "pass\nb()"),
        ("if c() and machine.recorder is not None:\n    a()\nelif d:\n    b()", "if d:\n    b()"),
        ("if machine.recorder is None or c():\n    a()", "a()"),
        ("if machine.recorder is None and c():\n    a()", "if c():\n    a()"),
        ("x = f() if q.machine.recorder is not None else 0", "x = 0"),
        ("x = remember(origin, 'load', a=g())", "x = None"),
        ("self.threads.remember(access)", "self.threads.remember(access)"),
        ("if x is not None:\n    a()", "if x is not None:\n    a()"),
        ("if machine.recorder == 3:\n    a()", "if machine.recorder == 3:\n    a()"),
    ],
)
def test_without_hooks__folds_what_nobodys_listening_decides(source, rewritten):
    assert without_hooks(source)[0] == rewritten


def test_without_hooks__leaves_no_question_in_the_emulator():
    for path in sorted((PACKAGE / "emulator").glob("*.py")):
        tree = ast.parse(without_hooks(path.read_text(encoding="utf-8"))[0])
        for node in ast.walk(tree):
            asked = isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("recorder")
            assert not (asked and isinstance(node.ops[0], ast.Is | ast.IsNot)), path.name


def test_write_package__without_hooks_runs_the_same_and_tells_nothing(tmp_path):
    said = {}
    for hooks in (True, False):
        folder = tmp_path / str(hooks)
        taken = write_package(PACKAGE, folder, hooks=hooks)
        assert (taken == 0) == hooks
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH],
            env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said[hooks] = int(done.stdout)
    assert said[False] == 0 < said[True]


def test_write_package__says_when_it_finds_too_few_hooks(tmp_path):
    (tmp_path / "cutecourse" / "emulator").mkdir(parents=True)
    (tmp_path / "cutecourse" / "emulator" / "machine.py").write_text("recorder = None\n")
    with pytest.raises(TakenOut, match="0 hooks were found"):
        write_package(tmp_path / "cutecourse", tmp_path / "out", hooks=False)


def test_summary__takes_the_ratios_round_by_round():
    # The second round was slow for both: the ratio of medians would be 1.5.
    found = summary({"without": [1.0, 4.0, 2.0], "off": [1.1, 4.4, 3.0], "on": [2.0, 8.0, 4.0]})
    assert found["ratios"]["off"]["median"] == pytest.approx(1.1)
    assert found["ratios"]["on"] == {"median": 2.0, "quartiles": [2.0, 2.0]}
    assert found["median_s"]["without"] == 2.0
