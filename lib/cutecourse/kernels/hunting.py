"""The bug hunts of the exercises: kernels with one mistake, each a text in the folder `hunts`."""

from __future__ import annotations

import importlib.resources

from cutecourse.kernels.files import SpecError

__all__ = ["HUNTS", "hunt", "hunted"]

HUNTS = "cutecourse.kernels.hunts"
"""The name that the folder would have as a package; recordings name its texts by it."""

_ENDINGS = (".ptx", ".py", ".cu")
_hunted: set[str] = set()


def hunt(name: str) -> str:
    """The text of a bug hunt: `hunt("07_5")` reads `hunts/07_5.ptx`, `.py` or `.cu`.

    `hunt("07.5")` is the same. Run the text, or your repaired one, in place of the right kernel's:
    `run(tma_broken.LAUNCH.with_text(text), ...)`.
    Errors: SpecError for a name that has no file.
    """
    folder = importlib.resources.files("cutecourse.kernels") / "hunts"
    stem = name.replace(".", "_")
    for ending in _ENDINGS:
        if (file := folder / f"{stem}{ending}").is_file():
            _hunted.add(stem)
            return file.read_text(encoding="utf-8")
    known = sorted(file.name.rpartition(".")[0] for file in folder.iterdir() if file.name.endswith(_ENDINGS))
    raise SpecError(f"there is no bug hunt {name!r}; there are {', '.join(known)}.")


def hunted() -> tuple[str, ...]:
    """The names of the texts that were read in this process; what records a notebook asks for them."""
    return tuple(sorted(_hunted))
