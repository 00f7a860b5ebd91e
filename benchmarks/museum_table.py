"""The museum's pages: the index by what one sees, who finds what, and the computed parts of a story.

python -m benchmarks.museum_table      prints the table
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from benchmarks.museum import RESULT, RUNS, SEEDS, reported
from benchmarks.results_file import RESULTS
from benchmarks.sanitizer import TOOLS
from cutecourse import runtime
from cutecourse.emulator import EmulatorError, errors
from cutecourse.museum import Exhibit, exhibits
from tools.paths import BOOK, CHAPTERS

_WIDTH = 92
_NO_GPU = "no Blackwell"
_STORY = re.compile(r"^\((?P<label>exhibit-[\w-]+)\)=\n## (?P<words>.+)$", re.MULTILINE)
_PLACES = {"issue": "issues", "pull request": "pull", "commit": "commit"}
_SOURCE = re.compile(r"(?P<kind>issue|pull request|commit) #?(?P<number>[0-9a-f]+)")
_TITLE = re.compile(r"^# (?P<words>.+)$", re.MULTILINE)
SIGNS = {
    "hangs": "It hangs: every time, or for some inputs or builds",
    "hangs rarely": "It hangs once in many runs",
    "differs": "Results are wrong now and then, or differ from call to call",
    "one gpu": "Results are right on one GPU and wrong on another",
    "sizes": "Results are wrong for some sizes only",
    "fails": "The launch fails, or an address is illegal",
    "late": "Nothing, until somebody makes one party late",
    "nothing": "Nothing that anybody has told of",
}
"""The kinds of symptoms, in the order of the index."""
_STANDS = {
    "mbarrier": ("at an mbarrier", "at two mbarriers"),
    "named barrier": ("at a named barrier", "at two named barriers"),
    "barrier of the cluster": ("at the cluster's barrier",),
    "loop over memory": ("in a loop that reads memory", "in two loops that read memory"),
    "other lanes": ("at a `bar.sync`, where lanes wait for the rest of their warp",),
}


def kept() -> dict[str, dict[str, Any]]:
    """The emulator's kept rows, by exhibit."""
    return {row["exhibit"]: row for row in json.loads(RESULT.read_text(encoding="utf-8"))["rows"]}


def kept_of_a_gpu() -> dict[str, Any]:
    """The kept figures of a GPU, or {} if nobody has measured them yet."""
    paths = sorted(RESULTS.glob("museum_*.json"))
    found: dict[str, Any] = json.loads(paths[0].read_text(encoding="utf-8")) if paths else {}
    return found


def on_gpu(measured: Mapping[str, Any], name: str, kernel: str = "broken") -> dict[str, Any]:
    """The row of a kernel among a GPU's figures, or {}."""
    rows = (row for row in measured.get("rows", ()) if (row["exhibit"], row["kernel"]) == (name, kernel))
    return next(rows, {})


def runs_in_words(row: Mapping[str, Any]) -> str:
    """How the runs of a kernel on a GPU ended, and how many they were if they were fewer than usual.

    >>> runs_in_words({"ends": {"right": 48, "wrong": 2}})
    '48 right, 2 wrong'
    >>> runs_in_words({"ends": {"wrong": 6, "hung": 3}})
    '6 wrong, 3 hung (9 runs)'
    """
    ends = row.get("ends", {})
    found = ", ".join(f"{count} {end}" for end, count in ends.items()) or "not yet run"
    runs = sum(ends.values())
    return f"{found} ({runs} runs)" if 0 < runs < RUNS else found


def tools_in_words(row: Mapping[str, Any]) -> str:
    """Which of compute-sanitizer's tools report a kernel, and under which it hangs, if it does not by itself.

    >>> ended = {"state": "failed", "words": "did not end within 25 s"}
    >>> tools_in_words(
    ...     {"ends": {"right": 50}, "tools": {"memcheck": {"state": "silent"}, "synccheck": ended}}
    ... )
    'none; hangs under synccheck'
    """
    tools = row.get("tools", {})
    said = {tool: tools[tool] for tool in TOOLS if tool in tools}
    reporting = [tool for tool in said if said[tool]["state"] == "reports"]
    hanging = [tool for tool in said if said[tool].get("words", "").startswith("did not end")]
    if row.get("ends", {}).get("hung"):
        hanging = []
    found = ", ".join(reporting) or ("none" if tools else "not yet run")
    return found + (f"; hangs under {', '.join(hanging)}" if hanging else "")


def slug(heading: str) -> str:
    """A heading's anchor.

    >>> slug("Who says that the bytes are there?")
    'who-says-that-the-bytes-are-there'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def label(name: str) -> str:
    """The label that stands before an exhibit's story."""
    return f"exhibit-{name.replace('_', '-')}"


def stories() -> dict[str, tuple[str, str]]:
    """Each exhibit's story in the book's order: its heading, and where it is, from the book's folder."""
    named = {label(name): name for name in exhibits()}
    pages = re.findall(r"file: (museum_\w+)$", (BOOK / "_toc.yml").read_text(encoding="utf-8"), re.MULTILINE)
    return {
        named[found["label"]]: (found["words"], f"{page}.md#{slug(found['words'])}")
        for page in pages
        for found in _STORY.finditer((BOOK / f"{page}.md").read_text(encoding="utf-8"))
    }


def explained(exhibit: Exhibit) -> str:
    """A link to the page that explains the bug, from the book's folder."""
    path = CHAPTERS / f"{exhibit.chapter}.md"
    title = _TITLE.search(path.read_text(encoding="utf-8"))
    assert title is not None
    return f"[{title['words']}](chapters/{path.name})"


# --- the parts of a story -----------------------------------------------------------------------------------


def report(exhibit: Exhibit) -> str:
    """The emulator's report, of the first seed that gives one."""
    seed = next(seed for seed in range(SEEDS) if reported(exhibit, "broken", seed))
    try:
        runtime.run(exhibit.spec("broken"), device="emulator", seed=seed, **exhibit.arguments())
    except EmulatorError as error:
        lines = f"{type(error).__name__}: {error}".splitlines()
        wrapped = "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent=_further(line)) for line in lines)
        return f"Seed {seed}:\n\n```text\n{wrapped}\n```"
    raise AssertionError(exhibit.name)


def difference(exhibit: Exhibit) -> str:
    """The lines in which the broken and the repaired text differ, and the whole broken text behind a fold."""
    broken, repaired = (exhibit.text(version).splitlines()[1:] for version in ("broken", "repaired"))
    lines = [
        line
        for line in difflib.unified_diff(broken, repaired, n=2, lineterm="")
        if not line.startswith(("---", "+++"))
    ]
    shown = re.sub(r"\A(\s*\n)+|\s+\Z", "", "\n".join("" if line[:2] == "@@" else line for line in lines))
    return f"""```diff
{shown}
```

````{{dropdown}} The whole broken kernel, with the line numbers of the report
```{{code-block}} text
:linenos:

{exhibit.text("broken").rstrip()}
```
````"""


def command(exhibit: Exhibit, file: str) -> str:
    """The command that proves, or refutes, a text launched as an exhibit is, with zeros in its arrays.

    If the launch file lists every element of an array, the array decides what the kernel does, and it is read
    from a file.
    """
    launch = exhibit.launch
    words = ["cutecourse", "prove", file]
    for option in ("grid", "block", "cluster"):
        if launch[option] != [1, 1, 1]:
            words += [f"--{option}", re.sub("(,1)+$", "", ",".join(map(str, launch[option])))]
    if launch["dynamic_smem"]:
        words += ["--smem", str(launch["dynamic_smem"])]
    for one in launch["arguments"]:
        words += ["--arg", _argument(one)]
    return shlex.join(words)


def _argument(one: Mapping[str, Any]) -> str:
    if "value" in one:
        return f"{one['type']}:{one['value']}"
    if len(one.get("values", ())) == prod(one["shape"]):
        return f"in:{one['name']}.npy"
    zeros = f"zeros:{one['type']}:{'x'.join(map(str, one['shape']))}"
    if "map" not in one:
        return zeros
    return "map:" + json.dumps({"array": zeros, "dtype": one["type"], **one["map"]}, separators=(",", ":"))


def source(exhibit: Exhibit) -> str:
    """Where the bug was published, its rule, who finds it, what to look for, and the chapter."""
    row = kept()[exhibit.name]
    found = SEEDS - row["seeds"].get("", 0)
    where = f"{exhibit.project}, {_linked(exhibit)}; {_code(exhibit.file)}"
    by = "Found by us, by reading" if by_us(exhibit) else "Published"
    late = f"; with a warp that is late: {_late(exhibit)}" if exhibit.delay else ""
    gpu = "it needs a Blackwell GPU, and we had none"
    if exhibit.runs_on_hopper:
        gpu = f"compute-sanitizer: {_sanitizer(exhibit)}; on {machine()['gpu']}: {_runs(exhibit)}{late}"
    return f"""**{by}:** {where}. *{_sentence(exhibit.status)}* Symptom: {exhibit.symptom}.

**The rule:** {exhibit.rule} ({_document(exhibit.section)})

**Who finds it:** the emulator under {found} of {SEEDS} seeds; {gpu}.

**In your kernel,** look for {_ended(exhibit.look_for)} The command for this one, as a pattern:

```bash
{command(exhibit, f"{exhibit.name}/broken.ptx")}
```

**Explained in** {explained(exhibit)}."""


PARTS: dict[str, Callable[[Exhibit], str]] = {"report": report, "difference": difference, "source": source}
"""The parts of a story that a page may ask for."""


def _further(line: str) -> str:
    """The indentation of the lines that go on with a line of a report."""
    return " " * (len(line) - len(line.lstrip()) + 4)


def _linked(exhibit: Exhibit) -> str:
    """The source with links to its commits, pull requests and issues."""
    project = exhibit.project.split()[-1]

    def link(found: re.Match[str]) -> str:
        place = _PLACES[found["kind"]]
        return f"[{found[0]}](https://github.com/{project}/{place}/{found['number']})"

    return _SOURCE.sub(link, exhibit.source)


def _code(file: str) -> str:
    return f"`{file}`" if "/" in file and " " not in file else file


def _sentence(words: str) -> str:
    return _ended(_sentence_start(words))


def _sentence_start(words: str) -> str:
    return words[:1].upper() + words[1:]


def _ended(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def _document(section: str) -> str:
    named, _, anchor = section.partition(" (#")
    if not anchor:
        return named
    return f"PTX ISA, [{named}](https://docs.nvidia.com/cuda/parallel-thread-execution/#{anchor.rstrip(')')})"


def by_us(exhibit: Exhibit) -> bool:
    """True if nobody had published the bug, and we found it by reading the file."""
    return exhibit.found == "by us"


def _sanitizer(exhibit: Exhibit, kernel: str = "broken") -> str:
    if not exhibit.runs_on_hopper:
        return _NO_GPU
    return tools_in_words(on_gpu(kept_of_a_gpu(), exhibit.name, kernel))


def _runs(exhibit: Exhibit) -> str:
    return runs_in_words(on_gpu(kept_of_a_gpu(), exhibit.name)) if exhibit.runs_on_hopper else _NO_GPU


def _late(exhibit: Exhibit) -> str:
    """How runs with a delay ended, and what had been predicted if that was something else."""
    if exhibit.delay is None:
        plain = set(on_gpu(kept_of_a_gpu(), exhibit.name).get("ends", ()))
        return "not needed" if plain - {"right"} else "–"
    row = on_gpu(kept_of_a_gpu(), exhibit.name, "broken_delayed")
    ends, predicted = row.get("ends", {}), exhibit.delay.predicted
    missed = f"; predicted: {predicted}" if ends and max(ends, key=ends.__getitem__) != predicted else ""
    return runs_in_words(row) + missed


def machine() -> dict[str, str]:
    """Where the GPU's figures come from: the GPU, its driver, and compute-sanitizer's version."""
    recorded = kept_of_a_gpu().get("recorded", {})
    return {
        "gpu": f"an {recorded['gpu'].removeprefix('NVIDIA ')}" if recorded.get("gpu") else "a GPU",
        "driver": str(recorded.get("driver") or "unknown"),
        "sanitizer": str(recorded.get("compute_sanitizer") or "none"),
    }


# --- the tables ---------------------------------------------------------------------------------------------


def _rows() -> Iterator[tuple[str, ...]]:
    yield (
        "exhibit",
        "project",
        "seed 0",
        f"{SEEDS} seeds",
        "compute-sanitizer",
        "on the repaired kernel",
        f"{RUNS} runs on a GPU",
        "a warp is late",
    )
    rows = kept()
    for name, (heading, story) in stories().items():
        exhibit, row = exhibits()[name], rows[name]
        yield (
            f"[{heading}]({story})",
            exhibit.project + (" (found by us)" if by_us(exhibit) else ""),
            f"`{row['first']}`" if row["first"] else "nothing",
            f"{SEEDS - row['seeds'].get('', 0)}",
            _sanitizer(exhibit),
            _sanitizer(exhibit, "repaired"),
            _runs(exhibit),
            _late(exhibit),
        )


def _table(rows: Iterator[tuple[str, ...]]) -> str:
    head, *others = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([head, "| --- " * (head.count(" | ") + 1) + "|", *others])


def _hangs() -> Iterator[tuple[str, ...]]:
    """Where warps stand in exhibits that hang, what their barriers have got, and which exhibits these are."""
    yield (
        "where the warps stand",
        "what has come there",
        "exhibit (seeds that end like this): what is wrong",
    )
    rows: dict[tuple[str, str], list[str]] = {}
    told, kept_rows = stories(), kept()
    for name in told:
        mistake = exhibits()[name].mistake
        for state in kept_rows[name]["hangs"]:
            places = Counter(state["at"])
            where = ", ".join(_STANDS[place][count > 1] for place, count in places.items())
            where += "; the others have ended" if places.total() == 1 else ""
            came = "; ".join(state["has"]) or "nobody will ever change what the loop reads"
            rows.setdefault((where, came), []).append(
                f"{_told(name)} ({state['seeds']} of {SEEDS}): {mistake}"
            )
    for row in sorted(rows, key=lambda row: (row[0].count(", "), row)):
        yield (*map(_sentence_start, row), "; ".join(rows[row]))
    alone = [name for name in told if _hung_on_gpu(name) and not kept_rows[name]["hangs"]]
    wrong = (f"{_told(name)}: {exhibits()[name].mistake}" for name in alone)
    yield "Seen on a GPU only; the emulator goes on", "", "; ".join(wrong)


def _hung_on_gpu(name: str) -> bool:
    rows = (on_gpu(kept_of_a_gpu(), name, kernel) for kernel in ("broken", "broken_delayed"))
    return any("hung" in row.get("ends", {}) for row in rows)


def _signs() -> Iterator[tuple[str, ...]]:
    """The exhibits by what their users saw, and by what a GPU made of our kernels."""
    yield "what users saw", f"our kernel on {machine()['gpu']}", "exhibits"
    for sign, words in SIGNS.items():
        rows: dict[str, list[str]] = {}
        for name in stories():
            if exhibits()[name].sign == sign:
                rows.setdefault(_often(exhibits()[name]), []).append(_told(name))
        for often, found in sorted(rows.items()):
            yield words, often, ", ".join(found)
            words = ""


def _often(exhibit: Exhibit) -> str:
    """How often an exhibit went wrong on a GPU, with and without a warp that is late."""
    if not exhibit.runs_on_hopper:
        return _NO_GPU
    plain, late = (
        set(on_gpu(kept_of_a_gpu(), exhibit.name, kernel).get("ends", ()))
        for kernel in ("broken", "broken_delayed")
    )
    if not plain:
        return "not yet run"
    if plain != {"right"}:
        return _bad(plain) + (" at times" if "right" in plain else " in each run")
    if late - {"right"}:
        often = "at times when" if "right" in late else "each time that"
        return f"right {RUNS} times, and {_bad(late)} {often} a warp was late"
    return f"right {RUNS} times" + (", even with a late warp" if late else "")


def _bad(ends: set[str]) -> str:
    return " or ".join(sorted(ends - {"right"}))


def _told(name: str) -> str:
    """A link to an exhibit's story."""
    heading, story = stories()[name]
    return f"[{heading}]({story})"


def _words() -> Iterator[tuple[str, ...]]:
    """Words to search for, each as it was written: by users and authors of repairs, and by the emulator."""
    yield "words", "written by", "exhibits"
    for name in stories():
        for words in exhibits()[name].said:
            yield f"“{words}”", _linked(exhibits()[name]), _told(name)
    rows: dict[str, list[str]] = {}
    for name in stories():
        for kind in kept()[name]["seeds"]:
            if kind:
                rows.setdefault(getattr(errors, kind).hazard.name, []).append(_told(name))
    for hazard, found in sorted(rows.items()):
        yield f"`hazard: {hazard}`", "the emulator", ", ".join(dict.fromkeys(found))


def _luck() -> str:
    """How many broken kernels a GPU found nothing wrong with."""
    ends = [on_gpu(kept_of_a_gpu(), name).get("ends") for name in exhibits()]
    plain = [set(one) == {"right"} for one in ends if one]
    return (
        f"{_sentence_start(machine()['gpu'])} ran {len(plain)} of the broken ones, {RUNS} times each, or"
        f" fewer if they hung. **{sum(plain)} of them gave the right result all {RUNS} times.**"
    )


def _proofs() -> str:
    """How many broken kernels `prove` refutes, and why that is no merit."""
    refuted = sum(row["verdict"] == "counterexample" for row in kept().values())
    return (
        f"There is no column for `prove`. It refutes {refuted} of the {len(kept())} broken kernels, which"
        " says little for it: we admit an exhibit only if the emulator or `prove` finds the broken kernel and"
        " is silent about the repaired one. The table is computed from kept measurements, which tests compare"
        " with the emulator of today."
    )


def _machine() -> str:
    where, measured = machine(), kept_of_a_gpu()
    late, hit = [], 0
    controls: list[str] = []
    for exhibit in exhibits().values():
        tools = on_gpu(measured, exhibit.name, "repaired").get("tools", {})
        controls += (tool["state"] for tool in tools.values())
        if exhibit.delay and (ends := on_gpu(measured, exhibit.name, "broken_delayed").get("ends")):
            late.append(set(ends) == {"right"})
            hit += max(ends, key=ends.__getitem__) == exhibit.delay.predicted
    return (
        f"The GPU was {where['gpu']} with driver {where['driver']}, which also compiled the PTX;"
        f" compute-sanitizer was version {where['sanitizer']}. Of the {len(late)} kernels in which a warp was"
        f" late, {sum(late)} were right all the same, and {hit} of the {len(late)} predictions came true."
        f" Each tool also ran each repaired kernel: **of these {len(controls)} runs,"
        f" {controls.count('reports')} gave a false alarm.**"
    )


TABLES: dict[str, Callable[[], str]] = {
    "table": lambda: _table(_rows()),
    "hangs": lambda: _table(_hangs()),
    "signs": lambda: _table(_signs()),
    "words": lambda: _table(_words()),
    "luck": _luck,
    "machine": _machine,
    "proofs": _proofs,
}
"""What a page may ask for besides the parts of stories: tables, and what a GPU said."""


if __name__ == "__main__":
    print(TABLES["table"]())
