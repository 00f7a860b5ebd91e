"""The emulator's cases: tiny PTX modules whose header says how to launch them and with what.

The header stands at the top of the file, between two lines `// ---`, as YAML behind `//`:

    // ---
    // about: what the case shows, in one sentence
    // grid: 2                  (a number or [x, y, z]; cluster and dynamic_smem too, where they are needed)
    // block: 32
    // args:                    (in the order of the kernel's parameters)
    //   a: {dtype: f16, shape: [2, 32, 8], kinds: [near, wide], seed: 1}
    //   d: {dtype: f32, shape: [2, 32, 4], kinds: poison, out: true}
    //   k: {dtype: u32, value: 5}
    // expect:                  (where the right values are few enough to be written down)
    //   d: [1, 2, 3]
    // ---

`kinds` are those of `support.case_data`; instead of them `values` or `bits` give the elements one by one. Arrays
marked `out` are the case's results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from cutecourse.dtypes import dtype
from support.case_data import make

__all__ = ["CASES", "Case", "all_cases", "load"]

CASES = Path(__file__).resolve().parent.parent / "emulator" / "cases"


@dataclass(frozen=True)
class Case:
    """One case: its PTX text, its launch, and how its arguments are made."""

    name: str
    """Folder and file, such as "mma/m16n8k16_f32_f16"."""
    ptx: str
    about: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_smem: int
    specs: dict[str, dict[str, Any]] = field(repr=False)
    expect: dict[str, Any] = field(repr=False)

    @property
    def outputs(self) -> list[str]:
        """The names of the arrays that hold the results."""
        return [name for name, spec in self.specs.items() if spec.get("out")]

    def arguments(self) -> dict[str, Any]:
        """Fresh arguments by name, in order: arrays for pointers, NumPy scalars for values."""
        return {name: _argument(spec) for name, spec in self.specs.items()}

    def expected(self, name: str) -> NDArray[Any] | None:
        """What the header says of a result, or None where it says nothing."""
        if name not in self.expect:
            return None
        spec = self.specs[name]
        return np.array(self.expect[name], dtype=dtype(spec["dtype"]).numpy).reshape(spec["shape"])


def _argument(spec: dict[str, Any]) -> Any:
    element = dtype(spec["dtype"])
    if "value" in spec:
        return element.numpy.type(spec["value"])
    if "bits" in spec:
        unsigned = np.array(spec["bits"], dtype=f"u{element.numpy.itemsize}")
        return unsigned.view(element.numpy).reshape(spec["shape"]).copy()
    if "values" in spec:
        return np.array(spec["values"], dtype=element.numpy).reshape(spec["shape"]).copy()
    return make(spec["dtype"], spec["shape"], spec["kinds"], spec.get("seed", 0)).copy()


def _triple(value: Any) -> tuple[int, int, int]:
    given = [value] if isinstance(value, int) else list(value)
    x, y, z = [*given, 1, 1][:3]
    return int(x), int(y), int(z)


def load(path: Path) -> Case:
    """Read one case; the header's faults are errors that name the file."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    rules = [number for number, line in enumerate(lines) if line.strip() == "// ---"]
    if len(rules) != 2 or rules[0] != 0:
        raise ValueError(f"{path}: the header has to stand at the top between two lines '// ---'")
    header = yaml.safe_load("\n".join(line.removeprefix("//")[1:] for line in lines[1 : rules[1]]))
    unknown = set(header) - {"about", "grid", "block", "cluster", "dynamic_smem", "args", "expect"}
    if unknown:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)} in the header")
    return Case(
        name=f"{path.parent.name}/{path.stem}",
        ptx=text,
        about=header["about"],
        grid=_triple(header["grid"]),
        block=_triple(header["block"]),
        cluster=_triple(header.get("cluster", 1)),
        dynamic_smem=header.get("dynamic_smem", 0),
        specs=header["args"],
        expect=header.get("expect", {}),
    )


def all_cases() -> list[Case]:
    """Every case in the repository, in the order of their names."""
    return [load(path) for path in sorted(CASES.glob("*/*.ptx"))]
