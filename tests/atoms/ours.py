"""What `cutecourse.atoms` says of a case, and how it is compared with what an oracle printed."""

from collections.abc import Callable
from typing import Any, Literal

from cutecourse.atoms import (
    LayoutTensor,
    PartitionError,
    TiledCopy,
    copy_atom,
    make_cotiled_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_mma,
)
from cutecourse.layout import ComposedLayout, Layout, coalesce, make_identity_layout, make_layout, size


def layout_of(text: str) -> Any:
    if ":" not in text:
        return make_identity_layout(eval(text))
    return Layout.parse(text)


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Our answers under the oracles' keys, as objects; {"refused": message} where we refuse."""
    try:
        if case["kind"] == "retile":
            return {"retile": tiled_copy_of(case).retile(Layout.parse(case["fragment"])).layout}
        return _mma(case) if case["kind"] == "tiled_mma" else _copy(case)
    except PartitionError as error:
        return {"refused": str(error)}


def _tiled_mma(case: dict[str, Any]) -> Any:
    tiles = tuple(Layout.parse(t) if isinstance(t, str) else t for t in case["permutation"])
    mma = make_tiled_mma(case["op"], Layout.parse(case["atom_layout"]), tiles)
    if case.get("case", "").startswith("edge"):
        # at the edge of a tensor C++ takes a tile of the size that the atoms cover where none is given
        mma = make_tiled_mma(case["op"], mma.atom_layout_mnk, tuple(mma.permutation(i) for i in range(3)))
    return mma


def _mma(case: dict[str, Any]) -> dict[str, Any]:
    mma = _tiled_mma(case)
    a, b, c = (layout_of(case[o]) for o in "abc")
    said: dict[str, Any] = {
        "thr_layout_vmnk": mma.thr_layout_vmnk,
        "tile_shape": mma.tile_shape_mnk,
        "layout_a_tv": mma.get_layoutA_TV(),
        "layout_b_tv": mma.get_layoutB_TV(),
        "layout_c_tv": mma.get_layoutC_TV(),
        "thrfrg_a": mma.thrfrg_A(a),
        "thrfrg_b": mma.thrfrg_B(b),
        "thrfrg_c": mma.thrfrg_C(c),
        "shape_a": _shape(mma.partition_shape_A, a),
        "shape_b": _shape(mma.partition_shape_B, b),
        "shape_c": _shape(mma.partition_shape_C, c),
        "fragment_a": mma.get_slice(0).partition_fragment_A(a),
        "fragment_b": mma.get_slice(0).partition_fragment_B(b),
        "fragment_c": mma.get_slice(0).partition_fragment_C(c),
    }
    for thread in case["slices"]:
        thr = mma.get_slice(thread)
        said[f"a@{thread}"] = thr.partition_A(a)
        said[f"b@{thread}"] = thr.partition_B(b)
        said[f"c@{thread}"] = thr.partition_C(c)
    return said


def _shape(partition_shape: Callable[[Any], Any], layout: Any) -> Any:
    try:
        return partition_shape(layout.shape)
    except PartitionError:
        return "refused"


def tiled_copy_of(case: dict[str, Any]) -> TiledCopy:
    if case["kind"] == "side_copy":
        make_side = {"s": make_tiled_copy_S, "d": make_tiled_copy_D}[case["side"]]
        return make_side(copy_atom(case["op"], case["dtype"]), tiled_copy_of(case["base"]))
    if case["kind"] in ("mma_copy", "retile"):
        make = {
            "a": make_tiled_copy_A,
            "b": make_tiled_copy_B,
            "c": make_tiled_copy_C,
            "C_atom": make_tiled_copy_C_atom,
        }[case["operand"]]
        return make(copy_atom(case["copy"], case["dtype"]), _tiled_mma(case))
    atom = copy_atom(case["op"], case["dtype"])
    if case["kind"] == "tiled_copy":
        return make_tiled_copy(atom, Layout.parse(case["thr"]), Layout.parse(case["val"]))
    return make_cotiled_copy(atom, Layout.parse(case["atom_tv"]), Layout.parse(case["data"]))


def _copy(case: dict[str, Any]) -> dict[str, Any]:
    copy = tiled_copy_of(case)
    s, d = (layout_of(case.get(side, case.get("tensor"))) for side in "sd")
    said: dict[str, Any] = {
        "tiler_mn": copy.tiler_mn,
        "layout_tv": copy.layout_tv,
        "layout_s_tv": copy.get_layoutS_TV(),
        "layout_d_tv": copy.get_layoutD_TV(),
        "tidfrg_s": copy.tidfrg_S(s),
        "tidfrg_d": copy.tidfrg_D(d),
    }
    for thread in case["slices"]:
        said[f"s@{thread}"] = copy.get_slice(thread).partition_S(s)
        said[f"d@{thread}"] = copy.get_slice(thread).partition_D(d)
    if case["kind"] == "mma_copy" and case["operand"] != "C_atom":
        thr = _tiled_mma(case).get_slice(0)
        fragment = {
            "a": thr.partition_fragment_A,
            "b": thr.partition_fragment_B,
            "c": thr.partition_fragment_C,
        }[case["operand"]](s)
        said["retile"] = copy.retile(fragment).layout
    return said


# ---- comparing ----


def differences(
    said: dict[str, Any], expected: dict[str, str], oracle: Literal["cutlass", "dsl"]
) -> list[str]:
    """Each key of the oracle's answer that ours contradicts; empty when they agree."""
    if ("refused" in said) != ("refused" in expected):
        return [
            f"refused: ours {said.get('refused', 'accepts')}; oracle {expected.get('refused', 'accepts')}"
        ]
    if "refused" in said:
        return []
    wrong = []
    swizzled = {k[0] for k, v in said.items() if "@" in k and isinstance(v.layout, ComposedLayout)}
    for key, text in expected.items():
        if key.startswith("shape_") and oracle == "cutlass":
            # C++ gives the shape of the partition, which nests a permuted tile's repetitions and rounds up
            ours = said[f"{key[-1]}@0"].shape
            if _extents(_ints(text)) != _extents(ours):
                wrong.append(f"{key}: ours {ours}; oracle {text}")
            continue
        if key.startswith("fragment_") and key[-1] in swizzled:
            continue  # it follows how C++ writes a slice of a swizzled layout, and several ways are right
        if key.startswith("thrfrg_") and oracle == "cutlass":
            # a nested atom layout stays nested here and in the DSL; C++ flattens it
            if _flat_atoms(Layout.parse(text)) != _flat_atoms(said[key]):
                wrong.append(f"{key}: ours {said[key]}; oracle {text}")
            continue
        where, _, what = key.partition(".")
        ours = said[where]
        if not _agrees(ours, what, text, expected, where):
            wrong.append(f"{key}: ours {_shown(ours)}; oracle {text}")
    return wrong


def _shown(value: Any) -> str:
    return str(value)


def _flat_atoms(layout: Layout) -> Layout:
    thread, (x, y) = layout[0]
    return make_layout(make_layout(thread, make_layout(coalesce(x), coalesce(y))), layout[1])


def _agrees(ours: Any, what: str, text: str, expected: dict[str, str], where: str) -> bool:
    if what == "addresses":
        return bool([int(a) for a in text.split()] == list(ours.elements()))
    if what == "shape":
        return _extents(_ints(text)) == _extents(ours.shape)
    if what == "offset":
        return isinstance(ours.layout, ComposedLayout) or bool(_offset(text) == ours.offset)
    if what == "layout":
        theirs = Layout.parse(text)
        if isinstance(ours.layout, ComposedLayout) or isinstance(theirs, ComposedLayout):
            tensor = LayoutTensor(theirs, _offset(expected[f"{where}.offset"]))
            return list(tensor.elements()) == list(ours.elements())
        return bool(theirs == ours.layout)
    if isinstance(ours, Layout):
        return bool(Layout.parse(text) == ours)
    if ":" in text:
        return _tiler(text) == [t if isinstance(t, Layout) else Layout(t) for t in ours]
    return text == ours if "refused" in (text, ours) else bool(_ints(text) == ours)


def _ints(text: str) -> Any:
    return eval(text.replace("_", ""))


def _offset(text: str) -> Any:
    return _ints(text.replace("ArithTuple", ""))


def _extents(shape: Any) -> list[int]:
    return [int(size(mode)) for mode in shape]


def _tiler(text: str) -> list[Any]:
    parts, depth, current = [], 0, ""
    for character in text[1:-1]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    # an integer n in a tiler is the layout n:1 (1:0 for n = 1)
    return [Layout.parse(p) if ":" in p else Layout(_ints(p)) for p in parts]
