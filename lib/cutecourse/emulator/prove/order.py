"""An order of a launch's events that `prove` has tried, to keep and to run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cutecourse.emulator.core.steering import Delay, Execution, Steering
from cutecourse.emulator.errors import LaunchError
from cutecourse.ptx.sources import line_in_words
from cutecourse.ptx.syntax import Module

__all__ = ["EventOrder"]

_ENDINGS = ["th", "st", "nd", "rd"]
_SHOWN = 12
"""The last events of a script that are put into words."""


@dataclass(frozen=True)
class EventOrder:
    """An order of events.

    delays   warps that pause, or work that completes, when nothing else can go on.
    script   or events in this order, each before all of `later`; a `Delay` stands for what it would delay.
    refuses  True if tests of mbarriers fail once, where the thread then does something else.
    """

    delays: tuple[Delay, ...] = ()
    script: tuple[Delay, ...] = ()
    later: frozenset[Delay] = frozenset()
    refuses: bool = False

    def steering(self) -> Steering:
        """What makes one launch keep to the order."""
        return Steering(self.delays, refuses=self.refuses, script=self.script, later=self.later)

    def story(self, module: Module) -> Iterator[str]:
        """Say the order in words, a line each."""
        for delay in self.delays:
            yield f"{_event(delay, module)} when nothing else can go on."
        if self.script:
            left = len(self.script) - _SHOWN
            yield f"after {left} events at barriers, in this order:" if left > 0 else "in this order:"
            for delay in self.script[-_SHOWN:]:
                yield f"  {_event(delay, module)}"
        if self.refuses:
            yield "each test of an mbarrier that decides about more than waiting fails once."

    def to_json(self) -> str:
        """The order as a text, for `cutecourse emulate --order`."""
        return json.dumps(
            {
                "delays": [_as_json(one) for one in self.delays],
                "script": [_as_json(one) for one in self.script],
                "later": [_as_json(one) for one in sorted(self.later)],
                "refuses": self.refuses,
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> EventOrder:
        """Read what `to_json` wrote. Errors: LaunchError."""
        try:
            held = json.loads(text)
            delays, script, later = (_delays(held[name]) for name in ("delays", "script", "later"))
            return cls(tuple(delays), tuple(script), frozenset(later), bool(held["refuses"]))
        except (ValueError, KeyError, TypeError) as error:
            raise LaunchError(f"this is no order that prove has written: {error!r}") from None


def _delays(held: Iterable[Any]) -> Iterator[Delay]:
    for one in held:
        x, y, z = map(int, one["block"])
        yield Delay(
            Execution((x, y, z), int(one["warp"]), int(one["line"]), int(one["time"])), bool(one["work"])
        )


def _as_json(delay: Delay) -> dict[str, Any]:
    return {**delay.place._asdict(), "work": delay.work}


def _event(delay: Delay, module: Module) -> str:
    place, work = delay
    who, line = f"block {place.block} warp {place.warp}", line_in_words(module, place.line)
    again = f" for the {_nth(place.time + 1)} time" if place.time else ""
    return (
        f"what {who} starts at line {line}{again} completes" if work else f"{who} executes line {line}{again}"
    )


def _nth(n: int) -> str:
    return f"{n}{_ENDINGS[n % 10 if n % 10 < 4 and not 10 < n % 100 < 14 else 0]}"
