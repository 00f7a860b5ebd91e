"""shfl, vote, match, redux and activemask against loops over lanes."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.errors import InvalidOperand
from support.collectives import CASES, names, run


def shuffled(mode: str, a: list[int], lane: int, b: int, c: int) -> tuple[int, bool]:
    """The PTX ISA's pseudocode for one lane."""
    bval, cval, segmask = b & 31, c & 31, (c >> 8) & 31
    max_lane = (lane & segmask) | (cval & ~segmask & 31)
    min_lane = lane & segmask
    if mode == "up":
        j = lane - bval
        pval = j >= max_lane
    elif mode == "down":
        j = lane + bval
        pval = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        pval = j <= max_lane
    else:
        j = min_lane | (bval & ~segmask & 31)
        pval = j <= max_lane
    return a[j if pval else lane], pval


@pytest.mark.parametrize("name", names("shuffle", "shfl_(up|down|bfly|idx)"))
def test_shfl__follows_the_isas_pseudocode(name: str) -> None:
    before, after = run(name)
    mode = re.search(r"shfl_([a-z]+)", name).group(1)  # type: ignore[union-attr]
    c = int(re.search(r"%b, (\d+), 0xffffffff", CASES[name].ptx).group(1))  # type: ignore[union-attr]
    constant = int(re.search(r"%a, (\d+), \d+, -1", CASES[name].ptx).group(1))  # type: ignore[union-attr]
    for thread in range(64):
        warp, lane = divmod(thread, 32)
        a = before["a"][32 * warp : 32 * warp + 32].tolist()
        for distance, value, inside in (
            (int(before["b"][thread]), "d", "inside"),
            (constant, "e", "inside_e"),
        ):
            want, pval = shuffled(mode, a, lane, distance, c)
            assert (after[value][thread], after[inside][thread]) == (want, pval), (thread, value)


def test_shfl__halves_that_diverged_see_their_own_lanes() -> None:
    _, after = run("shuffle/shfl_two_halves")
    for warp in range(2):
        wanted = [32 * warp + 3] * 12 + [32 * warp + 20] * 20
        assert after["d"][32 * warp : 32 * warp + 32].tolist() == wanted
    _, after = run("shuffle/shfl_mask_in_register")
    assert after["d"].tolist() == [thread ^ 7 for thread in range(64)]


def halves(thread: int) -> list[int]:
    """The lanes of a thread's half warp, as threads."""
    first = thread // 16 * 16
    return list(range(first, first + 16))


def whole(thread: int) -> list[int]:
    first = thread // 32 * 32
    return list(range(first, first + 32))


def mask(threads: list[int]) -> int:
    return sum(1 << (thread % 32) for thread in threads)


VOTES: dict[str, Callable[[list[bool]], int]] = {
    "all": lambda p: int(all(p)),
    "any": lambda p: int(any(p)),
    "uni": lambda p: int(all(p) or not any(p)),
}


@pytest.mark.parametrize("mode", VOTES)
def test_vote__counts_the_lanes_of_its_mask(mode: str) -> None:
    before, after = run(f"shuffle/vote_{mode}")
    p = [bool(v) for v in before["a"]]
    for thread in range(128):
        assert after["whole"][thread] == VOTES[mode]([p[t] for t in whole(thread)])
        assert after["half"][thread] == VOTES[mode]([p[t] for t in halves(thread)])
        assert after["negated"][thread] == VOTES[mode]([not p[t] for t in whole(thread)])


def test_vote__ballot_collects_a_bit_from_each_lane() -> None:
    before, after = run("shuffle/vote_ballot")
    for thread in range(64):
        assert after["whole"][thread] == mask([t for t in whole(thread) if before["a"][t]])
        assert after["half"][thread] == mask([t for t in halves(thread) if before["a"][t]])
        assert after["negated"][thread] == mask([t for t in whole(thread) if not before["a"][t]])


@pytest.mark.parametrize("bits", ["b32", "b64"])
def test_match__finds_the_lanes_with_the_same_value(bits: str) -> None:
    before, after = run(f"shuffle/match_any_{bits}")
    a = before["a"].tolist()
    for thread in range(96):
        assert after["whole"][thread] == mask([t for t in whole(thread) if a[t] == a[thread]])
        assert after["half"][thread] == mask([t for t in halves(thread) if a[t] == a[thread]])
    before, after = run(f"shuffle/match_all_{bits}")
    agreements = 0
    for thread in range(96):
        for name, who in (("whole", whole(thread)), ("half", halves(thread))):
            agree = len({a[t] for t in who}) == 1
            agreements += agree
            assert after[name][thread] == (mask(who) if agree else 0)
            assert after[f"agree_{name}"][thread] == agree
    assert 0 < agreements < 192


@pytest.mark.parametrize("name", [n for n in names("shuffle", "redux") if not CASES[n].expect])
def test_redux__reduces_the_lanes_of_its_mask(name: str) -> None:
    before, after = run(name)
    _, operation, kind = name.split("/")[1].split("_")
    a = before["a"].ravel().view(np.int32 if kind == "s32" else np.uint32).tolist()
    reduce = {
        "add": sum,
        "min": min,
        "max": max,
        "and": lambda v: int(np.bitwise_and.reduce(np.array(v))),
        "or": lambda v: int(np.bitwise_or.reduce(np.array(v))),
        "xor": lambda v: int(np.bitwise_xor.reduce(np.array(v))),
    }[operation]
    for thread in range(64):
        assert after["whole"][thread] == reduce([a[t] for t in whole(thread)]) % 2**32
        assert after["half"][thread] == reduce([a[t] for t in halves(thread)]) % 2**32


def test_activemask__names_the_lanes_that_exist() -> None:
    case = CASES["shuffle/activemask"]
    arguments = case.make_args()
    launch(case.ptx, grid=1, block=40, args=list(arguments.values()))
    assert arguments["d"].tolist()[:40] == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_shfl__a_mask_without_the_lane_itself_is_an_error() -> None:
    case = CASES["shuffle/shfl_without_predicate"]
    ptx = case.ptx.replace("0xffffffff", "0xfffffffe")
    with pytest.raises(InvalidOperand, match="membermask"):
        launch(ptx, grid=1, block=64, args=list(case.make_args().values()))


def test_shfl__a_lane_that_its_mask_does_not_name_gives_no_value() -> None:
    """Both halves execute it together, each with a mask of its own half."""
    ptx = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %lane, %mask, %d;
    .reg .b64 %out;
    .reg .pred %low;
    ld.param.u64 %out, [out];
    mov.u32 %lane, %laneid;
    mad.wide.u32 %out, %lane, 4, %out;
    setp.lt.u32 %low, %lane, 16;
    selp.b32 %mask, 0x0000ffff, 0xffff0000, %low;
    shfl.sync.down.b32 %d, %lane, 8, 31, %mask;
    st.global.b32 [%out], %d;
    ret;
}
"""
    out = np.zeros(32, np.uint32)
    launch(ptx, grid=1, block=32, args=[out])
    assert out.tolist() == [*range(8, 16), *[0xCBCBCBCB] * 8, *range(24, 32), *range(24, 32)]
