"""The table of hazards: each has a class of its own, a kernel that meets it, and a severity that holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutecourse.emulator import HAZARDS, EmulatorError, errors
from cutecourse.emulator.errors import SEVERITIES
from cutecourse.emulator.errors import __all__ as public
from support import speed
from support.hazard_kernels import SCENES, Product, Warpgroup, met

NO_MISTAKE_OF_A_KERNEL = {"LaunchError", "UnsupportedInstruction"}
FAMILIES = {"EmulatorError", "TensorMemoryError", "TensorMemoryAccessError", "TensorMemoryHazard"}
"""Classes that nothing raises itself: they name what several hazards have in common."""
all_errors = sorted(set(public) - {"HAZARDS", "Hazard", "SEVERITIES"})


def test_hazards__each_has_an_error_class_of_its_own() -> None:
    classes = [getattr(errors, hazard.error) for hazard in HAZARDS.values()]
    assert all(issubclass(kind, EmulatorError) for kind in classes)
    assert len(set(classes)) == len(HAZARDS)


def test_hazards__every_mistake_of_a_kernel_is_one() -> None:
    assert set(all_errors) - NO_MISTAKE_OF_A_KERNEL - FAMILIES == {h.error for h in HAZARDS.values()}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_families__stand_for_several_hazards(name: str) -> None:
    family = getattr(errors, name)
    members = [h for h in HAZARDS.values() if issubclass(getattr(errors, h.error), family)]
    assert len(members) > 2


@pytest.mark.parametrize("name", all_errors)
def test_errors__are_public_and_say_what_they_are(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, EmulatorError)
    assert kind.__doc__ != EmulatorError.__doc__ or kind is EmulatorError


# --- kernels that meet them ---------------------------------------------------------------------------------


def test_hazards__each_has_a_scene() -> None:
    assert set(SCENES) == set(HAZARDS)


@pytest.mark.parametrize("scene", [Product(), Warpgroup()])
def test_scene__without_its_mistake_has_nothing_to_say(scene: Product | Warpgroup) -> None:
    assert not scene.launch(0, {})


@pytest.mark.parametrize("name", SCENES)
def test_scene__meets_its_hazard_with_the_severity_of_the_table(name: str) -> None:
    hazard, found = HAZARDS[name], met(name)
    if hazard.severity == "error":
        assert type(found) is getattr(errors, hazard.error)
        assert isinstance(found, EmulatorError)
        assert found.kernel == "k"
        assert found.line is not None
        assert f"PTX line {found.line}" in str(found)
        assert (found.block is None) == (name == "endless")
    else:
        assert isinstance(found, list)
        assert {note.severity for note in found} == {hazard.severity}


@pytest.mark.parametrize("change", [speed.one_by_one, speed.at_once], ids=["one by one", "at once"])
@pytest.mark.parametrize("name", SCENES)
def test_scene__meets_its_hazard_without_what_makes_the_emulator_faster(
    name: str, change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    found, hazard = met(name), HAZARDS[name]
    assert isinstance(found, EmulatorError if hazard.severity == "error" else list)
    assert not isinstance(found, EmulatorError) or type(found) is getattr(errors, hazard.error)


SWITCHED = [(name, severity) for name in SCENES if not HAZARDS[name].fixed for severity in SEVERITIES]


@pytest.mark.parametrize(("name", "severity"), SWITCHED)
def test_scene__has_the_severity_that_its_launch_gives_it(name: str, severity: str) -> None:
    found = met(name, severity)
    if severity == "error":
        assert type(found) is getattr(errors, HAZARDS[name].error)
    else:
        assert isinstance(found, list), found
        assert {note.severity for note in found} == (set() if severity == "off" else {severity})


@pytest.mark.parametrize("name", [name for name, hazard in HAZARDS.items() if hazard.fixed])
def test_fixed__cannot_be_switched(name: str) -> None:
    with pytest.raises(errors.LaunchError, match="a launch cannot continue after it"):
        SCENES[name].launch(0, {name: "off"})
