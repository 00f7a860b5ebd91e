"""What a reader in a notebook sees of an error: the own line and the message, not the course's insides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CELL = """\
from cutecourse.layout import Layout, composition
def mine():
    return composition(Layout.parse("(4,6):(1,10)"), Layout.parse("6:6"))
def wrapped():
    try:
        {}["a key of the insides"]
    except KeyError as error:
        from cutecourse.errors import CourseError
        raise CourseError("what to do") from error
"""


def _shown(tmp_path: Path, call: str) -> str:
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", CELL + call]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    return result.stdout + result.stderr


def test_course_error__shows_the_readers_lines_and_the_message_alone(tmp_path: Path) -> None:
    shown = _shown(tmp_path, "mine()")
    assert 'return composition(Layout.parse("(4,6):(1,10)"), Layout.parse("6:6"))' in shown
    assert "DivisibilityError: composition" in shown
    assert "compose.py" not in shown
    assert "Unexpected exception" not in shown


def test_course_error__hides_what_lies_beneath_it_and_keeps_it(tmp_path: Path) -> None:
    kept = "try:\n    wrapped()\nexcept Exception as error:\n    kept = error\n"
    look = "kept._render_traceback_()\nprint(repr(kept.__cause__))\n"
    assert "KeyError('a key of the insides')" in _shown(tmp_path, kept + look)
    shown = _shown(tmp_path, "wrapped()")
    assert "CourseError: what to do" in shown
    assert "KeyError: 'a key of the insides'" not in shown


def test_other_error__shows_its_whole_traceback(tmp_path: Path) -> None:
    shown = _shown(tmp_path, "import cutecourse.dtypes\ncutecourse.dtypes.from_numpy('no such type')")
    assert "TypeError" in shown
    assert "dtypes.py" in shown
