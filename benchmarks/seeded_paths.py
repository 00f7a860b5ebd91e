"""Every seeded run of a right kernel is a path of the model that `prove` makes of one run.

python -m benchmarks.seeded_paths                  1,000 seeds for each kernel; about 3 hours of one core
python -m benchmarks.seeded_paths --jobs 16        the same, shared by 16 processes
python -m benchmarks.seeded_paths --seeds 1:21 --only umma_one   a part, which is not kept
python -m benchmarks.seeded_paths --jobs 16 --seconds 250 --output 1.json   what can be done in 250 s
python -m benchmarks.seeded_paths --after 1.json --seconds 250 --output 2.json   and what comes then
python -m benchmarks.seeded_paths --merge 1.json 2.json          puts parts together, and keeps them

Each kernel gets the same time, until it has all its seeds. So if the time is over first, quick kernels have
run under more seeds than slow ones; the rows say under which.

The model is the run under seed 0: its events at barriers, the phase of each, and for each pair of events
whether every order has the one before the other. A run is a path of it if the run has the same events in the
same phases, and no two of them in an order that the model rules out. Launches are small: one cluster, and at
least twice as many k-tiles as stages and one more, so that each stage is used three times.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.every_order import launch_with, right_kernels
from benchmarks.results_file import result_path, write_result
from cutecourse.emulator import launch, prove
from cutecourse.emulator.core.steering import Steering
from cutecourse.emulator.prove.causes import CauseRecord, Causes, Logged, Place
from cutecourse.kernels import LaunchSpec, Tensor
from cutecourse.kernels.files import kernel_module
from tools.facts import of_this_machine

__all__ = ["LEAST_TURNS", "RESULT", "SEEDS", "SMALL", "Model", "logs", "merged", "small_launch"]

RESULT = result_path("seeded_paths")
SEEDS = range(1, 1001)
LEAST_TURNS = 3
"""So often at least the first stage of a pipeline is used."""
_TURN = 3.0
"""Seconds that a process works on one kernel before it takes another one."""
_MOST = 100
"""Seeds that a process runs at once, at most."""

Row = dict[str, Any]


def _with_k(spec: LaunchSpec, k: int) -> LaunchSpec:
    """A GEMM's launch with another K."""
    params = tuple(
        replace(one, shape=(one.extents[0], k), stride=(k, 1))
        if isinstance(one, Tensor) and one.name in {"a", "b"}
        else one
        for one in spec.params
    )
    return replace(spec, params=params)


def _more_keys(spec: LaunchSpec) -> LaunchSpec:
    """The launch of attention_turns, which has two stages, with five tiles of keys and not four."""
    assert spec.ptx is not None
    text = spec.ptx.replace("%j, 4;", "%j, 5;").replace("%j, 3, %second;", "%j, 4, %second;")
    params = tuple(
        replace(one, shape=(80, 16)) if isinstance(one, Tensor) and one.name in {"k", "v"} else one
        for one in spec.params
    )
    return replace(spec, ptx=text, params=params)


SMALL: dict[str, Callable[[Any], LaunchSpec]] = {
    "attention_online": lambda kernel: kernel.spec(1, 129),
    "attention_turns": lambda kernel: _more_keys(kernel.LAUNCH),
    "gemm_first": lambda kernel: kernel.spec(128, 128, 96),
    "gemm_late": lambda kernel: kernel.spec(128, 128, 224),
    "gemm_stages": lambda kernel: kernel.spec(128, 128, 224),
    "hopper_clusters": lambda kernel: kernel.spec(256, 256, 576),
    "hopper_last": lambda kernel: kernel.spec(256, 512, 320, how=kernel.COOPERATIVE, sms=2),
    "hopper_one": lambda kernel: kernel.spec(128, 128, 192),
    "hopper_roles": lambda kernel: kernel.spec(128, 256, 576),
    "hopper_stages": lambda kernel: kernel.spec(128, 128, 576),
    "scaled_persistent": lambda kernel: kernel.spec(256, 640, 256, pairs=1),
    "tma_pipeline": lambda kernel: kernel.pipeline_spec(128, 320),
    "umma_classes": lambda kernel: kernel.spec(256, 1280, 128, pairs=1),
    "umma_gemm": lambda kernel: kernel.gemm_spec((256, 256, 448), cluster=(2, 1)),
    "umma_persistent": lambda kernel: kernel.spec(256, 1280, 128, pairs=1),
    "umma_store": lambda kernel: kernel.spec(256, 256, 448),
    "umma_two_sm_pipeline": lambda kernel: _with_k(kernel.LAUNCH, 448),
}
"""Launches of kernels whose own is larger, or has too few k-tiles for its stages."""


def small_launch(module: str) -> dict[str, Any]:
    """The arguments of `emulator.launch` for a small launch of a kernel."""
    kernel = kernel_module(module)
    make = SMALL.get(module)
    return launch_with(module, kernel.LAUNCH if make is None else make(kernel))


def logs(launched: dict[str, Any], seed: int) -> dict[Hashable, list[Logged]]:
    """The events at the barriers of each cluster, by its first block, in a run under a seed."""
    steering = Steering()
    found: dict[Hashable, CauseRecord] = {}

    def observe(cohort: Any) -> Causes:
        record = found[tuple(cohort.blocks[0, 0].tolist())] = CauseRecord(log=[])
        return Causes(cohort, steering, record)

    launch(**launched, seed=seed, steering=steering, observe=observe)
    return {block: numbered(record.log or []) for block, record in found.items()}


def numbered(log: Sequence[Logged]) -> list[Logged]:
    """The events with their executions counted among those that have an event.

    A warp whose lanes come to a barrier in two parts executes its instruction twice, and arrives once.
    """
    times: dict[Hashable, set[int]] = {}
    for one in log:
        place = one.event.place
        times.setdefault(place._replace(time=0), set()).add(place.time)
    ranks = {line: {time: at for at, time in enumerate(sorted(seen))} for line, seen in times.items()}
    found = []
    for one in log:
        place = one.event.place
        counted = place._replace(time=ranks[place._replace(time=0)][place.time])
        found.append(one._replace(event=one.event._replace(place=counted)))
    return found


class _Cluster(NamedTuple):
    """The events of one cluster, and which of them come before which in every order."""

    number: dict[Place, int]
    before: NDArray[np.bool_]


class Model:
    """The events of one run, their phases, and the order between them that every run has."""

    def __init__(self, run: dict[Hashable, list[Logged]]) -> None:
        self._clusters = {block: _cluster(log) for block, log in run.items()}

    @property
    def events(self) -> int:
        """The number of events in all clusters."""
        return sum(len(one.number) for one in self._clusters.values())

    @property
    def turns(self) -> int:
        """The number of phases that a barrier has, at most."""
        return 1 + max((phase for one in self._clusters.values() for *_, phase in one.number), default=-1)

    def has_path(self, run: dict[Hashable, list[Logged]]) -> bool:
        """True if a run has the same events in the same phases, in an order that the model allows."""
        return run.keys() == self._clusters.keys() and all(
            _is_path(self._clusters[block], log) for block, log in run.items()
        )


def _cluster(log: Sequence[Logged]) -> _Cluster:
    # A copy's pieces are one event: only the end of their phase tells that they have landed.
    first: dict[Place, Logged] = {}
    for one in log:
        first.setdefault(one.place, one)
    events = list(first.values())
    known = np.array([[late.comes_after(early) for late in events] for early in events], np.bool_)
    # A warp knows all its events since it last arrived, also those that this run has behind.
    before = np.triu(known.reshape(len(events), len(events)), 1)
    return _Cluster({key: at for at, key in enumerate(first)}, before)


def _is_path(model: _Cluster, log: Sequence[Logged]) -> bool:
    last = {one.place: at for at, one in enumerate(log)}
    if last.keys() != model.number.keys():
        return False
    first = {one.place: at for at, one in reversed(list(enumerate(log)))}
    begins, ends = (np.array([at[key] for key in model.number]) for at in (first, last))
    return not (model.before & (ends[:, None] >= begins)).any()


def _model(module: str) -> Model | None:
    """The model of a kernel that has barriers and is proved by argument; None for another one."""
    launched = small_launch(module)
    proof = prove(**launched)
    is_by_argument = proof.proved and proof.phases and proof.orders == 1
    return Model(logs(launched, 0)) if is_by_argument else None


_MODELS: dict[str, Model] = {}
"""What the processes share: forked ones have the parent's."""
_FORKING = get_context("fork")
_launch = cache(small_launch)


def _paths(module: str, seeds: range) -> tuple[int, float]:
    """The number of seeds whose run is a path, and the seconds that they took."""
    started = perf_counter()
    launched, model = _launch(module), _MODELS[module]
    paths = sum(model.has_path(logs(launched, seed)) for seed in seeds)
    return paths, perf_counter() - started


@dataclass
class _Kernel:
    """A kernel's seeds so far: those that were handed out, how many of its runs are paths, and their time."""

    module: str
    seeds: range
    given: int = 0
    paths: int = 0
    seconds: float = 0.0
    spent: float = 0.0
    """The time of what was handed out; estimated where it still runs."""

    def take(self) -> range:
        """The next seeds: some seconds' work."""
        each = self.spent / self.given if self.given else _TURN
        many = max(1, min(_MOST, int(_TURN / max(each, 1e-6))))
        taken = self.seeds[self.given : self.given + many]
        self.given += len(taken)
        self.spent += each * len(taken)
        return taken

    @property
    def row(self) -> Row:
        """What is known when nothing of it runs."""
        model, first = _MODELS[self.module], self.seeds.start
        return {
            "module": self.module,
            "events": model.events,
            "turns": model.turns,
            "seeds": [first, first + self.given],
            "paths": self.paths,
        }


def models(only: str, jobs: int) -> dict[str, Model]:
    """The models of the kernels that are proved by argument and whose module's name contains `only`."""
    modules = [module for module in right_kernels() if only in module]
    with ProcessPoolExecutor(jobs, _FORKING) as pool:
        found = zip(modules, pool.map(_model, modules), strict=True)
        return {module: model for module, model in found if model is not None}


def measure(seeds: range, jobs: int, seconds: float, after: Mapping[str, int]) -> list[Row]:
    """One row for each kernel of `_MODELS`.

    seconds  no run begins later.
    after    for a kernel by its module, the first seed, if it is not that of `seeds`.
    """
    until = perf_counter() + seconds
    kernels = [_Kernel(module, range(after.get(module, seeds.start), seeds.stop)) for module in _MODELS]
    under_way: dict[Future[tuple[int, float]], tuple[_Kernel, int]] = {}
    with ProcessPoolExecutor(jobs, _FORKING) as pool:
        while True:
            left = [one for one in kernels if one.given < len(one.seeds)]
            while left and len(under_way) < jobs and perf_counter() < until:
                kernel = min(left, key=lambda one: one.spent)
                taken = kernel.take()
                under_way[pool.submit(_paths, kernel.module, taken)] = kernel, len(taken)
                left = [one for one in kernels if one.given < len(one.seeds)]
            if not under_way:
                break
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for one in done:
                kernel, many = under_way.pop(one)
                paths, took = one.result()
                kernel.paths += paths
                kernel.seconds += took
                kernel.spent = max(kernel.seconds * kernel.given / max(many, kernel.given), kernel.seconds)
    return [kernel.row for kernel in kernels]


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One result of parts whose seeds follow each other.

    Errors: ValueError for seeds that are missing or there twice, and for a kernel with another model.
    """
    found: dict[str, Row] = {}
    rows = [row for part in parts for row in part["rows"]]
    for row in sorted(rows, key=lambda row: row["seeds"]):
        before = found.get(row["module"])
        if before is not None:
            if before["seeds"][1] != row["seeds"][0]:
                seeds = f"{before['seeds']} and {row['seeds']}"
                raise ValueError(f"{row['module']} has the seeds {seeds}; none may be missing or there twice")
            if any(before[name] != row[name] for name in ("events", "turns")):
                raise ValueError(f"{row['module']} has other events in one part; run the parts anew")
            row = {
                **row,
                "seeds": [before["seeds"][0], row["seeds"][1]],
                "paths": before["paths"] + row["paths"],
            }
        found[row["module"]] = row
    return {"recorded": parts[-1]["recorded"], "rows": [found[module] for module in sorted(found)]}


def _range(words: str) -> range:
    """The seeds A to B - 1 of A:B."""
    first, _, end = words.partition(":")
    return range(int(first), int(end))


def main(arguments: Iterable[str] | None = None) -> int:
    """Measure or merge, print the rows, and keep them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="modules whose names contain this")
    parser.add_argument("--seeds", type=_range, default=SEEDS, metavar="A:B", help="the seeds A to B - 1")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--seconds", type=float, default=inf, help="no run begins later")
    parser.add_argument("--after", type=Path, help="begin each kernel after the seeds of this part")
    parser.add_argument("--models", type=Path, help="the models of this commit: read, or made and kept")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="put the parts together")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(None if arguments is None else [*arguments])
    if options.merge:
        found = merged([json.loads(part.read_text(encoding="utf-8")) for part in options.merge])
    else:
        held = json.loads(options.after.read_text(encoding="utf-8"))["rows"] if options.after else []
        after = {row["module"]: row["seeds"][1] for row in held}
        recorded = of_this_machine()
        if options.models is not None and options.models.exists():
            _MODELS.update(pickle.loads(options.models.read_bytes()))
        else:
            _MODELS.update(models(options.only, options.jobs))
            if options.models is not None:
                options.models.write_bytes(pickle.dumps(_MODELS))
        rows = measure(options.seeds, options.jobs, options.seconds, after)
        found = {"recorded": recorded, "rows": rows}
    for row in found["rows"]:
        print(*row.values())
    whole = not options.only and all(row["seeds"] == [SEEDS.start, SEEDS.stop] for row in found["rows"])
    write_result(found, options.output or (RESULT if whole or options.merge else None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
