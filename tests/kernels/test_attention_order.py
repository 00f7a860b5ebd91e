"""Where the wait for O stands in the machine code: of a text made up here, and of the kept rows."""

import json

import pytest

from benchmarks.attention_order import KINDS, RESULT, after_the_waits, launches


def sass(*instructions):
    return "\n".join(f"  /*{16 * at:04x}*/   {one} ;" for at, one in enumerate(instructions))


TILE = (
    "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4]",
    "BAR.ARV R2, 0x100",
    "WARPGROUP.DEPBAR.LE gsb0, 0x1",
    "FMNMX R3, R24, R25, !PT",
    "@!P0 FMNMX R4, R26, R27, !PT",
    "MUFU.EX2 R5, R6",
    "WARPGROUP.DEPBAR.LE gsb0, 0x0",
    "@P1 FADD R7, R5, R8",
    "F2FP.BF16.F32.PACK_AB R9, R5, R7",
    "FADD R7, R5, R8",
)


def counts(maxima, exponentials, additions):
    return dict(zip(KINDS.values(), (maxima, exponentials, additions), strict=True))


def test_after_the_waits__counts_up_to_the_conversion_of_p():
    assert after_the_waits(sass(*TILE)) == [counts(2, 1, 0), counts(0, 0, 1)]


def test_after_the_waits__takes_the_shorter_tile_and_skips_an_arrival_before_any_mma():
    masked = (*TILE[:3], "FSEL R3, R3, R4, P0", "FMNMX R3, R24, R25, !PT", *TILE[3:])
    assert after_the_waits(sass("BAR.ARV R2, 0x100", *masked, *TILE)) == [counts(2, 1, 0), counts(0, 0, 1)]


def test_after_the_waits__refuses_a_kernel_that_waits_once():
    with pytest.raises(ValueError, match="no tile waits twice"):
        after_the_waits(sass(*TILE[:3], *TILE[7:]))


def test_kept_rows__are_of_the_launches():
    kept = json.loads(RESULT.read_text(encoding="utf-8"))
    assert [row["name"] for row in kept["rows"]] == [name for name, _ in launches()]
    assert all(len(row["waits"]) == 2 for row in kept["rows"])
