"""What the trace event format asks of a file, written from its description and not from the exporter.

Source: the Chromium project's document "Trace Event Format": JSON Object Format; Complete, Instant, Counter,
Metadata and Flow Events. Of Perfetto's reader come three rules more: slices of one thread nest or follow each
other, a thread's number stands for one thread in the file, and a flow's identifier is a number.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from typing import Any

__all__ = ["problems"]

METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def problems(document: Any) -> list[str]:
    """Everything in which a document does not follow the format, in words; empty for a good one."""
    try:
        document = json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError) as error:
        return [f"it is no JSON: {error}"]
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["it is no object with a list traceEvents"]
    found = []
    if document.get("displayTimeUnit", "ms") not in {"ms", "ns"}:
        found.append(f"displayTimeUnit is ms or ns, not {document['displayTimeUnit']!r}")
    events = document["traceEvents"]
    for place, event in enumerate(events):
        found += [f"event {place}: {problem}" for problem in _event(event)]
    if found:
        return found
    return [*_names(events), *_nesting(events), *_flows(events), *_bindings(events), *_counters(events)]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


def _flow_id(value: Any) -> bool:
    """A number, or text that is one: the format allows any text, which Perfetto reads as hexadecimal."""
    return _id(value) or (
        isinstance(value, str) and re.fullmatch("(0x)?[0-9a-fA-F]{1,16}", value) is not None
    )


def _event(event: Any) -> list[str]:
    if not isinstance(event, dict):
        return ["it is no object"]
    phase = event.get("ph")
    if phase not in {"X", "i", "C", "M", "s", "t", "f"}:
        return [f"no phase {phase!r} is known"]
    found = [f"{name} is no number" for name in ("pid", "tid") if not _id(event.get(name))]
    if not isinstance(event.get("name"), str) or not event["name"]:
        found.append("it has no name")
    if not isinstance(event.get("args", {}), dict):
        found.append("args is no object")
        return found
    if phase == "M":
        key, kind = METADATA.get(event.get("name", ""), ("", str))
        value = event.get("args", {}).get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            found.append(f"metadata {event.get('name')} with args {event.get('args')}")
        return found
    if not _number(event.get("ts")) or event["ts"] < 0:
        found.append(f"ts is {event.get('ts')!r}")
    if not isinstance(event.get("cat", ""), str):
        found.append("cat is no text")
    if phase == "X" and (not _number(event.get("dur")) or event["dur"] < 0):
        found.append(f"dur is {event.get('dur')!r}")
    if phase == "i" and event.get("s", "t") not in {"g", "p", "t"}:
        found.append(f"an instant's scope is {event['s']!r}")
    if phase == "C":
        values = event.get("args", {})
        if not values or not all(_number(value) for value in values.values()):
            found.append(f"a counter's values are {values}")
    if phase in "stf" and not (_flow_id(event.get("id")) and isinstance(event.get("cat"), str)):
        found.append("a flow without a cat and an id that is a number")
    if phase == "f" and event.get("bp", "e") != "e":
        found.append(f"a flow's binding point is {event['bp']!r}")
    return found


def _names(events: list[dict[str, Any]]) -> list[str]:
    processes: dict[int, int] = defaultdict(int)
    threads: dict[tuple[int, int], int] = defaultdict(int)
    owners: dict[int, set[int]] = defaultdict(set)
    for event in events:
        if event["name"] == "process_name":
            processes[event["pid"]] += 1
        elif event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] += 1
        if event["ph"] != "M":
            owners[event["tid"]].add(event["pid"])
    found = [f"process {pid} is named {n} times" for pid, n in processes.items() if n > 1]
    found += [f"thread {tid} is named {n} times" for tid, n in threads.items() if n > 1]
    found += [f"thread {tid} is in the processes {pids}" for tid, pids in owners.items() if len(pids) > 1]
    for event in events:
        if event["pid"] not in processes:
            found.append(f"process {event['pid']} has no name")
        elif event["ph"] != "M" and (event["pid"], event["tid"]) not in threads:
            found.append(f"thread {event['tid']} of process {event['pid']} has no name")
    return found


def _slices(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[float, float, str]]]:
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(
                (event["ts"], event["ts"] + event["dur"], event["name"])
            )
    return slices


def _nesting(events: list[dict[str, Any]]) -> list[str]:
    found = []
    for thread, slices in _slices(events).items():
        open_: list[tuple[float, float, str]] = []
        for one in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ and open_[-1][1] <= one[0]:
                open_.pop()
            if open_ and one[1] > open_[-1][1]:
                found.append(f"thread {thread}: {one} goes on after {open_[-1]}, in which it begins")
            open_.append(one)
    return found


def _flows(events: list[dict[str, Any]]) -> list[str]:
    flows: dict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
    slices = _slices(events)
    found = []
    for event in events:
        if event["ph"] in "stf":
            flows[event["cat"], event["id"]].append(event)
            around = slices[event["pid"], event["tid"]]
            if not any(begin <= event["ts"] < end for begin, end, _ in around):
                found.append(f"flow {event['id']}: no slice around its {event['ph']} at {event['ts']}")
    for (_, label), steps in flows.items():
        phases = "".join(step["ph"] for step in steps)
        if not re.fullmatch("st*f", phases):
            found.append(f"flow {label} goes {phases}")
        if [step["ts"] for step in steps] != sorted(step["ts"] for step in steps):
            found.append(f"flow {label} goes back in time")
        if len({step["name"] for step in steps}) > 1:
            found.append(f"flow {label} changes its name")
    return found


def _bindings(events: list[dict[str, Any]]) -> list[str]:
    """A reader goes through the events by time and binds a flow's step to the slice that began last on its
    thread; an instant is a slice without length. Of one time Perfetto takes longer slices first, and the rest
    as it stands.
    """
    found = []
    last: dict[tuple[int, int], dict[str, Any]] = {}
    begun: set[Any] = set()
    for event in sorted((e for e in events if e["ph"] in "Xistf"), key=_reading_order):
        thread = (event["pid"], event["tid"])
        if event["ph"] in "Xi":
            last[thread] = event
            continue
        bound = last.get(thread)
        if bound is None or bound["ph"] == "i" or event["ts"] >= bound["ts"] + bound["dur"]:
            found.append(f"flow {event['id']}: its {event['ph']} at {event['ts']} binds to {bound}")
        if event["ph"] == "s":
            begun.add(event["id"])
        elif event["id"] not in begun:
            found.append(f"flow {event['id']}: its {event['ph']} is read before its s")
    return found


def _reading_order(event: dict[str, Any]) -> tuple[float, bool, float]:
    return (event["ts"], event["ph"] != "X", -event.get("dur", 0))


def _counters(events: list[dict[str, Any]]) -> list[str]:
    series: dict[tuple[int, str], set[tuple[str, ...]]] = defaultdict(set)
    for event in events:
        if event["ph"] == "C":
            series[event["pid"], event["name"]].add(tuple(sorted(event["args"])))
    return [f"counter {name} changes its series" for name, keys in series.items() if len(keys) > 1]
