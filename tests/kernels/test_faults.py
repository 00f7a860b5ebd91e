"""Each fault of each kernel's folder: the kernel and its twin get the same report, which the fault names.

A fault that is added to a folder is tested here without another word. Name a smaller size in `SIZES` of
`benchmarks/luck.py` where the faults' own is large.
"""

from __future__ import annotations

from typing import Any

import pytest
from kernels.test_ptx_twins import LEFT_OUT

from benchmarks import every_order, luck
from benchmarks.luck import arguments_for, launch_of, with_fault
from cutecourse.emulator import EmulatorError, errors, prove
from cutecourse.kernels import LaunchSpec, SpecError, broken_text, twin, umma_one, umma_tile, umma_tile_broken
from cutecourse.kernels.faults import Fault, by_name, edited, faults_of
from cutecourse.kernels.twinning import has_twin
from cutecourse.runtime import run


def faults() -> list[Any]:
    """The faults of all modules of all kernels' folders, each with the module's name."""
    return [pytest.param(module, fault, id=f"{module}-{fault.name}") for module, fault in luck.faults()]


EXERCISES = [param for param in faults() if param.values[1].exercise]


def ended(spec: LaunchSpec, given: dict[str, Any]) -> tuple[frozenset[type], list[bytes]]:
    """The classes of what the emulator reports, and the arrays of a run that reached its end."""
    try:
        ran = run(spec, device="emulator", **given)
    except EmulatorError as report:
        return frozenset({type(report)}), []
    notes = frozenset(note.hazard.kind for note in ran.notes if note.hazard.name not in LEFT_OUT)
    return notes, [array.tobytes() for array in ran.arrays.values()]


@pytest.mark.parametrize(("module", "fault"), faults())
def test_fault__is_reported_alike_in_the_kernel_and_in_its_twin(module: str, fault: Fault) -> None:
    spec = with_fault(module, fault)
    given = arguments_for(module, spec)
    specs = [spec] if fault.source else []
    if spec.language != "ptx" and has_twin(spec.module):
        specs.append(twin(spec))
    ends = [ended(one, given) for one in specs]
    named = tuple(getattr(errors, name) for name in fault.reports)
    for reports, _ in ends:
        assert bool(reports) == bool(named)
        assert all(issubclass(report, named) for report in reports)
    if len(named) == 1:  # else the order of the run decides which check is the first to see the fault
        assert len({reports for reports, _ in ends}) == 1
    if not named:
        right = ended(launch_of(module), given)
        assert not right[0]
        assert all(end == ends[0] for end in ends)
        if ends[0] == right:  # then only a rare order goes wrong
            assert prove(**every_order.launch_with(module, spec)).verdict == "counterexample"


@pytest.mark.parametrize(("module", "fault"), EXERCISES)
def test_broken_text__is_the_kernels_with_the_exercises_fault(module: str, fault: Fault) -> None:
    launch = launch_of(module)
    if fault.source:
        right, edits = launch.text, fault.source
    else:
        filled = [(old, new.replace("${K}", str(launch.tensors[0].shape[1]))) for old, new in fault.twin]
        right, edits = twin(launch).text, tuple(filled)
    assert broken_text(fault.exercise) == edited(right, edits, module) != right


def test_broken_text__names_the_exercises_that_have_one() -> None:
    with pytest.raises(
        SpecError, match=r"no kernel has a fault for an exercise '99\.9'; there are 02\.4, 03\.5"
    ):
        broken_text("99.9")


def test_with_text__knows_the_fault_that_makes_the_text() -> None:
    fault = faults_of("umma_one")["mma_not_waited"]
    text = umma_one.FILE.text.replace(fault.right, fault.wrong)
    remarked = text.replace("THREADS = 128\n", "THREADS = 128  # four warps\n")
    for one in (text, remarked):
        spec = umma_one.LAUNCH.with_text(one)
        assert spec.faults == (fault,)
        assert twin(spec).ptx == twin(umma_one.LAUNCH.with_fault(fault)).ptx != twin(umma_one).ptx
    assert umma_one.LAUNCH.with_text(umma_one.FILE.text + "\nWARPS = 4\n").faults == ()


def test_with_fault__puts_several_in_and_remembers_them() -> None:
    one, other = (umma_tile_broken.FAULTS[name] for name in ("no_wait", "never_cleared"))
    both = umma_tile.LAUNCH.with_fault(one).with_fault(other)
    assert both.faults == (one, other)
    assert (both.name, both.module) == ("umma_tile_no_wait_never_cleared", "umma_tile")
    assert one.right not in both.text
    assert other.wrong in both.text
    assert twin(both).ptx == edited(twin(umma_tile).ptx or "", (*one.twin, *other.twin), "the twin")


def test_with_fault__refuses_a_text_that_is_not_there_once() -> None:
    fault = Fault("f", "nothing", source=(("no such text", ""),), unreported="it is made up")
    with pytest.raises(SpecError, match="umma_tile has 'no such text' 0 times; it must be there once"):
        umma_tile.LAUNCH.with_fault(fault)
    with pytest.raises(SpecError, match="again' 2 times"):
        edited("again, again", (("again", "once"),), "a text")


def test_edited__takes_out_whole_lines() -> None:
    text = "one\n    two;  // with a remark\nthree\n"
    assert edited(text, (("two;", ""),), "a text") == "one\nthree\n"
    assert edited(text, (("    two;  // with a remark\n", ""),), "a text") == "one\nthree\n"


def test_fault__says_what_reports_it_or_why_nothing_does() -> None:
    for given in ({}, {"reports": ("DeadlockError",), "unreported": "it is hidden"}):
        with pytest.raises(SpecError, match="the fault 'f' must say what reports it, or why nothing does"):
            Fault("f", "nothing", **given)


def test_faults__name_those_that_there_are() -> None:
    made_up = by_name(
        "cutecourse.kernels.theme.small.faults", Fault("f", "nothing", unreported="it is made up")
    )
    with pytest.raises(SpecError, match="small has no fault 'g'; it has f"):
        made_up["g"]
    with pytest.raises(SpecError, match="small has two faults of one name: f, f"):
        by_name("small", *made_up.values(), *made_up.values())
