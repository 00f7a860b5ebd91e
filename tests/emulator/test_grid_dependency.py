"""Programmatic dependent launches: uses of the earlier launch's results in front of griddepcontrol.wait."""

import numpy as np
import pytest

from cutecourse.emulator import EmulatorError, TensorMap, launch
from cutecourse.emulator.errors import LaunchError, MissingGridWait

HEAD = """
.version 8.0
.target sm_90
.address_size 64
"""
FIRST = (
    HEAD
    + """
.visible .entry first(.param .u64 out)
{
    .reg .b32 %t, %b;
    .reg .b64 %at;
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mad.lo.u32 %t, %b, 64, %t;
    ld.param.u64 %at, [out];
    mad.wide.u32 %at, %t, 4, %at;
    griddepcontrol.launch_dependents;
    st.global.u32 [%at], %t;
    ret;
}
"""
)
SECOND = (
    HEAD
    + """
.visible .entry second(.param .u64 in, .param .u64 weights, .param .u64 out)
{
    .shared .align 16 .b8 tile[256];
    .reg .b32 %t, %v, %w, %s;
    .reg .b64 %in, %weights, %out;
    .reg .pred %first;
    mov.u32 %t, %tid.x;
    setp.lt.u32 %first, %t, 32;
    ld.param.u64 %in, [in];
    mad.wide.u32 %in, %t, 4, %in;
    ld.param.u64 %weights, [weights];
    mad.wide.u32 %weights, %t, 4, %weights;
    ld.param.u64 %out, [out];
    mad.wide.u32 %out, %t, 4, %out;
    ld.global.u32 %w, [%weights];
    // WAIT
    ld.global.u32 %v, [%in];
    add.u32 %v, %v, %w;
    st.global.u32 [%out], %v;
    ret;
}
"""
)


def chain(second: str, *, first: str = FIRST, seed: int = 0, **options) -> np.ndarray:
    """Both launches on the same arrays: the second one's output."""
    middle, weights, out = np.zeros(128, np.uint32), np.full(128, 1000, np.uint32), np.zeros(64, np.uint32)
    before = launch(first, grid=2, block=64, args=[middle], has_dependents=True)
    assert not before.notes
    found = launch(
        second, grid=1, block=64, args=[middle, weights, out], primary=before, seed=seed, **options
    )
    assert not found.notes
    np.testing.assert_array_equal(out, np.arange(64) + 1000)
    return out


def with_wait(text: str) -> str:
    return SECOND.replace("// WAIT", text)


def test_wait__in_front_of_the_first_use_is_right() -> None:
    """The weights, which the earlier launch does not write, may be read in front of it."""
    chain(with_wait("griddepcontrol.wait;"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wait", ["", "@!%first griddepcontrol.wait;"])
def test_wait__that_is_missing_in_a_warp_is_reported_under_every_seed(wait: str, seed: int) -> None:
    with pytest.raises(MissingGridWait, match=r"of array argument 0.*kernel first") as caught:
        chain(with_wait(wait), seed=seed)
    assert "ld.global.u32 %v, [%in]" in str(caught.value)
    assert caught.value.kernel == "second"


def test_wait__behind_the_use_is_too_late() -> None:
    late = SECOND.replace("add.u32 %v, %v, %w;", "add.u32 %v, %v, %w;\n    griddepcontrol.wait;")
    with pytest.raises(MissingGridWait):
        chain(late)


def test_wait__of_one_warp_reaches_the_others_by_a_barrier() -> None:
    chain(with_wait("@%first griddepcontrol.wait;\n    bar.sync 0;"))


def test_wait__is_not_needed_without_launch_dependents() -> None:
    """Then the dependent launch starts when the earlier one has ended."""
    chain(with_wait(""), first=FIRST.replace("griddepcontrol.launch_dependents;", ""))


def test_store__in_front_of_the_wait_is_reported() -> None:
    early = SECOND.replace("// WAIT", "st.global.u32 [%in+256], %w;\n    griddepcontrol.wait;")
    with pytest.raises(MissingGridWait, match=r"byte 0x1[08]0 of array"):
        chain(early)


def test_store__to_what_the_earlier_launch_reads_needs_the_wait() -> None:
    """The earlier launch reads `middle` and writes `out`; the later one overwrites `middle`."""
    reads = SECOND.replace("// WAIT", "griddepcontrol.launch_dependents;").replace(
        "entry second", "entry first"
    )
    writes = FIRST.replace("griddepcontrol.launch_dependents;", "// WAIT").replace(
        "entry first", "entry second"
    )
    middle, weights, out = np.zeros(64, np.uint32), np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    before = launch(reads, grid=1, block=64, args=[middle, weights, out], has_dependents=True)
    with pytest.raises(
        MissingGridWait, match=r"is written, which kernel first of the launch before has read"
    ):
        launch(writes, grid=1, block=64, args=[middle], primary=before)
    launch(writes.replace("// WAIT", "griddepcontrol.wait;"), grid=1, block=64, args=[middle], primary=before)
    # Another array of the same size, and reading what both read, need none.
    launch(writes, grid=1, block=64, args=[np.zeros(64, np.uint32)], primary=before)
    other = [middle, weights, np.zeros(64, np.uint32)]
    launch(SECOND, grid=1, block=64, args=other, primary=before)


def test_other_half__of_the_array_may_be_used() -> None:
    """The earlier launch has one block here, which writes the first 256 bytes alone."""
    middle, weights, out = np.zeros(128, np.uint32), np.zeros(128, np.uint32), np.zeros(64, np.uint32)
    before = launch(FIRST, grid=1, block=64, args=[middle], has_dependents=True)
    other = SECOND.replace("[%in];", "[%in+256];")
    launch(other, grid=1, block=64, args=[middle, weights, out], primary=before)
    launch(SECOND, grid=1, block=64, args=[middle[64:], weights, out], primary=before)


BULK = "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%in], 256, [full];"


@pytest.mark.parametrize(
    "load",
    ["cp.async.ca.shared.global [%s], [%in], 4;\n    cp.async.wait_all;", BULK],
    ids=["cp.async", "bulk"],
)
def test_copy__in_front_of_the_wait_is_reported(load: str) -> None:
    start = """
    mov.u32 %s, tile;
    mad.lo.u32 %s, %t, 4, %s;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared.b64 [full], 1;
    bar.sync 0;
    """
    tile = ".shared .align 16 .b8 tile[256];"
    text = SECOND.replace(tile, f"{tile}\n    .shared .align 8 .b64 full;")
    early = text.replace("// WAIT", f"{start}{load}\n    griddepcontrol.wait;")
    with pytest.raises(MissingGridWait, match="of array argument 0"):
        chain(early)


TENSOR = (
    HEAD
    + """
.visible .entry second(.param .align 64 .b8 map[128], .param .u64 out)
{
    .shared .align 128 .b8 tile[256];
    .shared .align 8 .b64 full;
    .reg .b32 %t, %v;
    .reg .b64 %m, %out, %s;
    .reg .pred %first, %p;
    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    @%first mbarrier.init.shared.b64 [full], 1;
    bar.sync 0;
    // WAIT
    mov.u64 %m, map;
    cvta.param.u64 %m, %m;
    @%first mbarrier.arrive.expect_tx.shared.b64 %s, [full], 256;
    @%first cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [tile], [%m, {0}], [full];
AGAIN:
    mbarrier.try_wait.parity.shared.b64 %p, [full], 0;
    @!%p bra AGAIN;
    ret;
}
"""
)


def test_tensor_copy__needs_the_wait_of_its_thread() -> None:
    middle = np.zeros(128, np.uint32)
    before = launch(FIRST, grid=2, block=64, args=[middle], has_dependents=True)
    given = TensorMap.tiled(middle, dims=(128,), strides=(), box=(64,))
    arguments = {"grid": 1, "block": 64, "args": [given, np.zeros(1, np.uint32)], "primary": before}
    launch(TENSOR.replace("// WAIT", "@%first griddepcontrol.wait;"), **arguments)
    with pytest.raises(MissingGridWait, match="a box of array argument 0"):
        launch(TENSOR, **arguments)


def test_launches__that_are_not_connected_get_the_note() -> None:
    out = np.zeros(128, np.uint32)
    (note,) = launch(FIRST, grid=2, block=64, args=[out]).notes
    assert note.hazard.name == "grid dependency"
    assert "primary=" in note.problem
    with pytest.raises(LaunchError, match="has_dependents=True"):
        launch(FIRST, grid=2, block=64, args=[out], primary=launch(FIRST, grid=2, block=64, args=[out]))


def test_keep_going__lists_each_line_once() -> None:
    with pytest.raises(EmulatorError):
        chain(with_wait(""))
    middle, weights, out = np.zeros(128, np.uint32), np.zeros(128, np.uint32), np.zeros(64, np.uint32)
    before = launch(FIRST, grid=2, block=64, args=[middle], has_dependents=True)
    found = launch(SECOND, grid=1, block=64, args=[middle, weights, out], primary=before, keep_going=True)
    (note,) = found.notes
    assert (note.hazard.name, note.severity) == ("no grid wait", "error")


def test_atomics__keep_their_rounding_in_a_launch_with_dependents() -> None:
    """In global memory add.f32 flushes subnormals, whether or not writes are recorded."""
    text = FIRST.replace("st.global.u32 [%at], %t;", "red.global.add.f32 [%at], 0f00000001;")
    for has_dependents in (False, True):
        out = np.zeros(128, np.uint32)
        launch(text, grid=2, block=64, args=[out], has_dependents=has_dependents)
        assert not out.any()
