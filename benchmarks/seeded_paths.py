"""Every seeded run of a right kernel is a path of the model that `prove` makes of one run.

python -m benchmarks.seeded_paths                  1,000 seeds for each kernel; about 3 hours of one core
python -m benchmarks.seeded_paths --jobs 16        the same, shared by 16 processes
python -m benchmarks.seeded_paths --seeds 1:21 --only umma_one   a part, which is not kept
python -m benchmarks.seeded_paths --seeds 1:251 --output 1.json  a part, on this machine or on another one
python -m benchmarks.seeded_paths --merge 1.json 2.json ...      puts parts together, for all seeds

The model is the run under seed 0: its events at barriers, the phase of each, and for each pair of events
whether every order has the one before the other. A run is a path of it if the run has the same events in the
same phases, and no two of them in an order that the model rules out. Launches are small: one cluster, and at
least twice as many k-tiles as stages and one more, so that each stage is used three times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
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
_CHUNK = 20
"""Seeds that a process runs at once."""

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
    return {block: record.log or [] for block, record in found.items()}


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


def _paths(module: str, model: Model, seeds: range) -> int:
    """The number of seeds whose run is a path."""
    launched = small_launch(module)
    return sum(model.has_path(logs(launched, seed)) for seed in seeds)


def measure(only: str, seeds: range, jobs: int) -> list[Row]:
    """One row for each kernel whose module's name contains `only`."""
    rows: list[Row] = []
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    modules = [module for module in right_kernels() if only in module]
    with ProcessPoolExecutor(jobs) as pool:
        models = zip(modules, pool.map(_model, modules), strict=True)
        found = [
            (module, model, [pool.submit(_paths, module, model, chunk) for chunk in chunks])
            for module, model in models
            if model is not None
        ]
        for module, model, parts in found:
            paths = sum(part.result() for part in parts)
            rows.append({"module": module, "events": model.events, "turns": model.turns, "paths": paths})
            print(*rows[-1].values(), flush=True)
    return rows


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One result of parts that ran the same kernels under seeds that follow each other.

    Errors: ValueError for seeds that are missing or there twice, and for kernels with other models.
    """
    parts = sorted(parts, key=lambda part: part["seeds"])
    for one, following in pairwise(parts):
        if one["seeds"][1] != following["seeds"][0]:
            raise ValueError(
                f"after the seeds {one['seeds']} come {following['seeds']}; no seed may be missing"
            )
    models = [[{**row, "paths": 0} for row in part["rows"]] for part in parts]
    if any(one != models[0] for one in models):
        raise ValueError("the parts are of other kernels, or of kernels with other events; run them anew")
    rows = [
        {**same[0], "paths": sum(row["paths"] for row in same)}
        for same in zip(*(part["rows"] for part in parts), strict=True)
    ]
    first, last = parts[0], parts[-1]
    return {"recorded": last["recorded"], "seeds": [first["seeds"][0], last["seeds"][1]], "rows": rows}


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
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="put the parts together")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(None if arguments is None else [*arguments])
    if options.merge:
        found = merged([json.loads(part.read_text(encoding="utf-8")) for part in options.merge])
    else:
        seeds = [options.seeds.start, options.seeds.stop]
        recorded = of_this_machine()
        found = {
            "recorded": recorded,
            "seeds": seeds,
            "rows": measure(options.only, options.seeds, options.jobs),
        }
    kept = RESULT if not options.only and found["seeds"] == [SEEDS.start, SEEDS.stop] else None
    write_result(found, options.output or kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
