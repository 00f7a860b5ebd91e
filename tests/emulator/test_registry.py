"""The registry: every instruction says in one format what it does and where that is written down."""

import inspect
import re

import pytest

from cutecourse.emulator import supported_instructions
from cutecourse.emulator.core.registry import instruction, lookup
from cutecourse.emulator.instructions.families import FAMILIES

INSTRUCTIONS = supported_instructions()


def test_registry__lists_the_instructions_of_every_family():
    assert {info.module for info in INSTRUCTIONS} == {family.__name__ for family in FAMILIES}
    names = [info.name for info in INSTRUCTIONS]
    assert names == sorted(set(names))
    assert {"add", "bar.sync", "cvt", "ld", "mma.sync", "shfl.sync"} <= set(names)


@pytest.mark.parametrize("info", INSTRUCTIONS, ids=lambda info: info.name)
def test_registry__docstrings_follow_the_format(info):
    text = inspect.getdoc(info.define)  # Python 3.13 keeps no indentation, 3.12 does
    sections = re.findall(r"^(Shapes|Units|Blocks|Errors|Simplified|Source): +\S", text, re.MULTILINE)
    assert {"Shapes", "Source"} <= set(sections)
    order = ["Shapes", "Units", "Blocks", "Errors", "Simplified", "Source"]
    assert sections == [section for section in order if section in sections]
    assert info.summary.endswith((".", "?"))
    assert re.match(r"PTX ISA \d+\.\d+, .*\(#[a-z0-9-]+\)|CUDA", info.source), info.source


def test_registry__takes_the_longest_name_that_fits():
    found, used = lookup("bar", ("warp", "sync"))
    assert (found.name, used) == ("bar.warp.sync", 2)
    found, used = lookup("bar", ("sync",))
    assert (found.name, used) == ("bar.sync", 1)
    found, used = lookup("add", ("rn", "f32"))
    assert (found.name, used) == ("add", 0)
    assert lookup("frob", ("u32",)) is None
    assert lookup("bar", ("unknown",)) is None


def test_registry__refuses_a_second_definition_and_one_without_a_source():
    def define(site):
        """Do something.

        Source: PTX ISA 9.0, add (#add).
        """

    with pytest.raises(TypeError, match="add is defined twice"):
        instruction("add")(define)

    def undocumented(site):
        """Do something."""

    with pytest.raises(TypeError, match="Source"):
        instruction("new")(undocumented)
