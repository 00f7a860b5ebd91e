"""What must hold of tilings whatever an oracle says: covers, inverses, explanations, refusals."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from atoms.oracles import CUTLASS, ask_dsl
from atoms.ours import answer, differences, layout_of, tiled_copy_of

from cutecourse.atoms import (
    MMA_ATOMS,
    LayoutTensor,
    PartitionError,
    copy_atom,
    explain_cell,
    explain_owner,
    explain_partition,
    make_cotiled_copy,
    make_fragment_like,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_C,
    make_tiled_copy_D,
    make_tiled_copy_impl,
    make_tiled_copy_S,
    make_tiled_copy_tv,
    make_tiled_mma,
    mma_atom,
    ownership_map,
    partition,
    partition_fragment_C,
    tile_size,
)
from cutecourse.layout import ComposedLayout, Layout, Swizzle, explain, make_identity_layout

ATOM = "SM80_16x8x16_F32F16F16F32_TN"
BYTE = copy_atom("UniversalCopy<uint8_t>", "u8")
MMAS = [
    ((1, 1, 1), None),
    ((2, 2, 1), (32, 32, 16)),
    (Layout((2, 2, 1), (2, 1, 4)), (Layout((16, 2), (2, 1)), None, 32)),
    ((1, 2, 2), (None, Layout((4, 2, 4), (1, 16, 4)), None)),
]


@pytest.mark.parametrize("atom", [ATOM, "SM80_16x8x8_F32TF32TF32F32_TN", "SM80_8x8x16_S32S8U8S32_TN"])
@pytest.mark.parametrize(("atoms", "permutation"), MMAS, ids=range(len(MMAS)))
def test_partition__of_all_threads_covers_the_tensor(atom: str, atoms: Any, permutation: Any) -> None:
    mma = make_tiled_mma(atom, atoms, permutation)
    m, n, k = (2 * size for size in mma.tile_shape_mnk)
    vmnk = [mode.shape for mode in mma.thr_layout_vmnk]
    for operand, shape, shared in (("A", (m, k), vmnk[2]), ("B", (n, k), vmnk[1]), ("C", (m, n), vmnk[3])):
        held = Counter(
            element
            for thr in range(mma.size)
            for element in partition(mma, operand, make_identity_layout(shape), thr).elements()
        )
        # atoms side by side along the mode that an operand lacks hold the same cells
        assert held == Counter({(i, j): shared for i in range(shape[0]) for j in range(shape[1])})


def test_partition__of_one_atom_is_its_ownership_map() -> None:
    for name in ("SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x32_S32S8S8S32_TN", "SM80_8x8x4_F64F64F64F64_TN"):
        atom = MMA_ATOMS[name]
        mma = make_tiled_mma(atom)
        for operand in ("A", "B", "C"):
            table = ownership_map(atom, operand)
            for thr in range(32):
                part = partition(mma, operand, make_identity_layout(atom.operand_shape(operand)), thr)
                assert list(part.elements()) == [cell for _, cell in atom.cells(operand, thr)]
                assert all(table[row][column] == thr for row, column in part.elements())


def test_partition__of_a_strided_tensor_is_the_strides_of_its_coordinates() -> None:
    """A partition only chooses elements: laid out otherwise, no element goes to another thread."""
    rng = random.Random(5)
    mma = make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))
    crd = make_identity_layout((64, 32))
    layouts: list[Any] = [
        Layout((64, 32), (32, 1)),
        Layout((64, 32), (1, 64)),
        Layout((64, 32), (40, 1)),
        ComposedLayout(Swizzle(2, 3, 3), 0, Layout((64, 32), (32, 1))),
    ]
    for layout in layouts:
        for thr in rng.sample(range(mma.size), 6):
            coords = mma.get_slice(thr).partition_A(crd)
            assert list(mma.get_slice(thr).partition_A(layout).elements()) == [
                layout(c) for c in coords.elements()
            ]


def test_partition__keeps_the_offset_of_the_tensor() -> None:
    mma = make_tiled_mma(ATOM)
    layout = Layout((16, 16), (16, 1))
    whole = mma.get_slice(9).partition_A(layout)
    moved = mma.get_slice(9).partition_A(LayoutTensor(layout, 4096))
    assert moved == LayoutTensor(whole.layout, whole.offset + 4096)


@pytest.mark.parametrize(
    "case", [c for c in CUTLASS["cases"] if c["case"] in ("mma_copy-001", "copy-002", "cotiled-003")]
)
def test_tiled_copy__sides_cover_the_tile(case: dict[str, Any]) -> None:
    copy = tiled_copy_of(case)
    shape = layout_of(case.get("s", case.get("tensor"))).shape
    crd = make_identity_layout(shape)
    everything = set(LayoutTensor(crd).elements())
    for take in ("partition_S", "partition_D"):
        held = [e for thr in range(copy.size) for e in getattr(copy.get_slice(thr), take)(crd).elements()]
        assert set(held) == everything


def test_retile__chooses_the_same_registers_as_the_copy_writes() -> None:
    mma = make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))
    copy = make_tiled_copy_A(copy_atom("SM75_U32x4_LDSM_N", "f16"), mma)
    tensor = Layout((64, 64), (64, 1))
    for thr in (0, 5, 77, 127):
        by_mma = mma.get_slice(thr).partition_A(tensor)
        registers = make_fragment_like(by_mma)
        retiled = copy.get_slice(thr).retile_D(registers)
        by_copy = copy.get_slice(thr).partition_D(tensor)
        # register r holds the element that the MMA expects there, whichever way one counts
        held = {registers(i): by_mma(i) for i in range(by_mma.size)}
        assert [held[retiled(i)] for i in range(retiled.size)] == list(by_copy.elements())


def test_make_tiled_copy__follows_its_law() -> None:
    thr, val = Layout((4, 8), (8, 1)), Layout((2, 4), (4, 1))
    copy = make_tiled_copy(copy_atom("UniversalCopy<uint64_t>", "f16"), thr, val)
    assert copy == make_tiled_copy_tv(copy.atom, thr, val)
    for m in range(8):
        for n in range(32):
            thread, value = thr(m // 2, n // 4), val(m % 2, n % 4)
            assert copy.layout_tv(thread, value) == m + 8 * n


def test_make_tiled_copy_S_and_D__keep_the_side_of_the_other_copy() -> None:
    mma = make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))
    ldmatrix = make_tiled_copy_A(copy_atom("SM75_U32x4_LDSM_N", "f16"), mma)
    single = copy_atom("UniversalCopy<uint16_t>", "f16")
    tensor = Layout((64, 64), (64, 1))
    for thr in (3, 90):
        same = make_tiled_copy_D(single, ldmatrix).get_slice(thr).partition_S(tensor)
        assert list(same.elements()) == list(ldmatrix.get_slice(thr).partition_D(tensor).elements())
        same = make_tiled_copy_S(single, ldmatrix).get_slice(thr).partition_D(tensor)
        assert list(same.elements()) == list(ldmatrix.get_slice(thr).partition_S(tensor).elements())


def test_get_thread_slice__is_get_slice() -> None:
    mma = make_tiled_mma(ATOM, (2, 1, 1))
    copy = make_tiled_copy_C(copy_atom("UniversalCopy<uint32_t>", "f32"), mma)
    assert mma.get_thread_slice(33) == mma.get_slice(33)
    assert copy.get_thread_slice(33) == copy.get_slice(33)
    assert [tile_size(mma, mode) for mode in range(3)] == list(mma.tile_shape_mnk)


def test_partition_fragment_C__needs_only_a_shape() -> None:
    mma = make_tiled_mma(ATOM, (2, 2, 1))
    fragment = partition_fragment_C(mma, (64, 32))
    assert fragment == mma.get_slice(0).partition_fragment_C(Layout((64, 32), (32, 1)))


# ---- at the edge of a tensor ----


def test_partition__of_a_tensor_smaller_than_the_atoms_is_that_of_the_dsl() -> None:
    """Four atoms along M, and 16 rows: all share them; with a tile given, the third goes over the edge."""
    case = {
        "case": "small",
        "kind": "tiled_mma",
        "op": ATOM,
        "atom_layout": "(4,1,1):(1,4,4)",
        "permutation": [None, None, None],
        "a": "(16,16)",
        "b": "(8,16)",
        "c": "(16,8)",
        "slices": [64],
    }
    tiled = {**case, "permutation": [64, None, None]}
    for asked, offset in ((case, (0, 0)), (tiled, (32, 0))):
        ((status, said),) = ask_dsl([asked])
        assert status == "ok"
        assert differences(answer(asked), said, "dsl") == []
        assert answer(asked)["c@64"].offset == offset


def test_partition__of_a_tensor_that_tiles_do_not_divide_reaches_over_the_edge() -> None:
    mma = make_tiled_mma(ATOM, (2, 1, 1))
    part = mma.get_slice(0).partition_C(make_identity_layout((33, 8)))
    assert part.shape == ((2, 2), 2, 1)
    assert max(row for row, _ in part.elements()) == 40
    with pytest.raises(PartitionError, match=r"M = 33 .* cover 32: neither divides the other"):
        mma.partition_shape_C((33, 8))


def test_partition_shape__is_the_shape_of_the_partition_where_no_tile_is_permuted() -> None:
    mma = make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16))
    assert mma.partition_shape_A((64, 64, 3)) == ((2, 2, 2), 2, 4, 3)
    assert mma.partition_shape_A((64, 64, 3)) == mma.get_slice(0).partition_A(Layout((64, 64, 3))).shape
    assert mma.partition_shape_B((64, 64)) == mma.get_slice(0).partition_B(Layout((64, 64))).shape
    assert mma.partition_shape_C((64, 32)) == mma.get_slice(0).partition_C(Layout((64, 32))).shape


# ---- explanations ----


def test_explain_partition__ends_in_the_partition() -> None:
    thr = make_tiled_mma(ATOM, (2, 2, 1), (32, 32, 16)).get_slice(33)
    tensor = Layout((64, 64), (64, 1))
    for operand, expected in (("A", thr.partition_A(tensor)), ("C", thr.partition_C(tensor))):
        explanation = explain_partition(thr, operand, tensor)
        assert explanation.result == expected
        assert [step.rule for step in explanation.steps] == [
            "permute", "atom", "thread-value", "threads", "result", "slice", "result",
        ]  # fmt: skip
        assert dict(explanation.steps[-1].values)["result"] == str(expected)
        snapshot = explanation.to_snapshot()
        assert len(snapshot["steps"]) == 7
        whole = explain_partition(thr, operand, tensor, whole=True)
        assert len(whole.steps) > len(explanation.steps)
        assert whole.result == expected
    assert explain(partition, thr.tiled_mma, "A", tensor, 33).result == thr.partition_A(tensor)


def test_explain_partition__of_a_copy_tells_its_steps() -> None:
    mma = make_tiled_mma(ATOM)
    thr = make_tiled_copy_A(copy_atom("SM75_U32x4_LDSM_N", "f16"), mma).get_slice(5)
    tensor = Layout((16, 16), (16, 1))
    explanation = explain_partition(thr, "S", tensor)
    assert explanation.result == thr.partition_S(tensor)
    rules = [step.rule for step in explanation.steps]
    assert rules == ["tile", "atom", "split", "thread-value", "result", "slice", "result"]


@pytest.mark.parametrize("name", [ATOM, "SM80_16x8x32_S32S8S8S32_TN", "SM80_16x8x8_F32TF32TF32F32_TN"])
def test_explain_owner__and_explain_cell_agree(name: str) -> None:
    atom = mma_atom(name)
    for operand in ("A", "B", "C"):
        rows, columns = atom.operand_shape(operand)
        for cell in ((0, 0), (rows - 1, columns - 1), (rows // 2, columns // 3)):
            owner = explain_owner(atom, operand, cell)
            values = {k: v for step in owner.steps for k, v in step.values}
            assert values["inverse"](values["index"]) == values["thread"] + atom.threads * values["value"]
            back = explain_cell(atom, operand, values["thread"], values["value"])
            assert back.result == cell
            told = {k: v for step in back.steps for k, v in step.values}
            assert told["index"] == values["index"]
            assert (told["register"], told["part"]) == (values["register"], values["part"])


# ---- tensors ----


def test_tensor__slices_as_its_elements_lie() -> None:
    for layout in (
        Layout((4, (2, 8)), (16, (8, 1))),
        ComposedLayout(Swizzle(2, 0, 3), 0, Layout((4, 16), (16, 1))),
        make_identity_layout((4, 16)),
    ):
        tensor = LayoutTensor(layout) if not isinstance(layout, Layout) else LayoutTensor(layout, 0)
        column = tensor(None, 5)
        assert [column(i) for i in range(4)] == [tensor(i, 5) for i in range(4)]
        assert list(tensor.elements()) == [tensor(*crd) for crd in tensor.coords()]


# ---- refusals ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_tiled_mma(ATOM, (2, 2, 1)).get_slice(128), "threads 0 to 127 .* is no thread 128"),
        (lambda: make_tiled_mma(ATOM).get_slice(-1), "there is no thread -1"),
        (lambda: make_tiled_mma(ATOM, (1, 1, 1, 1)), "must not have more than three"),
        (lambda: make_tiled_mma(ATOM).get_slice(0).partition_A(Layout(16, 1)), "at least two modes, .M, K."),
        (
            lambda: make_tiled_mma(ATOM).get_slice(0).partition_A(Layout(((3, 5), 16), ((5, 1), 15))),
            "the tensor .* cannot be cut into tiles of 16 x 16",
        ),
        (lambda: make_tiled_mma(ATOM).partition_shape_A(16), "at least two modes"),
        (
            lambda: make_tiled_copy(copy_atom("SM75_U32x4_LDSM_N", "f16"), Layout((16, 1)), Layout((1, 8))),
            "uses too few thrs",
        ),
        (
            lambda: make_tiled_copy(
                copy_atom("UniversalCopy<uint64_t>", "u8"), Layout((32, 1)), Layout((1, 4))
            ),
            "copies with 8 values of u8 at a time",
        ),
        (
            lambda: make_tiled_copy(BYTE, Layout((32, 1)), Layout((1, 8)))
            .get_slice(0)
            .partition_S(Layout(64)),
            "has 1 modes and the tiled copy's tile has 2",
        ),
        (
            lambda: make_tiled_copy(BYTE, Layout((4, 8)), Layout((1, 8))).get_slice(32),
            "there is no thread 32",
        ),
        (
            lambda: make_cotiled_copy(
                copy_atom("UniversalCopy<uint16_t>", "f16"), Layout((32, 4), (4, 1)), Layout((8, 8), (16, 2))
            ),
            "does not exist in the data_layout",
        ),
    ],
)  # fmt: skip
def test_tilings__refuse_with_the_operands_and_the_rule(call: Callable[[], object], message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        call()


def test_make_tiled_copy_impl__takes_the_layouts_as_given() -> None:
    layout = Layout((32, 4), (4, 1))
    copy = make_tiled_copy_impl(BYTE, layout, (128,))
    assert copy.layout_tv == layout
    assert copy.size == 32
    assert copy.values == 4
