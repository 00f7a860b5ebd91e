"""A kernel that lost its port is started again, and one that never comes up is an error."""

from __future__ import annotations

import pytest
from nbval import kernel

from support.kernels import ATTEMPTS, patient


def _failing(times: int, calls: list[str]):
    def start(name: str) -> str:
        calls.append(name)
        if len(calls) <= times:
            raise RuntimeError("Kernel didn't respond in 60 seconds")
        return f"started {name}"

    return start


def test_patient__starts_again_what_did_not_answer():
    calls: list[str] = []
    assert patient(_failing(ATTEMPTS - 1, calls))("python3") == "started python3"
    assert calls == ["python3"] * ATTEMPTS


def test_patient__passes_the_last_error_on():
    calls: list[str] = []
    with pytest.raises(RuntimeError, match="didn't respond"):
        patient(_failing(ATTEMPTS, calls))("python3")
    assert len(calls) == ATTEMPTS


def test_nbval__starts_its_kernels_patiently():
    assert hasattr(kernel.start_new_kernel, "__wrapped__")
