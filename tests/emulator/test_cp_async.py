"""cp.async: what is copied, when it arrives, and how a missing wait shows."""

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import AddressError, InvalidOperand, UninitializedRead
from support.collectives import CASES, names, run


@pytest.mark.parametrize("name", names("cp_async", "^cp_async/c[ag]_"))
def test_cp_async__copies_what_it_is_told_and_fills_up_with_zeros(name: str) -> None:
    before, after = run(name)
    a = before["a"]
    copied = a.copy()
    if "sizes" in before:
        for thread, size in enumerate(before["sizes"].tolist()):
            copied[thread, size:] = 0
    elif "constant" in name:
        copied[:, 4:] = 0
    elif "ignore" in name:
        copied[[t for t in range(64) if t & 5 == 4]] = 0
    wanted = copied[::-1]
    found = after["d"].view(np.uint8)
    if "guarded" in name:
        odd = [63 - t for t in range(64) if t % 2]
        np.testing.assert_array_equal(found[odd], wanted[odd])
        even = [t for t in range(64) if t % 2 == 0]
        np.testing.assert_array_equal(after["d"][[63 - t for t in even]], [[t, 0, t, 0] for t in even])
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("seed", range(5))
def test_cp_async__stages_arrive_group_by_group(seed: int) -> None:
    before, after = run("cp_async/stages", seed)
    np.testing.assert_array_equal(after["d"], before["a"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    cp.async.wait_group 2;\n", ""),
        ("    cp.async.wait_group 2;\n", "    cp.async.wait_group 3;\n"),
        ("    cp.async.wait_group 1;\n", "    cp.async.wait_group 2;\n"),
        ("    cp.async.wait_group 0;\n", "    cp.async.wait_group 1;\n"),
    ],
)
def test_cp_async__a_missing_wait_is_an_error_with_every_seed(old: str, new: str) -> None:
    case = CASES["cp_async/stages"]
    ptx = case.ptx.replace(old, new)
    assert ptx != case.ptx
    for seed in range(5):
        with pytest.raises(UninitializedRead, match=r"never written.*cp.async at line \d+ is to write it"):
            launch(ptx, grid=1, block=64, args=list(case.make_args().values()), seed=seed)


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        ("%own", r"the thread has not waited for that copy\. .*under way\?\n"),
        ("%other", r"warp 0, lane 31 has not waited for that copy\. .* A barrier must follow the wait\."),
    ],
)
def test_cp_async__a_missing_wait_names_the_copy_and_its_thread(reads: str, words: str) -> None:
    ptx = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry reads_early(.param .u64 source)
{{
    .reg .b32 %own, %other, %lane;
    .reg .b64 %source, %at;
    .shared .align 16 .b8 words[128];
    ld.param.u64        %source, [source];
    mov.u32             %lane, %tid.x;
    mul.wide.u32        %at, %lane, 4;
    add.u64             %source, %source, %at;
    mov.u32             %own, words;
    mad.lo.u32          %own, %lane, 4, %own;
    xor.b32             %other, %own, 124;
    cp.async.ca.shared.global [%own], [%source], 4;
    cp.async.commit_group;
    ld.shared.u32       %lane, [{reads}];
    ret;
}}
"""
    with pytest.raises(UninitializedRead, match=rf"The cp\.async at line \d+ is to write it, and {words}"):
        launch(ptx, grid=1, block=32, args=[np.arange(32, dtype=np.uint32)])


def test_cp_async__a_missing_commit_is_an_error() -> None:
    case = CASES["cp_async/ca_16"]
    ptx = case.ptx.replace("    cp.async.commit_group;\n", "")
    with pytest.raises(UninitializedRead):
        launch(ptx, grid=1, block=64, args=list(case.make_args().values()))


def test_cp_async__reads_its_source_no_earlier_than_the_wait() -> None:
    # The source changes between request and wait: a race on the hardware, made visible here.
    case = CASES["cp_async/ca_16"]
    ptx = case.ptx.replace(
        "    cp.async.commit_group;\n", "    cp.async.commit_group;\n    st.global.b32 [%source], 77;\n"
    )
    arguments = case.make_args()
    launch(ptx, grid=1, block=64, args=list(arguments.values()))
    assert (arguments["d"][:, 0] == 77).all()


def test_cp_async__a_source_outside_its_array_is_reported_where_it_is_asked_for() -> None:
    case = CASES["cp_async/ca_16"]
    ptx = case.ptx.replace("[%to], [%source], 16", "[%to], [%source+16], 16")
    with pytest.raises(AddressError) as caught:
        launch(ptx, grid=1, block=64, args=list(case.make_args().values()))
    assert "cp.async.ca" in caught.value.text
    assert caught.value.lane == 31


def test_cp_async__bytes_that_are_not_read_may_lie_outside() -> None:
    case = CASES["cp_async/ca_16_src_size"]
    arguments = case.make_args()
    arguments["sizes"][:] = 12
    arguments["a"] = np.ascontiguousarray(arguments["a"].reshape(-1)[:-4])
    launch(case.ptx, grid=1, block=64, args=list(arguments.values()))
    assert (arguments["d"][:, 3] == 0).all()
    arguments["sizes"][:] = 13
    with pytest.raises(AddressError):
        launch(case.ptx, grid=1, block=64, args=list(arguments.values()))


def test_cp_async__a_size_that_it_does_not_have_is_refused() -> None:
    case = CASES["cp_async/cg_16"]
    with pytest.raises(InvalidOperand, match="cp-size must be 16"):
        launch(
            case.ptx.replace("[%source], 16;", "[%source], 8;"),
            grid=1,
            block=64,
            args=list(case.make_args().values()),
        )
    case = CASES["cp_async/ca_8_src_size"]
    arguments = case.make_args()
    arguments["sizes"][40] = 9
    with pytest.raises(InvalidOperand, match="src-size is 9") as caught:
        launch(case.ptx, grid=1, block=64, args=list(arguments.values()))
    assert (caught.value.warp, caught.value.lane) == (1, 8)
