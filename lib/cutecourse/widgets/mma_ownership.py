"""Which thread holds which cell of A, B and C, and in which register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from cutecourse.atoms import AtomError, mma_atom
from cutecourse.widgets._base import CourseWidget
from cutecourse.widgets._bundle import module, stylesheet
from cutecourse.widgets.errors import WidgetError
from cutecourse.widgets.sharing import nothing_or, several
from cutecourse.widgets.snapshots import atom_snapshot

if TYPE_CHECKING:
    from cutecourse.widgets.figures import PrintFigure

DEFAULT_ATOM = "SM80_16x8x16_F32F16F16F32_TN"
# One atom of each fragment shape and of each way of packing values into registers.
DEFAULT_ATOMS = (
    "SM80_16x8x8_F16F16F16F16_TN",
    "SM80_16x8x8_F32F16F16F32_TN",
    "SM80_16x8x16_F16F16F16F16_TN",
    "SM80_16x8x16_F32F16F16F32_TN",
    "SM80_16x8x8_F32BF16BF16F32_TN",
    "SM80_16x8x16_F32BF16BF16F32_TN",
    "SM80_16x8x4_F32TF32TF32F32_TN",
    "SM80_16x8x8_F32TF32TF32F32_TN",
    "SM80_8x8x4_F64F64F64F64_TN",
    "SM80_8x8x16_S32S8S8S32_TN",
    "SM80_16x8x16_S32S8S8S32_TN",
    "SM80_16x8x32_S32S8S8S32_TN",
)

CELL = {"operand": {"in": ["A", "B", "C"]}, "crd": several(2, [0, 255])}


class MmaOwnership(CourseWidget):
    """The operands of an MMA atom with the owner of every cell: point at a cell, or choose a thread.

    `atoms` are names (looked up in `cutecourse.atoms`), atoms or their snapshots; without any,
    `DEFAULT_ATOMS`. `atom` names the one that is drawn first. `thread` is the selected thread; None selects
    nobody, and every cell has its full colour.

    Synced with every view: `atom`, `thread`, `cell` (`{}` or `{"operand": "A", "crd": [m, k]}`).

    Errors: WidgetError, for an atom that is not known or has no such thread.
    """

    _esm = module("mma_ownership.js")
    _css = stylesheet()

    atoms = traitlets.List(traitlets.Dict()).tag(sync=True)
    atom = traitlets.Unicode().tag(sync=True, shared="text")
    thread = traitlets.Int(None, allow_none=True).tag(sync=True, shared={"any": [{"in": [None]}, [0, 127]]})
    cell = traitlets.Dict().tag(sync=True, shared=nothing_or(CELL))

    def __init__(
        self,
        atoms: Sequence[Any] | None = None,
        atom: str | None = None,
        thread: int | None = None,
        **kwargs: Any,
    ) -> None:
        chosen = [_known(entry) for entry in (DEFAULT_ATOMS if atoms is None else atoms)]
        snapshots = [dict(atom_snapshot(entry).plain) for entry in chosen]
        if not snapshots:
            raise WidgetError("MmaOwnership needs at least one atom to draw.")
        names = [snapshot["name"] for snapshot in snapshots]
        first = atom or (DEFAULT_ATOM if DEFAULT_ATOM in names else names[0])
        super().__init__(atoms=snapshots, atom=first, thread=thread, **kwargs)

    @traitlets.validate("atom")
    def _check_atom(self, proposal: Any) -> str:
        return str(self._find(proposal["value"])["name"])

    @traitlets.validate("thread")
    def _check_thread(self, proposal: Any) -> int | None:
        if proposal["value"] is None:
            return None
        threads = self._find(self.atom)["threads"]
        if not 0 <= proposal["value"] < threads:
            raise WidgetError(
                f"{self.atom} has threads 0 to {threads - 1}; there is no thread {proposal['value']}."
            )
        return int(proposal["value"])

    def _find(self, name: str) -> dict[str, Any]:
        for snapshot in self.atoms:
            if snapshot["name"] == name:
                return dict(snapshot)
        names = ", ".join(snapshot["name"] for snapshot in self.atoms)
        raise WidgetError(f"{name!r} is not among the atoms of this widget: {names}.")

    def figure(self) -> PrintFigure:
        """A, B and C of the chosen atom with the thread and register of every cell."""
        from cutecourse.widgets.figures import draw_ownership

        return draw_ownership(self._find(self.atom))

    def _repr_arguments(self) -> list[str]:
        return [repr(self.atom)] + ([f"thread={self.thread}"] if self.thread is not None else [])


class WgmmaOwnership(MmaOwnership):
    """The holders of a wgmma's elements: of C, and of A in registers, over the 128 threads of a warpgroup.

    `n` are extents of N, each of which is drawn; `source` says where A comes from, "SS" or "RS". The rest is
    that of `MmaOwnership`.
    """

    def __init__(
        self, n: Sequence[int] = (8, 16, 24), source: str = "RS", thread: int | None = None, **kwargs: Any
    ) -> None:
        names = [f"SM90_64x{extent}x16_F32F16F16_{source}" for extent in n]
        super().__init__(names, names[0], thread, **kwargs)


def _known(entry: Any) -> Any:
    if not isinstance(entry, str):
        return entry
    try:
        return mma_atom(entry)
    except AtomError as error:
        raise WidgetError(f"{entry!r} is no atom of cutecourse.atoms: {error}") from None
