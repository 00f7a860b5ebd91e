"""A museum of published bugs: each exhibit is a small kernel of our own, with the bug and without it.

An exhibit is a folder here, and plain data, so that any checker can read it:

    broken.ptx, repaired.ptx   the kernel; the two differ in one place
    launch.json                how it is launched, its arguments, and the results that it should have
    exhibit.json               where the bug was published, and the reports that are right for it

`exhibits()` gives them all. A text can be delayed: `text("broken_delayed")` is the broken text in which one
warp sleeps at the place that matters, so that a GPU shows soon what it would show once in a long while. The
folder's README says what a launch file holds and how to send an exhibit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutecourse.dtypes import dtype, encode
from cutecourse.errors import CourseError
from cutecourse.kernels import LaunchSpec, Scalar, Tensor, TensorMapSpec
from cutecourse.tma import TensorMapEncoding

__all__ = ["DELAYED", "PUZZLE", "VERSIONS", "Exhibit", "ExhibitError", "Latecomer", "exhibits"]

VERSIONS = ("broken", "repaired")
_LATE = "_delayed"
DELAYED = tuple(version + _LATE for version in VERSIONS)
_FOLDER = Path(__file__).parent
_NEEDED = (
    "title",
    "sign",
    "symptom",
    "project",
    "found",
    "source",
    "file",
    "status",
    "rule",
    "section",
    "reports",
    "look_for",
    "chapter",
)
PUZZLE = "puzzle"
"""The repaired text with another mistake, for an exercise."""
_ALLOWED = {*_NEEDED, "said", "mistake", "delay", PUZZLE}
_NAPS = 4
"""A nap is a nanosleep of a millisecond, the longest that there is."""


class ExhibitError(CourseError):
    """A file of an exhibit lacks something, or says it in another way than the README asks for."""


@dataclass(frozen=True)
class Latecomer:
    """Where a party of a kernel is made late, and what that is expected to do to the broken kernel.

    before     the beginning of the line before which it sleeps, as it stands in both texts, once.
    cta, warp  who sleeps: a warp of a CTA.
    predicted  how runs on a GPU were expected to end, before anybody had run them: "wrong", "hung", "error"
               or "right".
    """

    before: str
    cta: int
    warp: int
    predicted: str

    def put_into(self, text: str) -> str:
        """The text with the sleep in it."""
        lines = text.splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.strip().startswith(self.before)]
        if len(places) != 1:
            raise ExhibitError(f"{len(places)} lines begin with {self.before!r}; a delay needs one.")
        nap = "    @%late nanosleep.u32 1000000;\n" * _NAPS
        lines.insert(
            places[0],
            f"""{{   // a warp comes late
    .reg .pred %late;
    .reg .b32 %who;
    mov.u32 %who, %tid.x;
    shr.u32 %who, %who, 5;
    setp.eq.u32 %late, %who, {self.warp};
    mov.u32 %who, %ctaid.x;
    setp.eq.and.u32 %late, %who, {self.cta}, %late;
{nap}}}
""",
        )
        return "".join(lines)


@dataclass(frozen=True)
class Exhibit:
    """One bug.

    title     the kernel's work, in words that give nothing away; `symptom` what its users saw, and `sign` the
              kind of symptom.
    project   whose bug it was; `source` is its commit, pull request or issue, `file` the file, and `status`
              says how it was fixed, or that it is open. `found` says by whom it was found.
    rule      the sentence that the broken kernel does not keep, in quotation marks where the words are the
              document's; `section` is where it stands: in the PTX ISA, if it names no other document.
    reports   the classes of the emulator's errors that are right for the broken kernel, the likeliest first;
              `look_for` what in such a report points to this bug.
    chapter   the page that explains the matter, such as "07b_tma_in_motion".
    said      words of its source about the symptom, quoted exactly, so that a search finds them.
    mistake   for a kernel that hangs: what is wrong, in one clause.
    delay     how to make the bug likelier on a GPU; None where no delay of a thread does that.
    puzzle    a part of the repaired text, and what stands in its place in `text("puzzle")`.
    """

    name: str
    title: str
    sign: str
    symptom: str
    project: str
    found: str
    source: str
    file: str
    status: str
    rule: str
    section: str
    reports: tuple[str, ...]
    look_for: str
    chapter: str
    said: tuple[str, ...] = ()
    mistake: str = ""
    delay: Latecomer | None = None
    puzzle: tuple[str, str] | None = None

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return _FOLDER / self.name

    def text(self, version: str) -> str:
        """The PTX of one of `VERSIONS`, or of `DELAYED` or `PUZZLE` if the exhibit has them."""
        if version == PUZZLE:
            if self.puzzle is None:
                raise ExhibitError(f"{self.name} has no puzzle.")
            return self.text("repaired").replace(*self.puzzle).replace("repaired.", "with another mistake.")
        text = (self.folder / f"{version.removesuffix(_LATE)}.ptx").read_text(encoding="utf-8")
        if version not in DELAYED:
            return text
        if self.delay is None:
            raise ExhibitError(f"{self.name} has no delay.")
        return self.delay.put_into(text)

    @cached_property
    def launch(self) -> dict[str, Any]:
        """The launch file."""
        return _read(self.folder / "launch.json")

    @property
    def target(self) -> str:
        """The architecture that the kernel needs."""
        found = re.search(r"^\.target\s+(\w+)", self.text("broken"), re.MULTILINE)
        if found is None:
            raise ExhibitError(f"{self.name}/broken.ptx has no .target line.")
        return found[1]

    @property
    def runs_on_hopper(self) -> bool:
        """True if a GPU of compute capability 9.0 has the kernel's instructions."""
        return self.target in ("sm_80", "sm_90", "sm_90a")

    def spec(self, version: str) -> LaunchSpec:
        """The launch of one of `VERSIONS` or `DELAYED`, for the emulator and for a GPU."""
        launch = self.launch
        return LaunchSpec(
            name=f"{self.name}_{version}",
            language="ptx",
            ptx=self.text(version),
            entry=launch["entry"],
            grid=tuple(launch["grid"]),
            block=tuple(launch["block"]),
            cluster=tuple(launch["cluster"]),
            dynamic_smem=launch["dynamic_smem"],
            params=tuple(self._parameter(one) for one in launch["arguments"]),
            target=self.target,
        )

    def _parameter(self, given: Mapping[str, Any]) -> Tensor | Scalar:
        if "value" in given:
            return Scalar(given["name"], given["type"])
        shape = tuple(given["shape"])
        if "map" in given:
            strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
            encoding = TensorMapEncoding(dtype=given["type"], **given["map"])
            return TensorMapSpec.encoded(given["name"], given["type"], shape, strides, encoding)
        return Tensor(given["name"], given["type"], shape)

    def arguments(self) -> dict[str, Any]:
        """New arrays and the numbers of one launch, by name. Outputs hold what no right result has."""
        made: dict[str, Any] = {}
        for one in self.launch["arguments"]:
            if "value" in one:
                made[one["name"]] = one["value"]
            else:
                made[one["name"]] = _filled(one, one["type"], one["shape"])
        return made

    def expected(self) -> dict[str, NDArray[Any]]:
        """The results that the kernel should have, by name, computed without it."""
        given = self.arguments()
        by_name = {one["name"]: one for one in self.launch["arguments"]}
        results = {}
        for name, content in self.launch["results"].items():
            if "product" in content:
                a, b = (given[operand].astype(np.float64) for operand in content["product"])
                results[name] = (a @ b.T).astype(given[name].dtype)
            else:
                results[name] = _filled(content, by_name[name]["type"], by_name[name]["shape"])
        return results


@cache
def exhibits() -> dict[str, Exhibit]:
    """All exhibits by name. Errors: ExhibitError for a file that lacks something."""
    found = {}
    for path in sorted(_FOLDER.glob("*/exhibit.json")):
        fields = _read(path)
        missing = [name for name in _NEEDED if not fields.get(name)]
        if missing or set(fields) - _ALLOWED:
            raise ExhibitError(
                f"{path.parent.name}/exhibit.json must have {', '.join(_NEEDED)}, perhaps said, mistake,"
                f" delay and puzzle, and nothing else; it lacks {', '.join(missing) or 'none of them'}."
            )
        name = path.parent.name
        delay = Latecomer(**fields.pop("delay")) if "delay" in fields else None
        puzzle = tuple(fields.pop(PUZZLE)) if PUZZLE in fields else None
        words = {key: tuple(fields[key]) for key in ("reports", "said") if key in fields}
        found[name] = Exhibit(name, **{**fields, **words, "delay": delay, "puzzle": puzzle})
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExhibitError(f"{path.parent.name}/{path.name} cannot be read: {error}.") from None
    return fields


def _filled(content: Mapping[str, Any], type_: str, shape: list[int]) -> NDArray[Any]:
    """An array from words: numbers that count up, one number for all, or equally long runs of several."""
    kind, size = dtype(type_), prod(shape)
    if "every" in content:
        numbers = np.full(size, content["every"])
    elif "first" in content:
        numbers = content["first"] + content["step"] * np.arange(size)
        if "modulo" in content:
            numbers %= content["modulo"]
    elif "values" in content and size % len(content["values"]) == 0:
        numbers = np.repeat(content["values"], size // len(content["values"]))
    else:
        raise ExhibitError(
            f"an array of {size} elements needs every, first and step, or values that divide it; "
            f"got {content}."
        )
    held: NDArray[Any] = encode(numbers, kind) if kind.name == "bf16" else numbers.astype(kind.numpy)
    return held.reshape(shape)
