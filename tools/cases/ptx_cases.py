"""The PTX cases of the emulator: headers, the arrays that they ask for, and what has to come out.

`case_texts` says where the texts come from. A case is a complete PTX module of a few lines, with a header in
its comments:

    // ---
    // about: add.s32 wraps around
    // grid: 1
    // block: 64
    // args:
    //   a: {dtype: s32, shape: [64], kinds: edge, seed: 1}
    //   n: {dtype: u32, value: 64}
    //   out: {dtype: s32, shape: [64], kinds: poison, out: true}
    // expect:
    //   out: a + 1
    // ---

`args` are the parameters in order: arrays (`shape`, and `kinds` of values from a `seed`, or `values` as
written), scalars (`value`), or tensor maps (`map` names an array listed before, and the other fields are
those of cuTensorMapEncodeTiled: dims, strides, box, ...). `expect` gives for an output a NumPy expression of
the arrays as they were before the launch; it is evaluated by the test and knows nothing of the emulator. A
case without it is compared with recordings from hardware only. `tolerance: {ulp: 2}` (or `abs`, `rel`) allows
that distance, with `because:` saying why; without it bytes are compared. `cluster`, `dynamic_smem`, `entry`
and `seed` are the launch's; `specification_only: reason` marks what no recording can exist for. No package is
needed to read this: a line is `key: value`, and values are numbers, words, [lists] and {maps}.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from cutecourse.dtypes import dtype as dtype_by_name
from tools.cases import ptx_boxes, ptx_values
from tools.cases.case_texts import CaseError, CaseText, case_texts, hint
from tools.cases.element_arrays import array_type
from tools.paths import RECORDED_TARGET, ROOT

RECORDING = ROOT / "tests" / "emulator" / "recordings" / RECORDED_TARGET

_TOKEN = re.compile(r"\s*([\[\]{},:]|\"[^\"]*\"|[^\[\]{},:\s][^\[\]{},:]*)")
_KEYS = {
    "about", "grid", "block", "cluster", "dynamic_smem", "entry", "seed", "args", "expect", "tolerance",
    "because", "specification_only", "printed",
}  # fmt: skip


_MAP_FIELDS = (
    "dtype", "dims", "strides", "box", "element_strides", "swizzle", "oob_fill", "l2_promotion"
)  # fmt: skip


def parse_flow(text: str) -> Any:
    """Read a number, word, [list] or {map} as YAML's flow style has them."""
    tokens = _TOKEN.findall(text)
    value, rest = _flow(tokens)
    if rest:
        raise CaseError(f"cannot read {text!r}")
    return value


def _flow(tokens: list[str]) -> tuple[Any, list[str]]:
    if not tokens:
        raise CaseError("a value is missing")
    first, rest = tokens[0].strip(), tokens[1:]
    if first == "[":
        items = []
        while rest and rest[0] != "]":
            item, rest = _flow(rest)
            items.append(item)
            if rest and rest[0] == ",":
                rest = rest[1:]
        return items, rest[1:]
    if first == "{":
        mapping = {}
        while rest and rest[0] != "}":
            key = rest[0].strip()
            if len(rest) < 2 or rest[1] != ":":
                raise CaseError(f"no ':' after {key!r}")
            mapping[key], rest = _flow(rest[2:])
            if rest and rest[0] == ",":
                rest = rest[1:]
        return mapping, rest[1:]
    return _scalar(first), rest


def _scalar(text: str) -> Any:
    if text.startswith('"'):
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    for read in (lambda t: int(t, 0), float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


@dataclass
class Case:
    """One case: its header, read, and its text."""

    name: str
    ptx: str
    about: str = ""
    grid: Any = 1
    block: Any = 32
    cluster: Any = 1
    dynamic_smem: int = 0
    entry: str | None = None
    seed: int = 0
    args: dict[str, dict[str, Any]] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, Any] = field(default_factory=dict)
    because: str = ""
    specification_only: str = ""
    printed: str = ""

    @property
    def family(self) -> str:
        """The first part of the name: the folder of the case, and the file of its recording."""
        return self.name.partition("/")[0]

    @property
    def target(self) -> str:
        """The architecture that the text is for."""
        (line,) = (line for line in self.ptx.split("\n") if line.startswith(".target"))
        return line.split()[1].rstrip(",")

    @property
    def sha256(self) -> str:
        """The hash that a recording of this very text names."""
        return hashlib.sha256(self.ptx.encode()).hexdigest()

    @property
    def outputs(self) -> list[str]:
        """The arguments that the kernel writes."""
        return [name for name, spec in self.args.items() if spec.get("out")]

    def make_args(self) -> dict[str, Any]:
        """Fresh arrays and scalars, the same each time and on each machine."""
        made: dict[str, Any] = {}
        for name, spec in self.args.items():
            made[name] = self._map(spec, made) if "map" in spec else self._make(name, spec)
        return made

    def _map(self, spec: dict[str, Any], made: dict[str, Any]) -> ptx_boxes.MapArgument:
        fields = {key: value for key, value in spec.items() if key != "map"}
        of = spec["map"]
        if of not in made:
            raise CaseError(f"{self.name}: a map is of {of!r}, which is no argument before it")
        fields.setdefault("dtype", self.args[of]["dtype"])
        fields.setdefault("element_strides", [1] * len(spec["dims"]))
        return ptx_boxes.MapArgument(of, made[of], **fields)

    def _make(self, name: str, spec: dict[str, Any]) -> Any:
        kind = dtype_by_name(spec["dtype"])
        if "value" in spec:
            return np.array(spec["value"]).astype(array_type(kind))[()]
        if "values" in spec:
            return np.array(spec["values"]).astype(array_type(kind)).reshape(spec.get("shape", -1))
        if not spec.get("shape"):
            raise CaseError(f"{self.name}: argument {name} has neither shape, value nor values")
        return ptx_values.make(kind, tuple(spec["shape"]), spec.get("kinds", "zeros"), spec.get("seed", 0))

    def expected(self) -> dict[str, np.ndarray]:
        """What the expressions say, by output."""
        inputs = self.make_args()
        found = {}
        for name, expression in self.expect.items():
            with np.errstate(all="ignore"):
                value = eval(expression, {"np": np, **ptx_values.HELPERS, **ptx_boxes.HELPERS, **inputs})
            like = inputs[name]
            found[name] = np.broadcast_to(np.asarray(value), like.shape).astype(like.dtype)
        return found

    def launch_arguments(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of `emulator.launch` beside the text; `inputs` are those of `make_args`."""
        return {
            "grid": self.grid,
            "block": self.block,
            "cluster": self.cluster,
            "dynamic_smem": self.dynamic_smem,
            "entry": self.entry,
            "seed": self.seed,
            "args": [_argument(value) for value in inputs.values()],
        }


def _argument(value: Any) -> Any:
    """What the emulator's launch takes for a case's argument."""
    if not isinstance(value, ptx_boxes.MapArgument):
        return value
    from cutecourse.emulator import TensorMap

    fields = {key: getattr(value, key) for key in _MAP_FIELDS}
    return TensorMap.tiled(value.array, **fields)


def load(name: str) -> Case:
    """Read one case. Errors: CaseError, also if there is no such case."""
    if name not in texts():
        raise CaseError(f"there is no case {name!r}; `python -m tools.cases` names all cases")
    try:
        return read(name, texts()[name].write())
    except CaseError as error:
        error.add_note(f"{name} stands in {texts()[name].place}. {hint(name)}")
        raise


@cache
def texts() -> dict[str, CaseText]:
    """All cases by name, in a fixed order, not read yet."""
    return case_texts()


def names() -> list[str]:
    """All cases, in a fixed order."""
    return list(texts())


def all_cases() -> list[Case]:
    """All cases, read."""
    return [load(name) for name in names()]


def read(name: str, text: str) -> Case:
    """Read a case's header."""
    lines = text.split("\n")
    if lines[0].strip() != "// ---":
        raise CaseError(f"{name}: the first line has to be '// ---'")
    case = Case(name, text)
    section: dict[str, Any] | None = None
    section_name = ""
    for number, line in enumerate(lines[1:], 2):
        if not line.startswith("//"):
            raise CaseError(f"{name}, line {number}: the header is never closed with '// ---'")
        body = line[2:].rstrip()
        if body.strip() == "---":
            break
        key, colon, value = body.strip().partition(":")
        if not colon:
            raise CaseError(f"{name}, line {number}: not 'key: value'")
        if body.startswith("   "):
            if section is None:
                raise CaseError(f"{name}, line {number}: indented without a section")
            section[key] = value.strip() if section_name == "expect" else parse_flow(value)
            continue
        if key not in _KEYS:
            raise CaseError(f"{name}, line {number}: unknown key {key!r}")
        section, section_name = None, key
        if not value.strip():
            section = {}
            setattr(case, key, section)
        elif key in {"about", "because", "specification_only", "printed", "entry"}:
            setattr(case, key, value.strip())
        else:
            setattr(case, key, parse_flow(value))
    for output in case.expect:
        if output not in case.outputs:
            raise CaseError(f"{name}: expect names {output}, which is no argument with out: true")
    if case.tolerance and not case.because:
        raise CaseError(f"{name}: a tolerance needs 'because:'")
    if not case.outputs:
        raise CaseError(f"{name}: no argument has out: true")
    return case


def run_on_emulator(case: Case, seed: int | None = None) -> dict[str, np.ndarray]:
    """The outputs as the emulator computes them."""
    from cutecourse.emulator import launch
    from cutecourse.emulator.errors import EmulatorError

    inputs = case.make_args()
    launched = case.launch_arguments(inputs)
    if seed is not None:
        launched["seed"] = seed
    try:
        launch(case.ptx, **launched)
    except EmulatorError as error:
        error.add_note(hint(case.name))
        raise
    return {name: inputs[name] for name in case.outputs}


def difference(
    name: str, got: np.ndarray, wanted: np.ndarray, tolerance: dict[str, Any], *, any_nan: bool
) -> str | None:
    """Say where two outputs differ, or None. With `any_nan` all NaNs are the same."""
    got, wanted = np.atleast_1d(got), np.atleast_1d(wanted)
    raw_got, raw_wanted = (_raw(x) for x in (got, wanted))
    wrong = raw_got != raw_wanted
    if any_nan or tolerance:
        wrong = wrong & ~(ptx_values.is_nan(got) & ptx_values.is_nan(wanted))
    if tolerance:
        wrong = wrong & ~_close(got, wanted, raw_got, raw_wanted, tolerance)
    if not wrong.any():
        return None
    where = np.argwhere(wrong)
    shown = [
        f"{name}{[int(i) for i in index]}: got {got[tuple(index)]} (0x{int(raw_got[tuple(index)]):x}),"
        f" wanted {wanted[tuple(index)]} (0x{int(raw_wanted[tuple(index)]):x})"
        for index in where[:6]
    ]
    return f"{len(where)} of {wrong.size} differ: " + "; ".join(shown)


def _raw(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _close(
    got: np.ndarray,
    wanted: np.ndarray,
    raw_got: np.ndarray,
    raw_wanted: np.ndarray,
    tolerance: dict[str, Any],
) -> np.ndarray:
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        close = np.zeros(got.shape, dtype=bool)
        if "abs" in tolerance:
            close |= apart <= tolerance["abs"]
        if "rel" in tolerance:
            close |= apart <= tolerance["rel"] * np.abs(y)
        if "ulp" in tolerance:
            sign = 1 << (8 * got.dtype.itemsize - 1)
            order = [
                np.where(r & sign, -(r & (sign - 1)).astype(np.int64), r.astype(np.int64))
                for r in (raw_got, raw_wanted)
            ]
            both_finite = np.isfinite(x) & np.isfinite(y)
            close |= both_finite & (np.abs(order[0] - order[1]) <= tolerance["ulp"])
    return close
