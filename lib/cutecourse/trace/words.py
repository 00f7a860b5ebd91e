"""An event in words, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["Table", "barrier_name", "html_table", "in_runs", "number", "place", "runs", "text_table", "words"]


def words(kind: str, data: Mapping[str, Any]) -> str:
    """An event in one line: its kind, then what it did. A fence's name says it all."""
    if kind == "fence":
        return str(data["name"])
    detail = _DETAILS[kind](data)
    return f"{kind}: {detail}" if detail else kind


def barrier_name(barrier: Mapping[str, Any] | None) -> str:
    """A barrier as its variable and CTA: `full`, `full+8`, `full of CTA 3`, or the shared address."""
    if barrier is None:
        return "no barrier"
    name = barrier.get("name") or f"shared {barrier['offset']:#x}"
    return f"{name} of CTA {barrier['rank']}" if barrier["rank"] else str(name)


def place(warp: int | None, lane: int | None) -> str:
    """A warp, with the lane when it was one thread: `2`, `2.31`, or `-`."""
    if warp is None:
        return "-"
    return str(warp) if lane is None else f"{warp}.{lane}"


def number(count: int, what: str) -> str:
    """A count with its noun.

    >>> number(1, "arrival"), number(2, "arrival"), number(8192, "byte")
    ('1 arrival', '2 arrivals', '8192 bytes')
    """
    return f"{count} {what}" + ("" if count == 1 else "s")


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of each run of neighbours.

    >>> runs([0, 1, 2, 5, 7, 8])
    [(0, 2), (5, 5), (7, 8)]
    """
    found: list[tuple[int, int]] = []
    for one in numbers:
        if found and one == found[-1][1] + 1:
            found[-1] = (found[-1][0], one)
        else:
            found.append((one, one))
    return found


def in_runs(numbers: Iterable[int], to: str = "-") -> str:
    """Numbers in words, neighbours together.

    >>> in_runs([0, 1, 2, 5])
    '0-2, 5'
    """
    return ", ".join(f"{a}" if a == b else f"{a}{to}{b}" for a, b in runs(numbers))


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: every column but the last is aligned right."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns[:-1]]
    lines = (
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in [head, *rows]
    )
    return "\n".join(line.rstrip() for line in lines)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """The same table as a notebook shows it."""
    titles = "".join(f"<th scope='col' style='text-align:left'>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        "<div style='overflow-x:auto' tabindex='0'><table>"
        f"<caption style='text-align:left'>{escape(caption)}</caption>"
        f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )


class Table:
    """A table that prints as text and shows itself in a notebook."""

    def __init__(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.title = title
        self.head = tuple(head)
        self.rows = tuple(tuple(row) for row in rows)

    def __str__(self) -> str:
        return f"{self.title}\n{text_table(self.head, self.rows)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.head, self.rows, self.title)


def _state(state: Mapping[str, int]) -> str:
    arrivals, tx = number(state["pending"], "arrival"), state["tx"]
    if tx < 0:  # a peer's bytes may come before the own thread has said how many will
        missing = f"{arrivals} missing, {number(-tx, 'byte')} not yet expected"
    else:
        missing = f"{arrivals} and {number(tx, 'byte')} missing"
    return f"phase {state['phase']}, {missing}"


def _arrive(data: Mapping[str, Any]) -> str:
    dropped = (
        f", and {number(data['dropped'], 'arrival')} fewer are needed from the next phase on"
        if data["dropped"]
        else ""
    )
    where = f"{barrier_name(data['barrier'])}{dropped} ({_state(data['state'])})"
    return f"{number(data['count'], 'arrival')} at {where}"


def _issue(data: Mapping[str, Any]) -> str:
    what = data["tensor"] or "bytes"
    text = f"{data['operation']} {what}"
    if data["coords"] is not None:
        text += f" at {_crd(data['coords'])}, box {_crd(data['box'])}"
    text += f", {number(data['bytes'], 'byte')}"
    if data["destinations"]:
        text += " to " + ", ".join(f"CTA {to['rank']} {to['offset']:#x}" for to in data["destinations"])
    if data["mask"] is not None:
        text += f", mask {data['mask']:#06b}"
    return text + (f", signals {barrier_name(data['barrier'])}" if data["barrier"] else "")


def _crd(values: Sequence[Any] | None) -> str:
    return "(" + ", ".join(map(str, values or ())) + ")"


def _wait(data: Mapping[str, Any]) -> str:
    outcome = {"passed": "passes", "blocked": "waits", "false": "answers no"}[data["outcome"]]
    return f"{data['name']} for parity {data['parity']} of {barrier_name(data['barrier'])} {outcome}"


def _complete(data: Mapping[str, Any]) -> str:
    origin = "" if data["transfer"] is None else f" of #{data['transfer']}"
    where = f"{barrier_name(data['barrier'])} ({_state(data['state'])})"
    return f"{number(data['bytes'], 'byte')}{origin} at {where}"


def _tmem(data: Mapping[str, Any]) -> str:
    text = number(data["columns"], "column")
    if data["address"] is not None:
        text += f" at {data['address']:#x}"
    if data["group"] == 2:
        text += " of both CTAs"
    return text if data["outcome"] == "passed" else f"{text}: waits"


def _tmem_access(data: Mapping[str, Any]) -> str:
    return f"{data['shape']} at {data['address']:#x}, {number(data['registers'], 'register')} per thread"


def _mma(data: Mapping[str, Any]) -> str:
    what = f"{data['m']}x{data['n']}x{data['k']} {data['types']} into {data['d']:#x}"
    return what + (", added" if data["accumulate"] else "") + (", both CTAs" if data["group"] == 2 else "")


def _access(data: Mapping[str, Any]) -> str:
    ranges = []
    for touch in data["touches"][:3]:
        where = touch.get("name") or ("shared" if touch["rank"] == 0 else f"shared of CTA {touch['rank']}")
        first, stop = touch["range"]
        ranges.append(f"{where} {first:#x} to {stop - 1:#x}")
    more = len(data["touches"]) - len(ranges)
    return (
        f"{data['name']} by {number(data['lanes'], 'lane')}, "
        + ", ".join(ranges)
        + (f" and {more} more" if more else "")
    )


def _commit(data: Mapping[str, Any]) -> str:
    text = f"arrives at {barrier_name(data['barrier'])}"
    if data["mask"] is not None:
        text += f" of CTAs {data['mask']:#06b}"
    return f"{text} when the thread's earlier operations are complete"


def _bulk_wait(data: Mapping[str, Any]) -> str:
    until = "read" if data["read"] else "complete"
    outcome = "passes" if data["outcome"] == "passed" else "waits"
    return f"until at most {number(data['left'], 'group')} are not {until}: {outcome}"


_DETAILS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "mbarrier.init": lambda d: f"{barrier_name(d['barrier'])} expects {number(d['count'], 'arrival')}",
    "mbarrier.inval": lambda d: barrier_name(d["barrier"]),
    "mbarrier.arrive": _arrive,
    "mbarrier.expect_tx": lambda d: (
        f"{number(d['bytes'], 'byte')} more at {barrier_name(d['barrier'])} ({_state(d['state'])})"
    ),
    "mbarrier.complete_tx": _complete,
    "mbarrier.phase": lambda d: f"phase {d['phase']} of {barrier_name(d['barrier'])} is complete",
    "mbarrier.wait": _wait,
    "mbarrier.resume": lambda d: f"parity {d['parity']} of {barrier_name(d['barrier'])}",
    "tma.issue": _issue,
    "tma.land": lambda d: f"{number(d['bytes'], 'byte')} of #{d['transfer']} at {d['offset']:#x}",
    "tma.read": lambda d: f"#{d['transfer']} has read its source",
    "bulk.commit": lambda d: f"group {d['group']}",
    "bulk.wait": _bulk_wait,
    "bulk.resume": lambda d: "",
    "cluster.arrive": lambda d: "",
    "cluster.wait": lambda d: "passes" if d["outcome"] == "passed" else "waits",
    "cluster.resume": lambda d: "",
    "barrier.arrive": lambda d: f"barrier {d['number']}",
    "barrier.wait": lambda d: f"barrier {d['number']}",
    "barrier.resume": lambda d: f"barrier {d['number']}",
    "tmem.alloc": _tmem,
    "tmem.dealloc": _tmem,
    "tmem.relinquish": lambda d: "",
    "tmem.load": _tmem_access,
    "tmem.store": _tmem_access,
    "mma.issue": _mma,
    "mma.complete": lambda d: f"#{d['issue']}",
    "mma.commit": _commit,
    "wgmma.issue": lambda d: (
        f"{d['m']}x{d['n']}x{d['k']} {d['types']}" + (", added" if d["accumulate"] else "")
    ),
    "wgmma.complete": lambda d: f"#{d['issue']}",
    "wgmma.commit": lambda d: f"a group of {number(len(d['issues']), 'operation')}",
    "wgmma.wait": lambda d: (
        f"until at most {number(d['left'], 'group')} are under way: "
        + ("passes" if d["outcome"] == "passed" else "waits")
    ),
    "wgmma.resume": lambda d: "",
    "registers.release": lambda d: f"{number(d['registers'], 'register')} per thread are left",
    "registers.wait": lambda d: (
        f"{number(d['registers'], 'register')} per thread: "
        + ("passes" if d["outcome"] == "passed" else "waits")
    ),
    "registers.resume": lambda d: f"{number(d['registers'], 'register')} per thread",
    "tmem.copy": lambda d: f"to {d['address']:#x}" + (" of both CTAs" if d["group"] == 2 else ""),
    "memory.load": _access,
    "memory.store": _access,
    "memory.atomic": _access,
    "tmem.wait": lambda d: f"for earlier tcgen05.{d['name']}",
}
