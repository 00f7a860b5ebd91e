"""The steps of a pair's roles: who holds each accumulator after each of them, as plain data."""

from __future__ import annotations

from typing import Any

from cutecourse.trace import Trace
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.pair_roles import ROLES, Moments, role_moments, role_spans

__all__ = ["STATES", "roles_snapshot"]

STATES = {
    "free": "free",
    "multiply": "held by the MMAs",
    "full": "full: the sums wait to be loaded",
    "unload": "held by the warps that store",
    "both": "held by both: MMAs write while warps still load",
}
"""What an accumulator can be, in words."""


def roles_snapshot(trace: Trace, cluster: int | None, tiles: int | None) -> dict[str, Any]:
    """All that the widget shows, as plain data: the roles' spans, accumulators, warps, steps in their order.

    A step says in `words` what happened, by which `role` and for which `tile`. Its `holds` has for each
    accumulator its state (a key of `STATES`), the last tile whose MMAs went into it, None before the first,
    and the warps that have loaded the sums, as bits: bit i for `warps[i]`.
    Errors: WidgetError, for a trace or cluster without an MMA, and for fewer than one tile.
    """
    moments = role_moments(trace, cluster)
    count = len(moments.of_tile) if tiles is None else min(tiles, len(moments.of_tile))
    if count < 1:
        raise WidgetError(f"RoleTimeline shows at least one tile; tiles is {tiles!r}.")
    warps = sorted(
        {
            (rank, warp)
            for (role, _), events in moments.events.items()
            if role == "unload"
            for _, rank, warp in events
        }
    )
    spans = [one for one in role_spans(trace, moments.cluster) if one.tile < count]
    return {
        "kernel": trace.kernel,
        "where": trace.device,
        "grid": list(trace.grid),
        "cluster": list(trace.cluster),
        "seed": trace.seed,
        "pair": moments.cluster,
        "tiles": count,
        "of_tiles": len(moments.of_tile),
        "roles": [[role, text] for role, text in ROLES.items()],
        "states": STATES,
        "accumulators": [list(columns) for columns in moments.accumulators],
        "warps": [list(one) for one in warps],
        "spans": [[one.role, one.tile, one.accumulator, one.start, one.end] for one in spans],
        "steps": _steps(moments, count, warps),
    }


def _steps(moments: Moments, count: int, warps: list[tuple[int, int | None]]) -> list[dict[str, Any]]:
    """The steps of the first `count` tiles in the order of their times."""
    told: list[tuple[int, int, str, int, str, int | None]] = []  # time, order, role, tile, act, warp
    for (role, tile), events in moments.events.items():
        if tile >= count:
            continue
        first, last = min(events)[0], max(time for time, *_ in events)
        if role == "load":
            told.append((first, 0, role, tile, "asks", None))
        elif role == "multiply":
            told += [(first, 2, role, tile, "begins", None), (last, 3, role, tile, "ends", None)]
        elif role == "store":
            told.append((last, 5, role, tile, "ends", None))
        else:
            mine = {one: max(time for time, *who in events if tuple(who) == one) for one in warps}
            told += [(time, 4, role, tile, "ends", warps.index(one)) for one, time in mine.items()]
    held = [_Accumulator(len(warps)) for _ in moments.accumulators]
    steps = []
    for time, _, role, tile, act, warp in sorted(told, key=lambda one: one[:2]):
        acc = moments.of_tile[tile]
        one = held[acc]
        if role == "load":
            words = f"The load warps ask for the first k-tile of tile {tile}."
        elif role == "store":
            words = f"TMA has read the last piece of tile {tile} from shared memory."
        elif act == "begins":
            late = one.begin(tile)
            words = (
                f"The first MMA of tile {tile} is issued. From here accumulator {acc} belongs to the MMAs."
            )
            if late:
                have = "has" if late == 1 else "have"
                words += f" But {late} of {len(warps)} warps {have} not loaded the sums that it held!"
        elif warp is None:
            one.multiplies = False
            words = (
                f"All MMAs of tile {tile} are complete. A commit says so at acc_full of accumulator {acc}."
            )
        else:
            overwritten = one.tile != tile
            left = one.load(tile, warp)
            rank, number = warps[warp]
            so_far = f"{len(warps) - left} of {len(warps)} warps"
            words = f"Warp {number} of CTA {rank} has loaded its sums of tile {tile}: {so_far}."
            if overwritten:
                words += f" MMAs of tile {one.tile} have written there."
            elif not left:
                words += f" Accumulator {acc} is free, and its next MMA may start."
        steps.append(
            {
                "time": time,
                "role": role,
                "tile": tile,
                "accumulator": acc,
                "words": words,
                "holds": [list(each.now()) for each in held],
            }
        )
    return steps


class _Accumulator:
    """Who holds an accumulator: the MMAs of a tile, or warps that have yet to load a tile's sums."""

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self.tile: int | None = None
        self.multiplies = False
        self.missing: dict[int, set[int]] = {}  # by tile, the warps that have not loaded its sums

    def begin(self, tile: int) -> int:
        """A tile's first MMA; return how many warps have not loaded what it overwrites."""
        late = sum(map(len, self.missing.values()))
        self.tile, self.multiplies = tile, True
        self.missing[tile] = set(range(self.warps))
        return late

    def load(self, tile: int, warp: int) -> int:
        """A warp has loaded its sums of a tile; return how many have not."""
        self.missing[tile].discard(warp)
        return len(self.missing[tile])

    def now(self) -> tuple[str, int | None, int]:
        """The state, the last tile whose MMAs went in, and the warps that have loaded, as bits."""
        if self.tile is None:
            return "free", None, 0
        old = [missing for tile, missing in self.missing.items() if tile != self.tile and missing]
        missing = old[0] if old else self.missing[self.tile]
        state = (
            "both"
            if old
            else "multiply"
            if self.multiplies
            else "free"
            if not missing
            else "full"
            if len(missing) == self.warps
            else "unload"
        )
        return state, self.tile, sum(1 << warp for warp in range(self.warps) if warp not in missing)
