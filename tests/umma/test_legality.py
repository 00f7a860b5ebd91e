"""What the PTX ISA, CUTLASS and the CuTe DSL take: each column from the one that it speaks of.

`cpp/legality.json` keeps what CUTLASS's headers compile; `cpp/regenerate_legality.py` asks them again.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from umma.cpp import regenerate_legality

from cutecourse.layout import Layout
from cutecourse.umma import (
    DIFFERENCES,
    LEGAL_SHAPES,
    UmmaError,
    allocator1sm,
    canonical_layout,
    legality,
    make_fragment_C,
    make_smem_layout_atom,
    make_tiled_mma,
    smem_descriptor,
)
from support import cutlass_cpp

DATA = json.loads(regenerate_legality.PROGRAM.data.read_text())
CASES = DATA["cases"]
SS = ("SM100_MMA_F16BF16_SS",)
PLAIN = ("f16", "f16", "f32")


def verdicts(case: dict[str, Any]) -> dict[str, str]:
    group = 2 if case["op"].startswith("2x1SM") else 1
    a_from = "tmem" if case["op"].endswith("TS") else "smem"
    found = legality(case["m"], case["n"], group, case["a"], case["b"], case["c"], a_from=a_from)
    return {verdict.source: verdict.reason for verdict in found.verdicts}


@pytest.mark.parametrize("op", regenerate_legality.OPS)
def test_legality__says_of_cutlass_what_the_headers_say(op: str) -> None:
    cases = [case for case in CASES if case["op"] == op]
    assert len(cases) >= 4 * 13
    for case in cases:
        refused = "refused" in case["expect"]
        assert bool(verdicts(case)["CUTLASS"]) == refused, (case["case"], case["expect"])
    assert {("refused" in case["expect"]) for case in cases} == {True, False}


def test_data__is_that_of_the_generator() -> None:
    kept = [{key: value for key, value in case.items() if key != "expect"} for case in CASES]
    assert kept == json.loads(json.dumps(regenerate_legality.all_cases()))


@pytest.mark.program("nvcc")
@pytest.mark.inputs("tests/umma/cpp", "tests/support/cutlass_cpp.py")
def test_data__is_what_the_headers_say_now(find_program: Callable[[str], Path | None]) -> None:
    include, nvcc = cutlass_cpp.include_folder(), find_program("nvcc")
    assert nvcc is not None
    again = ("TS-f16-f16-f32-128-24", "SS-bf16-bf16-f16-128-64", "2x1SM_TS-f16-f16-f32-256-16")
    kept = {case["case"]: case for case in CASES if case["case"] in again}
    assert len(kept) == len(again)
    cases = [{key: value for key, value in case.items() if key != "expect"} for case in kept.values()]
    answers = regenerate_legality.PROGRAM.answer(cases, include, str(nvcc))
    assert answers == {name: case["expect"] for name, case in kept.items()}


def takes(op: str, a: str, b: str, c: str, m: int, n: int) -> bool:
    try:
        make_tiled_mma(op, a, b, c, m, n)
    except UmmaError:
        return False
    return True


def test_make_tiled_mma__takes_what_both_the_ptx_isa_and_cutlass_take() -> None:
    """The whole grid of M and N, and of types at two shapes: `legality` speaks of the library itself."""
    ops = {1: "SM100_MMA_F16BF16_SS", 2: "SM100_MMA_F16BF16_2x1SM_SS"}
    taken = 0
    for group, op in ops.items():
        for m in (0, 16, 32, 64, 96, 128, 192, 256, 512):
            for n in range(265):
                expected = legality(m, n, group).legal
                taken += expected
                assert takes(op, "f16", "f16", "f32", m, n) == expected, (op, m, n)
        for a in ("f16", "bf16", "tf32"):
            for b in ("f16", "bf16", "e4m3"):
                for c in ("f16", "f32", "s32"):
                    assert takes(op, a, b, c, 128, 64) == legality(128, 64, group, a, b, c).legal
    assert taken == 2 * 32 + 2 * 16


def test_legality__shows_every_source_and_agrees_on_shapes_from_shared_memory() -> None:
    for group in (1, 2):
        for m in (64, 128, 256):
            for n in range(0, 272, 4):
                found = legality(m, n, group)
                assert [verdict.source for verdict in found.verdicts] == ["PTX ISA", "CUTLASS", "CuTe DSL"]
                assert found.agree, str(found)
    for arguments, sources in (
        ((128, 24, 1, "f16", "f16", "f32", "tmem"), {"CUTLASS"}),
        ((256, 48, 2, "f16", "f16", "f32", "tmem"), {"CUTLASS"}),
        ((128, 64, 1, "f16", "bf16", "f32", "smem"), {"CuTe DSL"}),
        ((128, 64, 1, "bf16", "bf16", "f16", "smem"), {"PTX ISA"}),
        ((128, 64, 1, "f16", "f16", "s32", "smem"), {"PTX ISA", "CuTe DSL"}),
    ):
        *rest, a_from = arguments
        found = legality(*rest, a_from=a_from)
        assert not found.agree
        assert {verdict.source for verdict in found.verdicts if not verdict.legal} == sources
    assert not legality(128, 64, k=32).legal
    with pytest.raises(ValueError, match="cta_group"):
        legality(128, 64, 3)


def test_legality__is_plain_json() -> None:
    found = json.loads(json.dumps(legality(128, 24, a_from="tmem").to_snapshot()))
    assert found["legal"] is False
    assert found["agree"] is False
    assert len(json.loads(json.dumps([rules.to_snapshot() for rules in LEGAL_SHAPES]))) == 8
    assert json.loads(json.dumps([row.to_snapshot() for row in DIFFERENCES]))[0]["rule"] == "family"


# ---- the rows of DIFFERENCES that are no shapes ----


def row(topic: str) -> Any:
    return next(row for row in DIFFERENCES if topic in row.topic)


def test_differences__names_the_rules_that_the_library_has() -> None:
    """Each row with a rule: the library breaks off with it."""
    raised = {}

    def note(topic: str, make: Callable[[], object]) -> None:
        with pytest.raises(UmmaError) as info:
            make()
        raised[row(topic).topic] = (info.value.rule, row(topic).rule)

    matrix = make_smem_layout_atom("K_SW128", "f16")
    note("one SM, M = 128", lambda: make_tiled_mma("SM100_MMA_F16BF16_TS", "f16", "f16", "f32", 128, 64))
    note("A in tensor memory, two", lambda: make_tiled_mma("SM100_MMA_F16BF16_2x1SM_TS", *PLAIN, 256, 64))
    note("f16 for operands of bf16", lambda: make_tiled_mma(*SS, "bf16", "bf16", "f16", 128, 64))
    note("s32 for operands", lambda: make_tiled_mma(*SS, "f16", "f16", "s32", 128, 64))
    note("32 rows of a CTA", lambda: make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", *PLAIN, 64, 64))
    note("columns", lambda: allocator1sm.check(48))
    note("where a matrix starts", lambda: smem_descriptor(matrix, "f16", "K", 1 << 18))
    apart = Layout.parse("S<3,4,3> o 0 o ((8,2),(8,2)):((64,512),(1,16))")
    note("the leading offset", lambda: smem_descriptor(apart, "f16"))
    for kind in ("K_SW32", "K_SW64", "K_SW128"):
        assert smem_descriptor(canonical_layout(kind, "f16").layout, "f16").leading_byte_offset == 16
    assert all(rule in told for rule, told in raised.values()), raised
    assert {row.topic for row in DIFFERENCES if row.rule} == set(raised)
    assert make_fragment_C(((32, 64), 1, 1), "f32", 2).columns == 16


PTX = """
.version 8.8
.target sm_100a
.address_size 64
.shared .align 16 .b8 place[16];
.visible .entry kernel()
{{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    mov.b32 %r1, 0;
    mov.b64 %rd1, 0x4000404000010040;
    setp.ne.b32 %p, %r1, 0;
    {instruction}
    ret;
}}
"""


@pytest.mark.program("ptxas")
@pytest.mark.parametrize(
    ("topic", "instruction", "reason"),
    [
        ("s32 for", "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd1, 0x08100020, %p;", ""),
        ("two SMs", "tcgen05.mma.cta_group::2.kind::f16 [%r1], [%r1], %rd1, 0x10020010, %p;", ""),
        ("columns", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;", ""),
        ("columns", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 48;", "power of 2"),
        ("columns", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 16;", "out of range"),
        (
            "columns",
            "mov.b32 %r2, 48; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], %r2;",
            "",
        ),
    ],
)
def test_differences__says_of_ptxas_what_it_says(
    tmp_path: Path,
    find_program: Callable[[str], Path | None],
    topic: str,
    instruction: str,
    reason: str,
) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_text(PTX.format(instruction=instruction))
    command = [str(find_program("ptxas")), "-arch=sm_100a", "-o", str(tmp_path / "kernel.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert (done.returncode != 0) == bool(reason), told
    assert re.search(reason, told)
    said = row(topic).ptxas
    assert said.startswith("refuses a constant" if topic == "columns" else "assembles any")
