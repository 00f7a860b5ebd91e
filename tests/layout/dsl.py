"""The CuTe DSL as an oracle: what it prints for an expression, or that it refuses it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

WORKER = Path(__file__).with_name("dsl_worker.py")


class Answer(NamedTuple):
    """What the DSL said: `ok` with its print, `refused` with its message, or `crashed` with the signal."""

    status: Literal["ok", "refused", "crashed"]
    text: str


def ask(expressions: Sequence[str]) -> list[Answer]:
    """Evaluate every expression with the CuTe DSL and return its answers in order."""
    answers: list[Answer] = []
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    while len(answers) < len(expressions):
        rest = expressions[len(answers) :]
        process = subprocess.run(
            [sys.executable, str(WORKER)],
            input=json.dumps(list(rest)),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        lines = [line for line in process.stdout.splitlines() if line.startswith("[")]
        answers += [Answer(*json.loads(line)) for line in lines]
        if len(lines) < len(rest):
            if process.returncode >= 0:
                raise RuntimeError(f"the DSL worker stopped early:\n{process.stderr[-2000:]}")
            answers.append(Answer("crashed", f"signal {-process.returncode}"))
    return answers
