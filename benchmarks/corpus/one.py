"""One kernel under three seeds, in a process of its own with limits of time and memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.corpus.compiling import launch_arguments
from benchmarks.corpus.entries import Entry
from benchmarks.corpus.problems import Draw
from cutecourse.emulator import launch
from cutecourse.emulator.errors import UnsupportedInstruction
from cutecourse.errors import CourseError
from cutecourse.ptx import PtxError, read_module

__all__ = ["SEEDS", "Running"]

SEEDS = (0, 1, 2)
_FORK = multiprocessing.get_context("fork")


def outcome(entry: Entry, answer: dict[str, Any]) -> dict[str, Any]:
    """The outcome's name, with seconds, notes, and the text of an error.

    right      every output is as near to its reference as stated, under each seed.
    found      the kernel has one of its findings, and PTX leaves its result undefined.
    wrong, refused (an instruction that the emulator does not have), reported (a hazard), failed.
    """
    seconds, worst, notes, instructions = [], 0.0, set(), 0
    places: dict[str, str] = {}
    try:
        module = read_module(answer["ptx"])
        for seed in SEEDS:
            problem = entry.make(Draw(seed))
            arguments = launch_arguments(entry, problem, answer)
            started = _cpu_seconds()
            result = launch(
                module, seed=seed, hazards=dict.fromkeys(entry.findings, "warning"), processes=1, **arguments
            )
            seconds.append(_cpu_seconds() - started)
            notes |= {note.hazard.name for note in result.notes}
            for note in result.notes:
                if note.hazard.name in entry.findings:
                    places.setdefault(note.hazard.name, f"line {note.line}: {note.text}")
            instructions = result.total
            outputs = problem.outputs()
            assert outputs, "the entry states no result"
            errors = {name: tensor.error() for name, tensor in outputs.items()}
            worst = max(worst, *errors.values())
            far = {name: f"{error:.3g} tolerances off" for name, error in errors.items() if not error <= 1}
            if far and notes & set(entry.findings):
                return {
                    "outcome": "found",
                    "said": f"seed {seed}: {far}",
                    "notes": sorted(notes),
                    "places": places,
                }
            if far:
                return {"outcome": "wrong", "said": f"seed {seed}: {far}"}
    except (UnsupportedInstruction, PtxError) as error:
        return {"outcome": "refused", "said": str(error)}
    except CourseError as error:
        return {"outcome": "reported", "said": f"{type(error).__name__}: {error}"}
    except Exception as error:  # noqa: BLE001 - whatever it raises, the kernel did not run
        return {"outcome": "failed", "said": f"{type(error).__name__}: {error}"}
    return {
        "outcome": "right",
        "seconds": round(min(seconds), 3),
        "instructions": instructions,
        "error": round(worst, 4),
        "notes": sorted(notes),
        **({"places": places} if places else {}),
    }


def _cpu_seconds() -> float:
    """The processor's time of this process and of those that have helped it."""
    own, helpers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + helpers.ru_utime + helpers.ru_stime


def _child(entry: Entry, answer: dict[str, Any], gib: float, sender: Connection) -> None:
    limit = int(gib * (1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    found = outcome(entry, answer)
    found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sender.send(found)


class Running:
    """A kernel that runs in a process of its own."""

    def __init__(self, entry: Entry, answer: dict[str, Any], seconds: float, gib: float) -> None:
        self.limit = seconds
        self.found: dict[str, Any] | None = None
        if "problem" in answer:
            self.found = {"outcome": "not compiled", "said": str(answer["problem"])}
            return
        self.receiver, sender = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_child, args=(entry, answer, gib, sender))
        self.process.start()
        sender.close()
        self.started = time.monotonic()

    def result(self, wait: float) -> dict[str, Any] | None:
        """The outcome, if it is there after some seconds."""
        if self.found is not None:
            return self.found
        if self.receiver.poll(wait):
            try:
                self.found = self.receiver.recv()
            except EOFError:
                self.process.join()
                self.found = {"outcome": "failed", "said": f"the process ended with {self.process.exitcode}"}
        elif time.monotonic() - self.started > self.limit:
            self.found = {"outcome": "over the limit", "said": f"more than {self.limit:g} s for three seeds"}
            self.process.terminate()
        if self.found is not None:
            self.process.join()
        return self.found
