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
