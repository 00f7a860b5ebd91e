"""The table of hazards: each has a class of its own, a kernel that meets it, and a severity that holds."""

from __future__ import annotations

import pytest

from cutecourse import emulator
from cutecourse.emulator import HAZARDS, EmulatorError
from cutecourse.emulator.errors import __all__ as all_errors

NO_MISTAKE_OF_A_KERNEL = {"LaunchError", "UnsupportedInstruction"}
FAMILIES = {"EmulatorError", "TensorMemoryError", "TensorMemoryAccessError", "TensorMemoryHazard"}
"""Classes that nothing raises itself: they name what several hazards have in common."""


def test_hazards__each_has_an_error_class_of_its_own() -> None:
    classes = [getattr(emulator, hazard.error) for hazard in HAZARDS.values()]
    assert all(issubclass(kind, EmulatorError) for kind in classes)
    assert len(set(classes)) == len(HAZARDS)


def test_hazards__every_mistake_of_a_kernel_is_one() -> None:
    assert set(all_errors) - NO_MISTAKE_OF_A_KERNEL - FAMILIES == {h.error for h in HAZARDS.values()}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_families__stand_for_several_hazards(name: str) -> None:
    family = getattr(emulator, name)
    members = [h for h in HAZARDS.values() if issubclass(getattr(emulator, h.error), family)]
    assert len(members) > 2


@pytest.mark.parametrize("name", all_errors)
def test_errors__are_public_and_say_what_they_are(name: str) -> None:
    kind = getattr(emulator, name)
    assert issubclass(kind, EmulatorError)
    assert kind.__doc__ != EmulatorError.__doc__ or kind is EmulatorError
