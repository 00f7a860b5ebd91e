"""tensormap.replace and cp_fenceproxy: each field, and maps that are wrong or not acquired."""

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, launch
from cutecourse.emulator.errors import (
    AddressError,
    InvalidOperand,
    MissingTensorMapFence,
    UninitializedRead,
    UnsupportedInstruction,
)
from tools.cases import ptx_cases

CASE = ptx_cases.load("tensor/map_replaced")
STRIDE = "    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [changed], 0, 256;\n"
DIM = "    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [changed], 1, 16;\n"
ADDRESS = "    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [changed], %source;\n"
ACQUIRE = "    fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n"


def run(text, **given):
    """Run a changed case: shared memory afterwards, and b."""
    values = CASE.make_args()
    tensor_map = TensorMap.tiled(values["a"], dims=(64, 8), strides=(128,), box=(64, 4), **given)
    launch(text, grid=1, block=128, args=[values["a"], values["b"], values["g"], tensor_map, values["d"]])
    return values["d"], values["b"]


def changed(*lines):
    """The case with more changes behind its own."""
    text = "".join(f"    tensormap.replace.tile.{line};\n" for line in lines)
    return CASE.ptx.replace(STRIDE, STRIDE + text)


def test_replace__changes_the_box():
    """Two rows of 32 elements, every second row."""
    text = changed(
        "box_dim.shared::cta.b1024.b32 [changed], 0, 32",
        "element_stride.shared::cta.b1024.b32 [changed], 1, 2",
    ).replace("%state, [%bar], 512", "%state, [%bar], 128")
    got, b = run(text)
    np.testing.assert_array_equal(got[:128].view(np.uint16), b[[9, 11], :32].reshape(-1))
    assert (got[128:] == 165).all()


def test_replace__changes_the_swizzle_and_the_fill():
    text = changed("swizzle_mode.shared::cta.b1024.b32 [changed], 3").replace("{0, 9}", "{0, 14}")
    got, b = run(text)
    rows = got[:512].reshape(4, 8, 16)
    wanted = np.zeros((4, 8, 16), np.uint8)
    wanted[:2] = b[14:, :64].view(np.uint8).reshape(2, 8, 16)
    for row in range(4):
        np.testing.assert_array_equal(rows[row, np.arange(8) ^ row], wanted[row])


def test_replace__changes_the_type_of_the_elements():
    """As f32 (7), a box of 16 by 4 has the bytes of one of 32 by 4; codes of a plain map change nothing."""
    text = changed(
        "elemtype.shared::cta.b1024.b32 [changed], 7",
        "interleave_layout.shared::cta.b1024.b32 [changed], 0",
        "swizzle_atomicity.shared::cta.b1024.b32 [changed], 0",
        "global_dim.shared::cta.b1024.b32 [changed], 0, 32",
        "box_dim.shared::cta.b1024.b32 [changed], 0, 16",
        "fill_mode.shared::cta.b1024.b32 [changed], 1",
    ).replace("%state, [%bar], 512", "%state, [%bar], 256").replace("{0, 9}", "{0, 14}")  # fmt: skip
    got, b = run(text)
    np.testing.assert_array_equal(got[:128].view(np.uint16), b[14:, :32].reshape(-1))
    assert (got[128:256].view(np.uint32) == 0x7FF77FF7).all()  # the NaN of f32, outside of the tensor
    assert (got[256:] == 165).all()


def test_replace__of_the_rank_keeps_the_dimensions_that_stay():
    text = changed("rank.shared::cta.b1024.b32 [changed], 0")
    text = (
        text.replace("tensor.2d", "tensor.1d").replace("{0, 9}", "{64}").replace("[%bar], 512", "[%bar], 128")
    )
    got, _ = run(text)
    assert (got[:128] == 0).all()  # behind the 64 elements of the only row
    assert (got[128:] == 165).all()


def test_replace__works_on_global_memory():
    """The map is copied first, and its dimension changed where it lies."""
    late = "    @!%more tensormap.replace.tile.global_dim.global.b1024.b32 [%source], 1, 16;\nlater:\n"
    late = f"copied:\n    setp.ne.u32 %more, %me, 0;\n{late}"
    text = CASE.ptx.replace(DIM, "").replace("copied:\n", late)
    got, b = run(text.replace("bra copied;", "bra later;"))
    np.testing.assert_array_equal(got[:512].view(np.uint16), b[9:13, :64].reshape(-1))


BLANK = (
    CASE.ptx.replace("    ld.b32 %v, [%map];\n", "    mov.b32 %v, 0;\n")
    .replace(DIM, "")
    .replace(
        STRIDE,
        STRIDE
        + "".join(
            f"    tensormap.replace.tile.{line};\n"
            for line in (
                "rank.shared::cta.b1024.b32 [changed], 1",
                "box_dim.shared::cta.b1024.b32 [changed], 0, 64",
                "box_dim.shared::cta.b1024.b32 [changed], 1, 4",
                "global_dim.shared::cta.b1024.b32 [changed], 0, 64",
                "global_dim.shared::cta.b1024.b32 [changed], 1, 16",
                "element_stride.shared::cta.b1024.b32 [changed], 0, 1",
                "element_stride.shared::cta.b1024.b32 [changed], 1, 1",
                "elemtype.shared::cta.b1024.b32 [changed], 1",
            )
        ),
    )
)
"""Nothing is copied: the kernel makes the map of 128 zero bytes, as Triton's make_tensor_descriptor does."""


def test_replace__makes_a_map_of_zeros():
    got, b = run(BLANK)
    np.testing.assert_array_equal(got[:512].view(np.uint16), b[9:13, :64].reshape(-1))
    assert (got[512:] == 165).all()


@pytest.mark.parametrize(
    ("left_out", "match"),
    [
        ("box_dim.shared::cta.b1024.b32 [changed], 1, 4", r"box\[1\] is 0, but must be in 1\.\.256"),
        ("global_dim.shared::cta.b1024.b32 [changed], 0, 64", r"dims\[0\] is 0"),
        ("element_stride.shared::cta.b1024.b32 [changed], 1, 1", r"element_strides\[1\] is 0"),
        ("rank.shared::cta.b1024.b32 [changed], 1", r"dims\[2\] is 0"),
        ("global_address.shared::cta.b1024.b64 [changed], %source", "its global_address was never given"),
    ],
)
def test_replace__of_zeros_needs_every_field(left_out, match):
    text = BLANK.replace(f"    tensormap.replace.tile.{left_out};\n", "")
    assert text != BLANK
    with pytest.raises(InvalidOperand, match=match):
        run(text)


def test_copy__with_a_changed_map_needs_the_acquiring_fence():
    with pytest.raises(MissingTensorMapFence, match="was changed, and no thread of this CTA"):
        run(CASE.ptx.replace(ACQUIRE, ""))


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        (
            changed("global_stride.shared::cta.b1024.b64 [changed], 0, 24"),
            InvalidOperand,
            "stride of dimension 1 is 24",
        ),
        (
            changed("global_dim.shared::cta.b1024.b32 [changed], 2, 4"),
            InvalidOperand,
            "global_dim 2: .* 2 dimensions",
        ),
        (
            changed(
                "box_dim.shared::cta.b1024.b32 [changed], 0, 128",
                "swizzle_mode.shared::cta.b1024.b32 [changed], 3",
            ),
            InvalidOperand,
            "more than the span",
        ),
        (changed("fill_mode.shared::cta.b1024.b32 [changed], 1"), InvalidOperand, "floating-point types"),
        (changed("swizzle_mode.shared::cta.b1024.b32 [changed], 5"), InvalidOperand, "0 to 4, not 5"),
        (
            changed("swizzle_mode.shared::cta.b1024.b32 [changed], 4"),
            UnsupportedInstruction,
            "take 0 to 3",
        ),
        (
            changed("elemtype.shared::cta.b1024.b32 [changed], 13"),
            UnsupportedInstruction,
            "load them as .u8",
        ),
        (
            changed("interleave_layout.shared::cta.b1024.b32 [changed], 2"),
            UnsupportedInstruction,
            "take 0, without",
        ),
        (
            changed("swizzle_atomicity.shared::cta.b1024.b32 [changed], 1"),
            UnsupportedInstruction,
            "only atoms of 16 bytes",
        ),
        (changed("fill_mode.shared::cta.b1024.b32 [changed], %me"), InvalidOperand, "integer constant"),
        (CASE.ptx.replace(ADDRESS, ADDRESS.replace("%source", "64")), AddressError, "in no global memory"),
        (CASE.ptx.replace("    st.shared.b32 [%to], %v;\n", ""), UninitializedRead, "never written"),
        (
            CASE.ptx.replace("st.shared.b32 [%to], %v", "st.shared.b32 [%to], %me"),
            InvalidOperand,
            "no tensor map at this",
        ),
        (
            CASE.ptx.replace("[changed], 128;", "[changed], 64;"),
            InvalidOperand,
            "size of a tensor map is 128",
        ),
    ],
)
def test_changes__say_what_is_wrong(text, kind, match):
    assert text != CASE.ptx
    with pytest.raises(kind, match=match):
        run(text)
