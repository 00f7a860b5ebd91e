"""What each field of tcgen05's shared-memory descriptor does, one rule a test.

The oracle is the document's table of canonical layouts, written with the course's `Layout`, with room between
the atoms, so that each of LBO and SBO has to lead where it should; and CuTe's `Swizzle<B, M, S>` on bits.
"""

from functools import cache

import numpy as np
import pytest

from cutecourse.emulator.errors import InvalidOperand
from cutecourse.layout import Layout
from support import tcgen05
from support.tcgen05 import FENCE, WIDE, copy_in, descriptor, idesc

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128, WIDE: 128}
# Swizzle<B, M, S>: B bits from bit M on are combined with those S higher.
CUTE = {"none": (0, 4, 3), "32B": (1, 4, 3), "64B": (2, 4, 3), "128B": (3, 4, 3), WIDE: (2, 5, 2)}
KINDS = {"f16": (2, 16), "tf32": (4, 8)}
"""Bytes of an element, and K of one instruction."""
B_AT = 20480
IMAGE = 40960
LEGAL = [("f16", major, swizzle) for major in ("K", "MN") for swizzle in ("none", "32B", "64B", "128B")]
LEGAL += [("tf32", "K", swizzle) for swizzle in ("none", "32B", "64B", "128B")] + [("tf32", "MN", WIDE)]


@cache
def canonical(item, major, swizzle, extent, k):
    """(bytes before the swizzle, shape (extent, k); LBO; SBO): the table's layouts, with gaps of an atom."""
    t, wide = 16 // item, SPANS[swizzle] // 16
    rows = 4 if swizzle == WIDE else 8
    atom = rows * t * wide
    if major == "K" and swizzle == "none":
        lbo, sbo = 3 * atom, 3 * atom * (k // t) + atom
        layout = Layout(((8, extent // 8), (t, k // t)), ((t, sbo), (1, lbo)))
    elif major == "K":
        lbo, sbo = 7 * t, 2 * atom  # LBO does not count
        layout = Layout(((8, extent // 8), (t, k // t)), ((t * wide, sbo), (1, t)))
    elif swizzle == "none":
        sbo, lbo = 2 * atom, 2 * atom * (extent // t) + atom
        layout = Layout(((t, 1, extent // t), (8, k // 8)), ((1, t, sbo), (t, lbo)))
    else:
        pieces = -(-extent // (t * wide))
        lbo, sbo = 2 * atom, 2 * atom * pieces + 1024 // item
        layout = Layout(((t, wide, pieces), (rows, k // rows)), ((1, t, lbo), (t * wide, sbo)))
    offsets = [[item * layout((mn, kk)) for kk in range(k)] for mn in range(extent)]
    return np.array(offsets), item * lbo, item * sbo


def swizzled(address, swizzle):
    b, m, s = CUTE[swizzle]
    return address ^ ((address & (((1 << b) - 1) << (m + s))) >> s)


def write(image, addresses, values):
    """Put elements of 2 or 4 bytes where they belong."""
    item = values.dtype.itemsize
    assert addresses.max() + item <= len(image)
    image.view(f"u{item}")[addresses // item] = values.view(f"u{item}")


def whole(shape, seed, kind):
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype(np.float16 if kind == "f16" else np.float32)


def multiply(image, kind, m, n, a, b, *, majors=("K", "K")):
    """Tensor memory after one MMA for each pair of descriptors in `a` and `b`."""
    code = idesc(m, n, ab=kind, a_major=majors[0], b_major=majors[1])
    body = copy_in(IMAGE) + FENCE + "bar.sync 0;\n" + f"mov.b32 %x, {code};\n"
    for step, (a_desc, b_desc) in enumerate(zip(a, b, strict=True)):
        body += f"mov.b64 %a, {a_desc};\nmov.b64 %b, {b_desc};\nsetp.ne.u32 %q, {step}, 0;\n"
        body += f"@%first tcgen05.mma.cta_group::1.kind::{kind} [%tmem], %a, %b, %x, %q;\n"
    body += "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
    body += "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra AGAIN;\n"
    body += f"tcgen05.fence::after_thread_sync;\nmul.wide.u32 %at, %me, {4 * n};\nadd.u64 %at, %out, %at;\n"
    body += "add.u32 %d, %tmem, %lane;\n"
    registers = ", ".join(f"%r{i}" for i in range(n))
    # With M = 64 half of the lanes hold nothing.
    body += "tcgen05.ld.sync.aligned.32x32b.x" + f"{n}.b32 {{{registers}}}, [%d];\n"
    body += "".join(f"st.global.b32 [%at+{4 * i}], %r{i};\n" for i in range(n))
    body += "tcgen05.wait::ld.sync.aligned;\n"
    out = np.zeros((128, n), np.uint32)
    tcgen05.run(body, image, out, smem=IMAGE)
    lanes = np.arange(128) if m == 128 else np.array([32 * (r // 16) + r % 16 for r in range(64)])
    return out[lanes].view(np.float32)


def plain(image, kind, values):
    """B without a swizzle at B_AT: its descriptor."""
    item, k = values.dtype.itemsize, values.shape[1]
    offsets, lbo, sbo = canonical(item, "K", "none", len(values), k)
    write(image, B_AT + offsets, values)
    return descriptor(B_AT, lbo, sbo, "none")


@pytest.mark.parametrize(("kind", "major", "swizzle"), LEGAL, ids=lambda value: value.replace(" ", "-"))
@pytest.mark.parametrize("operand", ["A", "B"])
def test_strides__lead_from_atom_to_atom(kind, major, swizzle, operand):
    """With gaps between the atoms: LBO and SBO each along the direction that the document gives it."""
    item, k = KINDS[kind]
    m, n = (64, 16) if major == "K" and operand == "A" else (128, 16)
    if operand == "B":
        n = 64
    a, b = whole((m, k), 1, kind), whole((n, k), 2, kind)
    image = np.zeros(IMAGE, np.uint8)
    given, other = (a, b) if operand == "A" else (b, a)
    offsets, lbo, sbo = canonical(item, major, swizzle, len(given), k)
    write(image, swizzled(offsets, swizzle), given)
    desc = descriptor(0, lbo, sbo, swizzle)
    if operand == "A":
        got = multiply(image, kind, m, n, [desc], [plain(image, kind, other)], majors=(major, "K"))
    else:
        got = multiply(image, kind, m, n, [plain(image, kind, other)], [desc], majors=("K", major))
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)


def step_bytes(kind, major, swizzle, lbo, sbo):
    """What a step of one instruction's K adds to the start: 32 bytes of elements along K, or two atoms."""
    if major == "K":
        return 2 * lbo if swizzle == "none" else 32
    atoms = KINDS[kind][1] // (4 if swizzle == WIDE else 8)
    return atoms * (lbo if swizzle == "none" else sbo)


@pytest.mark.parametrize(
    ("kind", "major", "swizzle"),
    [case for case in LEGAL if case[1:] != ("K", "32B")],
    ids=lambda value: value.replace(" ", "-"),
)
def test_k__advances_by_the_start_address(kind, major, swizzle):
    """Two instructions over twice the K; the second's descriptor differs in its start only."""
    item, k = KINDS[kind]
    m, n = (64, 16) if major == "K" else (128, 16)
    a, b = whole((m, 2 * k), 1, kind), whole((n, 2 * k), 2, kind)
    image = np.zeros(IMAGE, np.uint8)
    offsets, lbo, sbo = canonical(item, major, swizzle, m, 2 * k)
    write(image, swizzled(offsets, swizzle), a)
    step = step_bytes(kind, major, swizzle, lbo, sbo)
    a_descs = [descriptor(start, lbo, sbo, swizzle) for start in (0, step)]
    b_desc = plain(image, kind, b)
    b_step = 2 * canonical(item, "K", "none", n, 2 * k)[1]
    got = multiply(image, kind, m, n, a_descs, [b_desc, b_desc + (b_step >> 4)], majors=(major, "K"))
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(("swizzle", "row"), [("128B", 1), ("128B", 6), ("64B", 3), ("32B", 1)])
def test_base_offset__is_where_the_pattern_starts(swizzle, row):
    """The pattern starts at a 128-byte row that is no multiple of its length; the base offset says which."""
    a, b = whole((64, 16), 1, "f16"), whole((16, 16), 2, "f16")
    image = np.zeros(IMAGE, np.uint8)
    offsets, _, sbo = canonical(2, "K", swizzle, 64, 16)
    start = 1024 + 128 * row
    write(image, start + swizzled(offsets, swizzle), a)
    b_desc = plain(image, "f16", b)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    for base, right in ((row, True), (0, False)):
        got = multiply(image, "f16", 64, 16, [descriptor(start, 0, sbo, swizzle, base)], [b_desc])
        assert np.array_equal(got, wanted) == right


@pytest.mark.parametrize("base", [1, 4, 7])
def test_base_offset__means_nothing_without_a_swizzle(base):
    a, b = whole((64, 16), 1, "f16"), whole((16, 16), 2, "f16")
    image = np.zeros(IMAGE, np.uint8)
    offsets, lbo, sbo = canonical(2, "K", "none", 64, 16)
    write(image, offsets, a)
    b_desc = plain(image, "f16", b) | base << 49
    got = multiply(image, "f16", 64, 16, [descriptor(0, lbo, sbo, "none", base)], [b_desc])
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("start", [0x200, 0x480])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_swizzle__is_of_the_address_for_either_majorness(major, start):
    """A tile that starts inside of the pattern, its base offset 0: what TMA writes there."""
    a, b = whole((64, 16), 1, "f16"), whole((16, 16), 2, "f16")
    image = np.zeros(IMAGE, np.uint8)
    offsets, lbo, sbo = canonical(2, major, "128B", 64, 16)
    write(image, swizzled(start + offsets, "128B"), a)
    b_desc = plain(image, "f16", b)
    desc = descriptor(start, lbo, sbo, "128B")
    got = multiply(image, "f16", 64, 16, [desc], [b_desc], majors=(major, "K"))
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(
    ("kind", "major", "swizzle", "match"),
    [
        ("f16", "K", WIDE, "1, 128 bytes with 32-byte atoms: the document gives it atoms for MN-major only"),
        ("f16", "MN", WIDE, "an MN-major matrix of 16-bit elements takes any mode but this"),
        ("tf32", "MN", "128B", "128B: an MN-major matrix of 32-bit elements allows only 1"),
        ("tf32", "MN", "none", "none: an MN-major matrix of 32-bit elements allows only 1"),
    ],
)
def test_swizzle__that_the_elements_cannot_have_is_refused(kind, major, swizzle, match):
    image = np.zeros(IMAGE, np.uint8)
    other = plain(image, kind, whole((16, KINDS[kind][1]), 2, kind))
    with pytest.raises(InvalidOperand, match=r"a-desc: swizzling mode \(bits 61 to 63\): .*" + match):
        multiply(image, kind, 64, 16, [descriptor(0, 128, 256, swizzle)], [other], majors=(major, "K"))
