"""An instruction states at its definition all that other modules need to know of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cutecourse
from cutecourse.cli.explain import explain
from cutecourse.emulator import launch, supported_instructions
from cutecourse.emulator.checks.race_plan import AccessPlan
from cutecourse.emulator.core import registry
from cutecourse.emulator.core.facts import Facts, MemoryUse, Pipe
from cutecourse.emulator.core.registry import facts_of, instruction, lookup
from cutecourse.emulator.errors import SharedMemoryRace, UninitializedRead
from cutecourse.emulator.instructions.stating import space_of
from cutecourse.emulator.memory.access import Access
from cutecourse.memory_report import memory_report
from cutecourse.ptx import parse
from cutecourse.ptx.syntax import Instruction
from cutecourse.trace import AccessLog, Recorder

ROOT = Path(cutecourse.__file__).parent

# --- nobody else names an opcode ----------------------------------------------------------------------------

ELSEWHERE = {
    "emulator/instructions": "the definitions",
    "ptx": "the grammar: where a branch and a call name what follows",
    "kernels": "kernels and their texts",
    "checks": "exercises ask whether a reader's text has an instruction",
    "trace": "kinds of events, which share words with opcodes",
    "widgets": "kinds of events",
    "atoms": "CuTe's side, which never sees the emulator",
    "layout": "CuTe's side",
    "tma": "CuTe's side",
    "umma": "CuTe's side",
}
"""Folders that may name opcodes, and why."""
WORDS = {
    "emulator/checks": ({"cp", "fence", "mbarrier", "mma", "wgmma"}, "kinds of clocks, nouns of reports"),
    "emulator/errors.py": ({"trap"}, "a noun of a report"),
    "emulator/memory/mbarriers.py": (
        {f"mbarrier.{kind}" for kind in ("arrive", "complete_tx", "expect_tx", "phase", "resume")},
        "kinds of events",
    ),
    "emulator/memory/tensor_memory.py": ({"cp", "mma"}, "the pipelines of tensor memory"),
    "emulator/memory/unwritten.py": ({"cp.async"}, "a noun of a report"),
    "emulator/core/facts.py": ({"barrier"}, "a category"),
    "emulator/prove": ({"barrier", "mbarrier", "st"}, "kinds of barriers, an ending of numerals"),
    "emulator/numbers": ({"add", "and", "fma", "max", "min", "or", "xor"}, "operations on numbers"),
    "emulator/tools": ({"mbarrier.phase", "mbarrier.complete_tx", "mma.complete"}, "kinds of events"),
    "palette.py": ({"barrier"}, "a role of colours"),
    "cli/_events.py": ({"barrier"}, "a kind of events"),
    "playground/examples.py": ({"wgmma"}, "an example's name"),
}
"""Words elsewhere that are opcodes and mean something else, by file or folder, and what they mean."""
OPCODES = {info.name.partition(".")[0] for info in supported_instructions()}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a module that are no docstrings and no part of a formatted message."""
    tree = ast.parse(path.read_text())
    prose = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    prose |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def names_an_opcode(text: str) -> bool:
    """Tell whether a literal is an opcode, alone or with modifiers: "cp", "cp.async", "tcgen05.mma."."""
    opcode, *modifiers = text.rstrip(".").split(".")
    return opcode in OPCODES and " " not in text and all(modifiers)


def within(path: Path, places: dict) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    return [place for place in places if name == place or name.startswith(place + "/")]


def test_facts__no_other_module_names_an_opcode():
    found, used = [], set()
    for path in sorted(ROOT.rglob("*.py")):
        if within(path, ELSEWHERE):
            continue
        for line, text in literals(path):
            if names_an_opcode(text):
                known = [(place, text) for place in within(path, WORDS) if text in WORDS[place][0]]
                used.update(known)
                if not known:
                    found.append(f"{path.relative_to(ROOT)}:{line}: {text!r}")
    assert not found, "ask facts_of(instruction) instead, and state the fact where the instruction is defined"
    assert used == {(place, word) for place, (words, _) in WORDS.items() for word in words}


def test_names_an_opcode__knows_names_and_beginnings_of_names():
    assert all(map(names_an_opcode, ["st", "cp.async", "tcgen05.mma.", "mbarrier.arrive"]))
    assert not any(map(names_an_opcode, ["store", "st is slow", "a.st", ".", "shared"]))


@pytest.mark.parametrize("info", supported_instructions(), ids=lambda info: info.name)
def test_facts__can_be_asked_of_an_instruction_without_operands(info):
    opcode, *modifiers = info.name.split(".")
    facts = facts_of(Instruction(1, 1, opcode, tuple(modifiers), ()))
    assert info.refused in {"", facts.refused}
    assert facts.category or (facts.pipe in {None, Pipe.COPIES_OF_THREADS, Pipe.STORES_TO_OTHERS})


@pytest.mark.parametrize(
    ("line", "results"),
    [
        ("add.u32 %r1, %r2, %r3;", ["%r1"]),
        ("setp.eq.u32 %p1|%p2, %r1, 0;", ["%p1|%p2"]),
        ("st.shared.u32 [%r1], %r2;", []),
        ("bar.sync 0;", []),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];", ["{%r1, %r2}"]),
        ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.u32 {%r1, %r2}, %r3, [%r0];", ["{%r1, %r2}", "%r3"]),
    ],
)
def test_facts__tell_results_from_sources(line, results):
    *_, one, _ret = parse(kernel(line)).entries["k"].body.statements
    written, read = facts_of(one).split(one.operands)
    assert [str(operand) for operand in written] == results
    assert (*written, *read) == tuple(one.operands)


# --- a new instruction is known everywhere ------------------------------------------------------------------


def st_clear(site):
    """Fill bytes of shared memory with zeros.

    Shapes:     one address and one size in each lane.
    Units:      bytes; both multiples of 8.
    Source:     none: PTX has no such instruction.
    """
    site.has("weak")
    assert site.has("shared::cta")
    address, size = site.address(0), site.source(1, "u64")
    assert site.constant(2) == 0
    words = Access(site, "shared", 8, writes=True)

    def step(bundle, mask):
        sizes, start = bundle.rows["u64"][size], address.lanes(bundle)
        for offset in range(0, int(sizes.max()), 8):
            inside = site.active(bundle, mask) & (sizes > offset)
            words.store(bundle, start + np.uint32(offset), inside, np.zeros(inside.sum(), dtype=np.uint64))

    return step


def st_clear_facts(one):
    use = MemoryUse(space_of(one), 8, writes=True)
    return Facts(category="bulk store", uses=(use,), uncounted="st.clear")


@pytest.fixture
def clearing(monkeypatch):
    """Register st.clear for one test."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    yield instruction("st.clear", facts=st_clear_facts)(st_clear)
    lookup.cache_clear()


def kernel(body):
    return f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .shared .align 16 .b8 tile[256];
    .reg .b32 %r<4>;
    .reg .b64 %d<4>;
    .reg .pred %p<3>;
    mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    setp.ge.u32 %p1, %r0, 32;
    ld.param.u64 %d0, [out];
    {body}
    ret;
}}
"""


FILL = "@%p0 st.clear.weak.shared::cta [tile], 64, 0;"
READ = "@%p1 ld.shared.v2.u64 {%d1, %d2}, [tile + 48]; @%p1 st.global.u64 [%d0], %d1;"
ORDERED = kernel(f"{FILL} bar.sync 0; {READ}")


def run(text, **options):
    out = np.full(1, 7, dtype=np.uint64)
    return launch(text, grid=1, block=64, args=[out], **options), out


@pytest.mark.usefixtures("clearing")
def test_new_store__runs_and_is_ordered_by_a_barrier():
    _, out = run(ORDERED)
    assert out == 0


@pytest.mark.usefixtures("clearing")
def test_new_store__gives_the_race_check_its_units(monkeypatch):
    plans, make = [], AccessPlan.__init__
    monkeypatch.setattr(
        AccessPlan, "__init__", lambda plan, program: plans.append(plan) or make(plan, program)
    )
    run(ORDERED + "// not decoded before")
    (plan,) = plans
    assert (plan.unit, plan.by_threads, plan.elsewhere, plan.asynchronous) == (8, True, False, False)
    for seed in range(4):
        with pytest.raises(SharedMemoryRace, match=r"offset 0x30 \(in tile\), which warp . has written"):
            run(kernel(f"{FILL} @%p1 st.shared.u64 [tile + 48], %d0;"), seed=seed)


@pytest.mark.usefixtures("clearing")
def test_new_store__has_its_class_in_explain():
    (site, barrier) = explain(ORDERED)["sites"]
    assert (site["kind"], site["what"]) == ("bulk store", "Fill bytes of shared memory with zeros.")
    assert barrier["kind"] == "barrier"


@pytest.mark.usefixtures("clearing")
def test_new_store__may_write_what_is_unwritten():
    text = kernel(f"ld.shared.u64 %d1, [tile]; bar.sync 0; {FILL}")
    line = next(number for number, one in enumerate(text.split("\n"), 1) if "st.clear" in one)
    with pytest.raises(UninitializedRead, match=f"If the store at line {line} is to write it"):
        run(text)


@pytest.mark.usefixtures("clearing")
def test_new_store__is_traced():
    recorder = Recorder(memory=True)
    run(ORDERED, recorder=recorder)
    events = [event for event in recorder.trace() if event.data.get("name", "").startswith("st.clear")]
    assert {event.kind for event in events} == {"memory.store"}
    ranges = [touch["range"] for event in events for touch in event.data["touches"]]
    assert (min(first for first, _ in ranges), max(stop for _, stop in ranges)) == (0, 64)


@pytest.mark.usefixtures("clearing")
def test_new_store__has_its_place_in_the_memory_report():
    accesses = AccessLog()
    result, _ = run(ORDERED, accesses=accesses)
    report = memory_report(accesses, parse(ORDERED), uncounted=result.uncounted)
    assert not report.of(instruction="st.clear").rows
    assert report.unseen == {"st.clear": 2}  # both warps execute it, one of them with no active lane


@pytest.mark.usefixtures("clearing")
def test_new_store__must_state_what_it_accesses(monkeypatch):
    for use in (MemoryUse("global", 8, writes=True), MemoryUse("shared", 16, writes=True)):
        monkeypatch.delitem(registry._REGISTRY, "st.clear")
        instruction("st.clear", facts=Facts(uses=(use,)))(st_clear)
        with pytest.raises(AssertionError, match="does not state its access to shared memory"):
            run(kernel(f"{FILL} // {use}"))
