"""mypy finds a listener or an announcement that does not fit its event."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = """
from cutecourse.emulator.core.bundle import Bundle
from cutecourse.emulator.core.observer import Observer
from cutecourse.emulator.core.origin import Origin
from cutecourse.emulator.instructions.bulk.request import Copy
from cutecourse.emulator.memory.mbarriers import MBarrier

class Right(Observer):
    def mbarrier_made(self, barrier: MBarrier, origin: Origin) -> None: ...

class Wrong(Observer):
    def mbarrier_made(self, barrier: Bundle, origin: Origin) -> None: ...  # wrong
    def bulk_issued(self, copy: Copy, twice: bool) -> None: ...  # wrong

def announce(bundle: Bundle, barrier: MBarrier, origin: Origin, copy: Copy) -> None:
    listeners = bundle.cohort.listeners
    for tell in listeners.mbarrier_made:
        tell(barrier, origin)
        tell(origin, barrier)  # wrong
    for tell in listeners.bulk_landed:
        tell(copy, 0)  # wrong
    for tell in listeners.happened:
        tell("st", origin, one=False, bytes=4)
        tell("st", bundle)  # wrong
    for tell in listeners.no_such_event:  # wrong
        tell()
"""


def test_mypy__finds_listeners_and_announcements_that_do_not_fit(tmp_path: Path):
    module = tmp_path / "listeners.py"
    module.write_text(TEXT, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", "--no-error-summary", str(module)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line.split(":") for line in done.stdout.splitlines() if ": error:" in line]
    assert {Path(name) for name, *_ in errors} == {module}, done.stdout + done.stderr
    wrong = {number for number, line in enumerate(TEXT.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(number) for _, number, *_ in errors} == wrong
