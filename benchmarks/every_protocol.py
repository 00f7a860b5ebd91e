"""`prove` against a search through all states of small protocols: random ones, written ones, and mutants.

python -m benchmarks.every_protocol                  all; an hour of one core
python -m benchmarks.every_protocol --jobs 16        the same, shared by 16 processes
python -m benchmarks.every_protocol --random 500 --every 20   a part, which is not kept

The search (benchmarks.signals) knows nothing of the emulator. The random protocols are pipelines with
changes, and threads that do anything. Each protocol is tried with warps, and with lanes that share a warp. A
row is kept of each protocol whose verdict is another one.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.results_file import result_path, write_result
from benchmarks.signal_protocols import RIGHT, WRONG
from benchmarks.signals import Action, Signals, mutants, wrongs
from cutecourse.emulator import prove
from tools.facts import of_this_machine

__all__ = ["RANDOM", "RESULT", "compared", "random_protocol"]

RESULT = result_path("every_protocol")
RANDOM = 12_500
_SECONDS = 20.0
_STATES = 400_000


def random_protocol(seed: int) -> Signals:
    """A small protocol: a pipeline with up to two changes, or threads that do anything."""
    rng = random.Random(seed)
    n_threads = rng.randint(2, 3)
    if rng.random() < 0.5:
        return _changed_pipeline(rng, n_threads - 1, f"random {seed}")
    counts = [rng.randint(1, 2) for _ in range(rng.randint(1, 3))]
    threads: list[list[Action]] = []
    for _ in range(n_threads):
        actions: list[Action] = []
        for _ in range(rng.randint(1, 6)):
            barrier = rng.randrange(len(counts))
            use = (rng.choice(["read", "write"]), rng.randrange(2))
            wait = ("wait", barrier, rng.randint(0, 1))
            actions.append(rng.choices([("arrive", barrier), wait, use], [40, 35, 25])[0])
        threads.append(actions)
    return Signals.of(f"random {seed}", threads, counts)


def _changed_pipeline(rng: random.Random, consumers: int, name: str) -> Signals:
    stages = rng.randint(1, 2)
    counts = [1] * stages + [consumers] * stages
    made: list[Action] = []
    used: list[Action] = []
    for k in range(rng.randint(2, 5)):
        stage, turn = k % stages, k // stages
        made += [("wait", stages + stage, (turn + 1) % 2), ("write", stage), ("arrive", stage)]
        used += [("wait", stage, turn % 2), ("read", stage), ("arrive", stages + stage)]
    threads = [made, *([*used] for _ in range(consumers))]
    for _ in range(rng.randint(0, 2)):
        thread = rng.choice(threads)
        at, other = rng.randrange(len(thread)), rng.randrange(len(thread))
        change = rng.choice(["left out", "parity", "exchanged", "count"])
        if change == "left out":
            del thread[at]
        elif change == "parity" and thread[at][0] == "wait":
            thread[at] = (*thread[at][:2], 1 - thread[at][2])
        elif change == "exchanged":
            thread[at], thread[other] = thread[other], thread[at]
        elif change == "count":
            counts[rng.randrange(len(counts))] = rng.randint(1, 2)
    return Signals.of(name, threads, counts)


def protocols(n_random: int, every: int) -> Iterator[tuple[str, Signals]]:
    """Each protocol with its kind, of the mutants one in `every`; and with two or three lanes to a warp."""
    all_mutants = chain.from_iterable(map(mutants, RIGHT))
    in_warps = [
        *(("random", random_protocol(seed)) for seed in range(n_random)),
        *(("written", one) for one in (*RIGHT, *WRONG)),
        *(("mutant", one) for at, one in enumerate(all_mutants) if at % every == 0),
    ]
    yield from in_warps
    for at, (kind, one) in enumerate(in_warps):
        if (in_lanes := one.in_lanes(2 + at % 2)) is not None:
            yield f"{kind}, in lanes", in_lanes


def compared(kind: str, protocol: Signals) -> dict[str, Any]:
    """What the search finds wrong in a protocol, and the verdict of `prove`."""
    wrong = sorted(wrongs(protocol, _STATES))
    proof = prove(**protocol.launch, seconds=_SECONDS)
    how = "" if not proof.proved else "by argument" if proof.orders == 1 else "by its orders"
    return {
        "kind": kind,
        "name": protocol.name,
        "wrong": wrong,
        "verdict": proof.verdict,
        "how": how,
        "error": "" if proof.error is None else type(proof.error).__name__,
    }


def _some(work: list[tuple[str, Signals]]) -> list[dict[str, Any]]:
    return [compared(kind, protocol) for kind, protocol in work]


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many right and wrong protocols of each kind got each verdict."""
    found = Counter(
        " ".join([row["kind"], "wrong" if row["wrong"] else "right", row["verdict"], row["how"]]).strip()
        for row in rows
    )
    return dict(sorted(found.items()))


def disagrees(row: dict[str, Any]) -> bool:
    """True if the verdict is not that of the search."""
    return bool(row["verdict"] != ("counterexample" if row["wrong"] else "proved"))


def main(arguments: list[str] | None = None) -> int:
    """Compare, print the counts and what disagrees, and keep them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--random", type=int, default=RANDOM, help="so many random protocols")
    parser.add_argument("--every", type=int, default=1, help="of the mutants one in so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args(arguments)
    work = list(protocols(options.random, options.every))
    parts = [work[at : at + 50] for at in range(0, len(work), 50)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for part in pool.map(_some, parts) for row in part]
    other = [row for row in rows if disagrees(row)]
    for row in other:
        print(*row.values())
    counts = summary(rows)
    for what, number in counts.items():
        print(f"{number:>6} {what}")
    found = {"recorded": of_this_machine(), "counts": counts, "disagree": other}
    kept = RESULT if (options.random, options.every) == (RANDOM, 1) else None
    write_result(found, options.output or kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
