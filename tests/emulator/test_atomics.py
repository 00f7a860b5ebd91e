"""atom and red against updates made one by one in plain Python."""

import ml_dtypes
import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import UnsupportedInstruction
from support.collectives import CASES, names, run

FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def updated(operation: str, kind: str, old: int, b: int, c: int) -> int:
    """One update of one cell on whole numbers, from the ISA's table."""
    low, high = (
        (-(2 ** (int(kind[1:]) - 1)), 2 ** int(kind[1:])) if kind[0] == "s" else (0, 2 ** int(kind[1:]))
    )
    result = {
        "add": old + b,
        "min": min(old, b),
        "max": max(old, b),
        "inc": 0 if old >= b else old + 1,
        "dec": b if old == 0 or old > b else old - 1,
        "and": old & b,
        "or": old | b,
        "xor": old ^ b,
        "exch": b,
        "cas": c if old == b else old,
    }[operation]
    return (result - low) % high + low


def parse_name(name: str) -> tuple[str, str]:
    _, _, operation, kind = name.split("/")[1].split("_")
    return operation, kind


@pytest.mark.parametrize("name", names("atomics", r"atom_(global|shared|generic)_[a-z]+_[bsu]\d+$"))
def test_atom__gives_what_was_there_and_leaves_what_follows(name: str) -> None:
    before, after = run(name)
    operation, kind = parse_name(name)
    np.testing.assert_array_equal(after["before"], before["cells"])
    cells, b = before["cells"].ravel().tolist(), before["b"].ravel().tolist()
    c = before["c"].ravel().tolist() if "c" in before else b
    wanted = [updated(operation, kind, *items) for items in zip(cells, b, c, strict=True)]
    assert after["cells"].ravel().tolist() == wanted
    if operation == "cas":
        assert 0 < sum(x == y for x, y in zip(cells, b, strict=True)) < len(cells)


def nans_of_f64(cells: np.ndarray, b: np.ndarray, *, shared: bool) -> np.ndarray:
    """In shared memory the first operand that is a NaN, made quiet; in global memory the last, as it is."""
    nans = np.full(cells.shape, 0xFFF8 << 48, dtype=np.uint64)
    for place in np.ndindex(cells.shape):
        for operand in (cells[place], b[place]) if shared else (b[place], cells[place]):
            if np.isnan(operand):
                nans[place] = int(operand.view(np.uint64)) | (0x0008 << 48 if shared else 0)
                break
    return nans


@pytest.mark.parametrize("name", names("atomics", r"atom_\w+_add_(v\d_)?b?f\d+(x2)?$"))
def test_atom__adds_floats_to_nearest(name: str) -> None:
    before, after = run(name)
    kind = name.rsplit("_", 1)[1].removesuffix("x2")
    with np.errstate(all="ignore"):
        old, b = (before[n].astype(np.float64) for n in ("cells", "b"))
        total = old + b
        if kind == "f32" and "shared" not in name:
            tiny = np.finfo(np.float32).tiny
            old, b = (np.where(np.abs(v) < tiny, np.copysign(0, v), v) for v in (old, b))
            total = (old + b).astype(np.float32)
            total = np.where(np.abs(total) < tiny, np.copysign(np.float32(0), total), total)
        wanted = total.astype(FLOATS[kind])
    found = after["cells"]
    number = ~np.isnan(wanted.astype(np.float64))
    unsigned = f"u{found.itemsize}"
    np.testing.assert_array_equal(found.view(unsigned)[number], wanted.view(unsigned)[number])
    if kind == "f64":
        nans = nans_of_f64(before["cells"], before["b"], shared="shared" in name)
        np.testing.assert_array_equal(found.view(unsigned)[~number], nans[~number])
    else:
        canonical = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}[kind]
        assert (found.view(unsigned)[~number] == canonical).all()
    assert (~number).any()
    np.testing.assert_array_equal(after["before"].view(unsigned), before["cells"].view(unsigned))


@pytest.mark.parametrize("name", names("atomics", "/red_"))
def test_red__threads_that_meet_all_get_through(name: str) -> None:
    before, after = run(name)
    operation, kind = parse_name(name)
    floats = kind[0] in "fb" and kind not in ("b32", "b64")
    per = 2 if kind.endswith("x2") else 1
    cells = before["cells"].reshape(-1, per).astype(np.float64 if floats else object)
    b = before["b"].reshape(-1, per)
    for thread in range(128):
        cell = 8 * (thread // 64) + (5 * thread) % 8
        for half in range(per):
            if floats:
                cells[cell, half] += float(b[thread, half])
            else:
                cells[cell, half] = updated(operation, kind, int(cells[cell, half]), int(b[thread, half]), 0)
    np.testing.assert_array_equal(after["cells"].reshape(-1, per), cells.astype(before["cells"].dtype))


def test_atom__a_wrong_noftz_and_a_wrong_type_are_refused() -> None:
    case = CASES["atomics/atom_global_add_f16"]
    with pytest.raises(UnsupportedInstruction, match=r"needs \.noftz"):
        launch(case.ptx.replace(".noftz", ""), grid=2, block=64, args=list(case.make_args().values()))
    case = CASES["atomics/atom_global_and_b32"]
    with pytest.raises(UnsupportedInstruction, match="u64"):
        launch(
            case.ptx.replace("and.b32 %old", "and.u64 %old"),
            grid=2,
            block=64,
            args=list(case.make_args().values()),
        )


def test_cas_loop__counts_every_thread() -> None:
    for seed in range(3):
        _, after = run("atomics/cas_loop", seed)
        assert after["counter"].tolist() == [256, sum(range(256))]


WIDE = """
.version 8.4
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 cells, .param .u64 given, .param .u64 before)
{{
    .reg .b32 %t;
    .reg .b64 %at, %from, %to, %x<4>;
    .reg .b128 %old, %b, %c;
    mov.u32 %t, %tid.x;
    ld.param.u64 %at, [cells];
    ld.param.u64 %from, [given];
    mad.wide.u32 %from, %t, 32, %from;
    ld.param.u64 %to, [before];
    mad.wide.u32 %to, %t, 16, %to;
    ld.global.v2.u64 {{%x0, %x1}}, [%from];
    ld.global.v2.u64 {{%x2, %x3}}, [%from+16];
    mov.b128 %b, {{%x0, %x1}};
    mov.b128 %c, {{%x2, %x3}};
    {instruction};
    st.global.b128 [%to], %old;
    ret;
}}
"""


def wide(instruction: str, cell: list[int], given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One cell of 128 bits that 32 lanes change in turn: the cell afterwards, and what each lane found."""
    cells, before = np.array(cell, np.uint64), np.zeros((32, 2), np.uint64)
    launch(WIDE.format(instruction=instruction), grid=1, block=32, args=[cells, given, before])
    return cells, before


def test_atom__exchanges_128_bits() -> None:
    given = np.arange(128, dtype=np.uint64).reshape(32, 4)
    cells, before = wide("atom.global.exch.b128 %old, [%at], %b", [7, 8], given)
    np.testing.assert_array_equal(before, np.vstack([[[7, 8]], given[:-1, :2]]))
    np.testing.assert_array_equal(cells, given[-1, :2])


def test_atom__compares_both_halves_of_128_bits() -> None:
    """Lane 3 expects the upper half, lane 5 the lower one, lane 9 both: only lane 9 stores."""
    given = np.zeros((32, 4), np.uint64)
    given[3], given[5], given[9] = (1, 8, 30, 31), (7, 1, 50, 51), (7, 8, 90, 91)
    cells, before = wide("atom.relaxed.gpu.global.cas.b128 %old, [%at], %b, %c", [7, 8], given)
    np.testing.assert_array_equal(cells, [90, 91])
    assert before[9].tolist() == [7, 8]
    assert before[10].tolist() == [90, 91]


@pytest.mark.parametrize("operation", ["min", "max"])
def test_red__vectors_of_halves_have_extremes(operation: str) -> None:
    rng = np.random.default_rng(3)
    cells, given = (rng.normal(0, 4, (32, 4)).astype(ml_dtypes.bfloat16) for _ in range(2))
    wanted = (np.minimum if operation == "min" else np.maximum)(cells, given)
    text = WIDE.format(
        instruction=f"""mad.wide.u32 %at, %t, 8, %at;
    {{ .reg .b32 %u<2>; mov.b64 {{%u0, %u1}}, %x0;
    red.global.v2.bf16x2.{operation}.noftz [%at], {{%u0, %u1}}; }}
    mov.b128 %old, {{%x0, %x1}}"""
    )
    held = np.zeros((32, 16), ml_dtypes.bfloat16)
    held[:, :4] = given
    words = cells.view(np.uint64)
    launch(text, grid=1, block=32, args=[words, held.view(np.uint64), np.zeros((32, 2), np.uint64)])
    np.testing.assert_array_equal(words.view(ml_dtypes.bfloat16), wanted)


def test_red__one_half_has_no_extreme() -> None:
    text = WIDE.format(instruction="red.global.max.noftz.bf16x2 [%at], %t")
    arrays = np.zeros(2, np.uint64), np.zeros((32, 4), np.uint64), np.zeros((32, 2), np.uint64)
    with pytest.raises(UnsupportedInstruction, match=r"\.bf16x2 is not one of"):
        launch(text, grid=1, block=32, args=list(arrays))
