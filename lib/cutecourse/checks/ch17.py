"""Checks of the museum's exercises: what goes wrong when two CTAs work as a pair."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from cutecourse.checks.compare import lines_named, on_many, returned, same_choice
from cutecourse.checks.registry import exercise
from cutecourse.checks.result import WrongAnswer
from cutecourse.errors import CourseError
from cutecourse.museum import Exhibit, exhibits

_SEEDS = 20


@exercise(
    "17.1",
    "What a table of hangs says",
    hints=[
        "For each of the four, follow the first k-tile. Does it get through?",
        "Which k-tile is the first one that needs a stage for the second time?",
    ],
)
def check_table(answer: object) -> str:
    """A hang that begins one k-tile behind the number of stages."""
    same_choice(
        answer,
        "release",
        options={
            "bytes": "Then the first phase of `full` never completes, and one k-tile hangs already.",
            "release": "",
            "tail": "The producer comes to its end with any number of k-tiles, so one would hang already.",
            "start": "On a fresh barrier a wait for parity 0 does not end: the producer would not load the first k-tile.",
        },
    )
    return (
        "With three stages, the fourth k-tile is the first that needs somebody to give a stage back. Try sizes on both "
        "sides of the number of stages before you try a debugger."
    )


@exercise(
    "17.2",
    "One tile for two",
    hints=[
        "What is the number of the pair, and how many pairs are there?",
        "Both CTAs of a pair have the same tile. Only their rows in it differ.",
    ],
)
def check_work(answer: object) -> str:
    """The tile and the first row of a CTA of a pair."""
    cases = [(block, step, blocks) for blocks in (4, 10, 148) for block in (0, 1, 2, 3) for step in (0, 1, 5)]

    def right(block: int, step: int, blocks: int) -> tuple[int, int]:
        tile = block // 2 + step * (blocks // 2)
        return tile, 256 * tile + 128 * (block % 2)

    given = returned(answer, cases, what="(tile, first row) of a CTA in a step")
    tiles = [one[0] if isinstance(one, tuple) and one else None for one in given]
    if tiles == [block + step * blocks for block, step, blocks in cases]:
        raise WrongAnswer(
            "Then the two CTAs of a pair work on different tiles. Their tensor cores work on one MMA, so both need "
            "the same one.",
            where="work(1, 0, 4)",
        )
    if tiles == [block // 2 + step * blocks for block, step, blocks in cases]:
        raise WrongAnswer(
            "Each pair goes on by the number of pairs. There are half as many pairs as CTAs, so every second tile is left out.",
            where="work(0, 1, 4)",
        )
    if given == [(right(*case)[0], 256 * right(*case)[0]) for case in cases]:
        raise WrongAnswer(
            "Then both CTAs write the same rows. The second one has the lower half of the tile.",
            where="work(1, 0, 4)",
        )
    if given == [(right(*case)[0], 128 * right(*case)[0] + 128 * (case[0] % 2)) for case in cases]:
        raise WrongAnswer("A tile has 256 rows: tile 1 begins at row 256.", where="work(2, 0, 4)")
    on_many(answer, cases, right, what="(tile, first row) of a CTA in a step")
    return "Whatever a pair decides, it decides once: from block // 2, and never from block."


@exercise(
    "17.3",
    "How far a row may look",
    hints=[
        "Which row of Q is it? A pair's tile has 256 of them.",
        "A row that sees column j sees columns 0 to j, which are j + 1.",
    ],
)
def check_columns(answer: object) -> str:
    """The causal mask of a row of a CTA of a pair."""
    cases = [
        (tile, rank, row, queries, keys)
        for tile in (0, 1, 3)
        for rank in (0, 1)
        for row in (0, 1, 127)
        for queries, keys in ((1024, 1024), (1024, 1500), (1024, 700))
    ]

    def seen(start: Any, shift: Any = lambda queries, keys: keys - queries) -> list[int]:
        return [
            min(max(start(tile, rank) + row + 1 + shift(queries, keys), 0), keys)
            for tile, rank, row, queries, keys in cases
        ]

    def pair(tile: int, rank: int) -> int:
        return 128 * (2 * tile + rank)

    what = "the number of columns that a row may look at"
    given = returned(answer, cases, what=what)
    mistakes = (
        (
            seen(lambda tile, rank: 128 * tile),
            "That is the row of a kernel without pairs: a tile of a pair has 256 rows.",
        ),
        (
            seen(lambda tile, rank: 128 * (tile + rank)),
            "A tile of a pair has 256 rows, so tile 1 begins at row 256.",
        ),
        (
            seen(lambda tile, rank: 256 * tile),
            "Both CTAs then use the mask of the first one. CTA 1 begins 128 rows further down.",
        ),
        (
            seen(pair, lambda queries, keys: 0),
            "With more keys than queries, the last row sees the last key: the mask is shifted by keys - queries.",
        ),
        (
            [value - 1 if value else 0 for value in seen(pair)],
            "A row that sees column j sees j + 1 columns, since they begin at 0.",
        ),
    )
    for values, words in mistakes:
        if given == values:
            raise WrongAnswer(words)
    unbounded = [pair(tile, rank) + row + 1 + keys - queries for tile, rank, row, queries, keys in cases]
    if given == unbounded:
        raise WrongAnswer(
            "No row sees fewer than 0 columns, and with fewer keys than queries the first rows see none."
        )
    on_many(
        answer,
        cases,
        lambda *case: seen(pair)[cases.index(case)],
        what=what,
    )
    return "Every coordinate of a pair's kernel has to know of the pair: tiles, rows, and masks."


def _silent(exhibit: Exhibit, text: str, reports: dict[str, str]) -> None:
    """Run a text under many seeds. Errors: WrongAnswer for the first one that is reported, or wrong."""
    from cutecourse.runtime import run

    try:
        spec = exhibit.spec("repaired").with_text(text)
    except CourseError as error:
        raise WrongAnswer(f"The text cannot be launched: {error}") from error
    for seed in range(_SEEDS):
        try:
            ran = run(spec, device="emulator", seed=seed, **exhibit.arguments())
        except CourseError as error:
            report = f"{type(error).__name__}: {error}"
            explained = next((f"{words}\n" for part, words in reports.items() if part in report), "")
            raise WrongAnswer(f"{explained}Under seed {seed}: {report}{lines_named(spec, error)}") from error
        for name, right in exhibit.expected().items():
            if not np.array_equal(ran[name], right):
                raise WrongAnswer(f"Under seed {seed} the kernel ends, and {name} is wrong.")


@exercise(
    "17.4",
    "A bug to find",
    hints=[
        "Each CTA signals at a barrier. At whose?",
        "Inside a cluster, the address of your own barrier is as good as any other. mapa decides whose it is.",
    ],
)
def check_meeting(answer: object) -> str:
    """A text in which a CTA signals at its own barrier."""
    exhibit = exhibits()["phase_in_memory"]
    if not isinstance(answer, str):
        raise WrongAnswer("Give the kernel's whole text.", expected="a str", got=type(answer).__name__)
    if answer.strip() == exhibit.text("puzzle").strip():
        raise WrongAnswer(
            "Nothing has changed: this is the broken text as it was. `replace` returns the same text if it "
            "does not find its first argument. Check the spaces."
        )
    _silent(
        exhibit,
        answer,
        {
            "SharedMemoryRace": "The two CTAs still do not wait for each other.",
            "DeadlockError": "Somebody waits for a signal that goes elsewhere.",
        },
    )
    return "A barrier counts who arrives, and cannot know who should. Ask of each signal of a pair: in whose memory does it land?"


@exercise(
    "17.5",
    "The last one to be told",
    hints=[
        "The barrier `empty` counts two arrivals: the CTA's own, and its neighbour's. It is used once.",
        "try_wait may come back without success, so it stands in a loop.",
    ],
)
def check_last(answer: object) -> str:
    """Lines that keep a CTA until its neighbour has signalled for the last time."""
    exhibit = exhibits()["first_to_leave"]
    if not isinstance(answer, str) or not answer.strip():
        raise WrongAnswer("Give the missing lines as a text.", expected="a str", got=type(answer).__name__)
    if "barrier.cluster" in answer:
        raise WrongAnswer(
            "A barrier of the cluster is right as well, but this exercise asks for the mbarrier."
        )
    if re.search(r"bar(rier)?\.(cta\.)?sync|bar\.warp", answer):
        raise WrongAnswer(
            "The threads of one CTA can meet as often as they like: the neighbour is elsewhere."
        )
    wait = re.search(r"(test|try)_wait\S*\s+(%\w+)", answer)
    if wait is None:
        raise WrongAnswer("No line waits for the mbarrier: `mbarrier.try_wait.parity` is the instruction.")
    if f"@!{wait[2]}" not in answer.replace(" ", "").replace("\t", ""):
        raise WrongAnswer(
            "try_wait may return false when its time limit is over, before the phase is complete. The kernel then has to wait again."
        )
    text = exhibit.text("broken").replace("%first, %tells;", "%first, %tells, %done;")
    _silent(
        exhibit,
        text.replace("    st.global", f"{answer.strip(chr(10))}\n    st.global"),
        {
            "ExitedCTAError": "A CTA still ends before its neighbour has told it: did the wait end at once?",
            "DeadlockError": "Both CTAs wait for a phase that nobody completes: `empty` is used for one phase only.",
        },
    )
    return "A CTA that can still be told something must wait for it, even if it has no use for the news."
