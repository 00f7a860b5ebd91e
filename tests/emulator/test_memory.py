"""Memory checks: a wrong access is an error with kernel, line, block, warp, lane, address and allocation."""

import itertools

import numpy as np
import pytest

from cutecourse.emulator import launch
from cutecourse.emulator.core.memory import Memory
from cutecourse.emulator.errors import AddressError, AlignmentError, ReadOnlyError, UninitializedRead

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run(body, *, outside="", data=None, block=64, grid=1, **launched):
    """Run statements in which %d is the address of an array of 64 words, %t the thread, %b the block."""
    text = f"""{HEAD}{outside}
.visible .entry tested(.param .u64 data)
{{
    .reg .b32 %t, %b, %x, %y, %r<8>;
    .reg .b64 %d, %a, %rd<8>;
    .reg .pred %p<4>;
    ld.param.u64 %d, [data];
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mad.wide.u32 %a, %t, 4, %d;
{body}
    ret;
}}
"""
    data = np.arange(64, dtype=np.uint32) if data is None else data
    launch(text, grid=grid, block=block, args=[data], **launched)
    return data


def test_access__past_the_end_says_who_where_and_by_how_much():
    with pytest.raises(AddressError) as caught:
        run("setp.eq.u32 %p0, %t, 37;\n@%p0 add.u64 %a, %a, 200;\nld.global.u32 %x, [%a];", grid=3)
    error = caught.value
    assert error.kernel == "tested"
    assert error.line == 16
    assert "ld.global.u32 %x, [%a];" in str(error)
    assert (error.warp, error.lane) == (1, 5)
    assert error.block[1:] == (0, 0)
    assert error.allocation == "array argument 0 (uint32, shape (64,))"
    assert "92 bytes past the end of the nearest allocation" in error.problem
    assert f"0x{error.address:x}" in error.problem


def test_access__before_the_start():
    with pytest.raises(AddressError, match="4 bytes before the start of the nearest allocation"):
        run("st.global.u32 [%d+-4], %t;")


def test_access__half_inside():
    with pytest.raises(AddressError, match=r"starts inside .* and ends 2 bytes past its end"):
        run("ld.global.u32 %x, [%d+252];", data=np.zeros(127, dtype=np.uint16), block=1)


def test_access__vector_across_the_end():
    with pytest.raises(AddressError, match="ends 8 bytes past its end"):
        run("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d+240];", data=np.zeros(62, dtype=np.uint32), block=1)


def test_access__between_two_arrays_belongs_to_neither():
    text = HEAD + (
        ".visible .entry k(.param .u64 a, .param .u64 b) { .reg .b64 %a; .reg .b32 %x; ld.param.u64 %a, [a];"
        " ld.global.u32 %x, [%a+64]; ret; }"
    )
    with pytest.raises(
        AddressError, match="0 bytes past the end of the nearest allocation, array argument 0"
    ):
        launch(text, grid=1, block=1, args=[np.zeros(16, np.float32), np.zeros(16, np.float32)])


@pytest.mark.parametrize("address", ["0", "8"])
def test_access__near_null(address):
    with pytest.raises(AddressError, match="a null pointer" if address == "0" else "nearest"):
        run(f"mov.u64 %a, {address};\nld.global.u32 %x, [%a];")


@pytest.mark.parametrize(
    ("instruction", "size"),
    [
        ("ld.global.u32 %x, [%d+2];", 4),
        ("ld.global.u64 %rd0, [%d+4];", 8),
        ("ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d+8];", 16),
        ("st.global.u16 [%d+1], %x;", 2),
        ("ld.u32 %x, [%d+1];", 4),
    ],
)
def test_access__misaligned(instruction, size):
    with pytest.raises(
        AlignmentError, match=f"of {size} bytes at .* which is not a multiple of {size}"
    ) as caught:
        run(instruction)
    assert caught.value.allocation.startswith("array argument 0")
    assert caught.value.lane == 0


def test_access__masked_lanes_are_not_looked_at():
    body = "setp.ge.u32 %p0, %t, 32;\nmov.u64 %a, 3;\n@%p0 ld.global.u32 %x, [%a];\nst.global.u32 [%d], %t;"
    assert run(body, block=32)[0] == 31


def test_access__shared_out_of_range_names_the_nearest_variable():
    with pytest.raises(
        AddressError,
        match=r"it begins 0 bytes past the end of the block's 128 bytes.*; .* is box",
    ) as caught:
        run(".shared .b8 box[128];\nmov.u32 %x, box;\nadd.u32 %x, %x, 128;\nst.shared.u32 [%x], %t;")
    assert caught.value.allocation == "box"
    with pytest.raises(AddressError, match="shared memory"):
        run(".shared .b8 box[128];\nst.shared.u32 [box+-4], %t;")


def test_access__shared_misaligned():
    with pytest.raises(AlignmentError, match="in box"):
        run(".shared .align 4 .b8 box[128];\nst.shared.u32 [box+6], %t;")


def test_access__without_shared_memory_every_shared_address_is_wrong():
    with pytest.raises(
        AddressError, match=r"begins 64 bytes past the end of the block's 0 bytes.*dynamic_smem"
    ):
        run("mov.u32 %x, 64;\nld.shared.u32 %y, [%x];")


@pytest.mark.parametrize(("offset", "where"), [(60, "ends 2"), (64, "begins 2"), (96, "begins 34")])
def test_access__past_dynamic_shared_memory_says_how_much_the_launch_gives(offset, where):
    body = f"mov.u32 %x, pool;\nst.shared.u32 [%x+{offset}], %t;"
    with pytest.raises(AddressError, match=rf"it {where} bytes past .*; 62 of them are dynamic"):
        run(body, outside=".extern .shared .align 4 .b8 pool[];", dynamic_smem=62)


def test_access__a_generic_address_in_shared_is_named():
    body = ".shared .b8 box[128];\nmov.u64 %a, box;\ncvta.shared.u64 %a, %a;\nst.shared.u32 [%a], %t;"
    with pytest.raises(AddressError, match=r"a generic address, but the operand is in \.shared"):
        run(body)


def test_access__read_of_never_written_shared_memory():
    with pytest.raises(
        UninitializedRead,
        match=r"\(in box\) was never written. If the store at line \d+ is to write it, put a barrier",
    ) as caught:
        run(
            ".shared .align 4 .b8 box[256];\nmov.u32 %x, box;\nmad.lo.u32 %x, %t, 4, %x;"
            "\nsetp.ne.u32 %p0, %t, 40;\n"
            "@%p0 st.shared.u32 [%x], %t;\nbar.sync 0;\nld.shared.u32 %y, [%x];"
        )
    assert (caught.value.warp, caught.value.lane, caught.value.allocation) == (1, 8, "box")


def test_access__one_byte_never_written_is_found_in_a_word():
    with pytest.raises(UninitializedRead, match="byte 0x3"):
        run(
            ".shared .align 4 .b8 box[4];\nst.shared.u16 [box], %x;\nst.shared.u8 [box+2], %x;"
            "\nld.shared.u32 %y, [box];",
            block=1,
        )


@pytest.mark.parametrize("seed", range(8))
def test_access__a_missing_barrier_shows_as_a_read_of_nothing(seed):
    body = (
        ".shared .align 4 .b8 box[512];\nmov.u32 %x, box;\nmad.lo.u32 %y, %t, 4, %x;"
        "\nst.shared.u32 [%y], %t;\n{}\n"
        "xor.b32 %y, %t, 96;\nmad.lo.u32 %y, %y, 4, %x;\nld.shared.u32 %y, [%y];"
    )
    run(body.format("bar.sync 0;"), block=128, seed=seed)
    with pytest.raises(UninitializedRead):
        run(body.format(""), block=128, seed=seed)


def test_access__shared_memory_of_the_next_block_is_poisoned_again():
    body = (
        ".shared .align 4 .b8 box[4];\nsetp.eq.u32 %p0, %b, 0;\n@%p0 st.shared.u32 [box], %t;\n"
        "ld.shared.u32 %y, [box];"
    )
    for seed in range(4):
        with pytest.raises(UninitializedRead) as caught:
            run(body, grid=200, block=1, seed=seed)
        assert caught.value.block != (0, 0, 0)


def test_access__local_memory_is_checked():
    with pytest.raises(AddressError, match="8 bytes past the end of the thread's 16 bytes"):
        run(".local .align 4 .b8 own[16];\nmov.u64 %rd0, own;\nst.local.u32 [%rd0+20], %t;")
    with pytest.raises(UninitializedRead, match=r"local memory .* never written"):
        run(
            ".local .align 4 .b8 own[16];\nmov.u64 %rd0, own;\nst.local.u32 [%rd0+4], %t;"
            "\nld.local.u32 %x, [%rd0];"
        )
    with pytest.raises(AlignmentError, match="local memory"):
        run(".local .align 4 .b8 own[16];\nmov.u64 %rd0, own;\nst.local.u32 [%rd0+5], %t;")


def test_access__padding_may_be_copied_along_in_local_memory():
    run(
        ".local .align 8 .b8 own[16];\nmov.u64 %rd0, own;\nst.local.u32 [%rd0], %t;"
        "\nld.local.v2.u32 {%x, %y}, [%rd0];"
    )


def test_access__constant_memory_and_parameters_are_read_only():
    with pytest.raises(ReadOnlyError, match="in table, which is in const memory and read-only"):
        run(
            "mov.u64 %rd0, table;\ncvta.const.u64 %rd0, %rd0;\nst.u32 [%rd0], %t;",
            outside=".const .u32 table[4] = {1, 2, 3, 4};",
        )


def test_access__past_the_end_of_a_module_variable():
    with pytest.raises(
        AddressError, match=r"0 bytes past the end of the nearest allocation, table \(16 bytes\)"
    ):
        run("ld.global.u32 %x, [table+16];", outside=".global .u32 table[4];")


def test_access__global_arrays_count_as_written():
    run("ld.global.u32 %x, [%a];", data=np.empty(64, dtype=np.uint32))


def test_access__generic_addresses_reach_every_space():
    body = (
        ".shared .align 4 .b8 box[256];\nmov.u64 %rd0, box;\ncvta.shared.u64 %rd0, %rd0;\n"
        "ld.u32 %x, [%rd0+256];"
    )
    with pytest.raises(AddressError, match="in shared memory"):
        run(body)


def test_access__extern_variables_without_a_definition_are_named():
    with pytest.raises(
        Exception, match=r"elsewhere is declared \.extern, but nothing in this module defines it"
    ):
        run("ld.global.u32 %x, [elsewhere];", outside=".extern .global .u32 elsewhere;")


def test_memory__allocations_have_gaps_and_alignment():
    memory = Memory()
    made = [
        memory.allocate(f"a{i}", np.zeros(size, np.uint8)) for i, size in enumerate((1, 0, 5000, 1 << 20))
    ]
    for first, second in itertools.pairwise(made):
        assert second.base % 1024 == 0
        assert second.base - first.end >= 1 << 15
    assert memory.find(made[2].base + 4999) is made[2]
    assert memory.find(made[2].end) is None
    assert memory.nearest(made[2].end + 3) == (made[2], 3)
    assert memory.nearest(made[3].base - 5) == (made[3], -5)


@pytest.mark.parametrize(
    ("access", "element", "said"),
    [
        ("ld.global.f32 %x, [%a];", "f8", "read of numbers of type .f32 in array argument 0 (float64"),
        (
            "ld.global.f32 %x, [%a];",
            "i4",
            "argument 0 (int32, shape (64,)): pass an array of float32",
        ),
        ("ld.global.f32 %x, [%a];", "f2", "float16"),
        ("ld.global.v4.f32 {%x, %x, %x, %x}, [%d];", "f8", "float64"),
        ("ld.global.f64 %rd1, [%d];", "f4", "pass an array of float64"),
        ("st.global.f32 [%a], %x;", "i4", "write of numbers of type .f32"),
        ("red.global.add.f32 [%a], %x;", "i8", "update of numbers of type .f32"),
        ("ld.f32 %x, [%a];", "f8", "float64"),
        ("ld.global.f32 %x, [%a];", "f4", None),
        ("ld.global.f32 %x, [%a];", "u4", None),
        ("ld.global.b32 %x, [%a];", "i4", None),
        ("ld.global.v4.f32 {%x, %x, %x, %x}, [%d];", "i4", None),
        ("ld.global.v4.f32 {%x, %x, %x, %x}, [%d];", "f2", None),
    ],
)
def test_type__of_the_array_is_compared_with_the_instructions(access, element, said):
    text = f"{HEAD}.visible .entry k(.param .u64 data) {{ .reg .b32 %t, %x; .reg .b64 %a, %d, %rd<2>;"
    text += "ld.param.u64 %d, [data]; mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 4, %d; mov.u32 %x, 0;"
    notes = launch(f"{text} {access} ret; }}", grid=3, block=32, args=[np.zeros(64, element)]).notes
    assert [(note.hazard.name, note.severity) for note in notes] == (
        [("array of another type", "warning")] if said else []
    )
    assert said is None or said in notes[0].problem
