"""TmaBox's JavaScript against `cutecourse.tma`: layouts, boxes, fields, verdicts, every element's place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from cutecourse.layout import ComposedLayout, Layout, LayoutError, Swizzle, tile_to_shape, upcast
from cutecourse.tma import TmaError, TmaTrace, cpp_str, dynamic, smem_image, tma_coords, trace_tma_atom

pytestmark = pytest.mark.browser

# CUTLASS's canonical atoms in bits: include/cute/atom/mma_traits_sm90_gmma.hpp.
ATOM_BITS = {"none": (0, 128), "32B": (1, 256), "64B": (2, 512), "128B": (3, 1024)}
BITS = {"u8": 8, "f16": 16, "f32": 32, "f64": 64}
DRIVERS = {
    "address",
    "dims",
    "stride_multiple",
    "box",
    "inner_multiple",
    "swizzle_span",
    "element_strides",
    "box_bytes",
    "rank",
}
TILES = ((128, 64), (64, 128), (32, 32), (8, 16), (256, 16), (24, 40), (512, 8), (6, 64), (256, 128), (1, 1))

DESCRIBE = """return x.map((given) => {
  const all = m.describe(given);
  const rules = m.rulesOf(all);
  const { fields, notation, boxDim, instructions, box_bytes, tile_bytes } = all;
  return { fields, notation, boxDim, instructions, box_bytes, tile_bytes,
           broken: rules.filter((r) => r.ok === false).map((r) => r.id),
           refusal: m.refusal(rules)?.id ?? null };
});"""


def shared(case: dict[str, Any]) -> Layout | ComposedLayout:
    """The shared-memory layout, from CUTLASS's atoms in bits."""
    swizzle_bits, atom_bits = ATOM_BITS[case["swizzle"]]
    k_major = case["smem_major"] == "K"
    if case["smem_layout"] == "plain":
        rows, columns = case["tile"]
        outer = Layout((rows, columns), (columns, 1) if k_major else (1, rows))
    else:
        in_bits = (
            Layout((8, atom_bits), (atom_bits, 1)) if k_major else Layout((atom_bits, 8), (1, atom_bits))
        )
        atom = upcast(in_bits, BITS[case["dtype"]])
        if any(extent % side for extent, side in zip(case["tile"], atom.shape, strict=True)):
            raise LayoutError("the atom does not divide the tile")
        outer = tile_to_shape(atom, tuple(case["tile"]))
    return ComposedLayout(Swizzle(swizzle_bits, 4, 3), 0, outer)


def traced(case: dict[str, Any]) -> TmaTrace:
    """What CuTe makes of a case whose sizes are arguments of the program; the driver is not asked."""
    (m, k), pad = case["extents"], case["padding"]
    gtensor = dynamic(Layout((m, k), (k + pad, 1) if case["major"] == "K" else (1, m + pad)))
    return trace_tma_atom(
        gtensor, shared(case), tuple(case["tile"]), case["dtype"], case["multicast"], check=False
    )


def choices() -> list[dict[str, Any]]:
    """Every value of every control with a few tensors and tiles, majors that differ in some."""
    rng = random.Random(3)
    names = ("dtype", "smem_layout", "swizzle", "multicast", "tile", "major")
    grid = product(BITS, ("atoms", "plain"), ATOM_BITS, (1, 2, 4), TILES, ("K", "MN"))
    cases = []
    for values in grid:
        case = dict(zip(names, values, strict=True))
        case["smem_major"] = case["major"] if rng.random() < 0.9 else rng.choice(("K", "MN"))
        case["extents"] = [rng.choice((64, 128, 200, 257, 300, 512)), rng.choice((64, 96, 120, 256, 500))]
        case["padding"] = rng.choice((0, 0, 0, 3, 4, 12))
        case["address"] = rng.choice((0, 0, 0, 0, 16, 8, 4))
        case["tile"] = list(case["tile"])
        tiles = [-(-extent // side) for extent, side in zip(case["extents"], case["tile"], strict=True)]
        case["coord"] = [rng.randrange(n) for n in tiles]
        cases.append(case)
    return cases


@pytest.fixture(scope="module")
def described(javascript: Callable[..., Any]) -> list[tuple[dict[str, Any], TmaTrace | str, dict[str, Any]]]:
    """Each case with CuTe's trace (or the rule that refused it) and with what the widget says."""
    cases = choices()
    found = javascript("tma_box.js", DESCRIBE, cases)
    result: list[tuple[dict[str, Any], TmaTrace | str, dict[str, Any]]] = []
    for case, js in zip(cases, found, strict=True):
        reference: TmaTrace | str
        try:
            reference = traced(case)
        except LayoutError:
            reference = "atom"
        except TmaError as error:
            reference = error.rule
        result.append((case, reference, js))
    return result


def test_describe__the_same_layouts_fields_and_counts(described: Any) -> None:
    compared = 0
    for case, trace, js in described:
        if isinstance(trace, str):
            continue
        encoding = trace.encoding
        assert js["fields"] == {
            "tensorDataType": encoding.tma_format,
            "tensorRank": encoding.rank,
            "globalAddress": case["address"],
            "globalDim": list(encoding.dims),
            "globalStrides": list(encoding.strides_bytes),
            "boxDim": list(encoding.box),
            "elementStrides": list(encoding.element_strides),
            "interleave": encoding.interleave,
            "swizzle": encoding.swizzle,
            "l2Promotion": encoding.l2_promotion,
            "oobFill": encoding.oob_fill,
        }, case
        assert js["notation"]["inv_smem_layout"] == str(trace.inv_smem_layout), case
        for name in ("sidx2gmode_full", "tma_gbasis"):
            assert js["notation"][name] == cpp_str(getattr(trace, name)).replace("_", ""), (case, name)
        assert (js["instructions"], js["box_bytes"], js["tile_bytes"]) == (
            trace.instructions,
            encoding.box_bytes,
            trace.tile_bytes,
        ), case
        compared += 1
    assert compared >= 500


def test_rules__the_same_verdicts_as_cute_and_the_driver(described: Any) -> None:
    seen: Counter[str] = Counter()
    for case, trace, js in described:
        broken = set(js["broken"])
        seen.update(broken or {"holds"})
        assert ("shared" in broken) == (js["tile_bytes"] > 227 * 1024)
        if isinstance(trace, str):
            assert trace in broken, case
            assert js["refusal"] in {trace, "majorness"}, case
            continue
        assert not broken & {"atom", "vectorization", "multicast_divides"}, case
        violations = [error.rule for error in trace.violations(case["address"])]
        assert broken & {"majorness", *DRIVERS} == set(violations), case
        if violations:
            assert js["refusal"] == violations[0], case
        inner = trace.encoding.box[0] * BITS[case["dtype"]] // 8
        span = {"none": 0, "32B": 32, "64B": 64, "128B": 128}[case["swizzle"]]
        assert ("filled" in broken) == (inner < span), case
        boxes = trace.tile_bytes // trace.encoding.box_bytes
        assert ("aligned" in broken) == (boxes > 1 and trace.encoding.box_bytes % 128 != 0), case
    for rule in (
        *("holds", "atom", "address", "majorness", "stride_multiple", "multicast_divides", "box"),
        *("inner_multiple", "swizzle_span", "filled", "aligned", "shared", "vectorization"),
    ):
        assert seen[rule] >= 5, (rule, seen)


def test_shared_memory__every_element_where_cutes_layout_puts_it(
    described: Any, javascript: Callable[..., Any]
) -> None:
    good = [(case, trace) for case, trace, js in described if js["refusal"] is None]
    chosen = random.Random(4).sample(good, 120)
    found = javascript(
        "tma_box.js",
        """return x.map((given) => {
          const all = m.describe(given);
          const held = [];
          for (let c = 0; c < all.tile_bytes / 16; c += 1) {
            const { at, inner, count, valid } = m.chunkAt(all, c, given.coord);
            for (let e = 0; e < count; e += 1) {
              const crd = [at[0] + (inner === 0 ? e : 0), at[1] + (inner === 1 ? e : 0)];
              held.push(e < valid ? crd[0] * given.extents[1] + crd[1] + 1 : 0);
            }
          }
          return held;
        });""",
        [case for case, _ in chosen],
    )
    for (case, trace), held in zip(chosen, found, strict=True):
        assert np.array_equal(held, _numbers_in_shared_memory(case, trace)), case
    assert any(0 in held for held in found)
    ends = [case["extents"][case["major"] == "K"] * BITS[case["dtype"]] // 8 for case, _ in chosen]
    assert any(end % 16 for end in ends)  # of some, the tensor ends within 16 bytes
    assert len({(c["dtype"], c["smem_layout"], c["swizzle"], c["major"]) for c, _ in chosen}) >= 30


def _numbers_in_shared_memory(case: dict[str, Any], trace: TmaTrace) -> Any:
    """The number of each element of the tensor (from 1) in the order of shared memory; 0 from outside."""
    m, k = case["extents"]
    numbers = np.arange(1, m * k + 1, dtype=np.uint64).reshape(m, k)
    width = BITS[case["dtype"]]
    held = 0
    for shift in range(0, 24, min(width, 24)):  # narrow elements hold a number in several parts
        part = (numbers >> np.uint64(shift)).astype(f"uint{width}")
        image = smem_image(trace, part, tuple(case["coord"])).view(f"uint{width}").astype(np.int64)
        held = held + (image << shift)
    return held


def test_place__of_an_element_and_the_element_at_a_place_are_inverse(
    described: Any, javascript: Callable[..., Any]
) -> None:
    good = [case for case, _, js in described if js["refusal"] is None]
    found = javascript(
        "tma_box.js",
        """return x.map((given) => {
          const all = m.describe(given);
          for (let i = 0; i < given.tile[0]; i += 3)
            for (let j = 0; j < given.tile[1]; j += 5) {
              const [a, b] = m.elementAt(all, m.byteOf(all, i, j));
              const { box } = m.chunkAt(all, m.chunkOf(all, i, j), given.coord);
              const { start } = m.boxAt(all, box, given.coord);
              const sides = [0, 1].map((mode) => all.boxDim[all.order.indexOf(mode)]);
              const inside = [i, j].every((at, mode) => at >= start[mode] && at < start[mode] + sides[mode]);
              if (a !== i || b !== j || !inside) return [i, j];
            }
          return null;
        });""",
        random.Random(5).sample(good, 80),
    )
    assert found == [None] * 80


def test_boxes__the_instructions_and_coordinates_of_tma_partition(
    described: Any, javascript: Callable[..., Any]
) -> None:
    good = [(case, trace) for case, trace, js in described if js["refusal"] is None]
    chosen = random.Random(6).sample(good, 100)
    found = javascript(
        "tma_box.js",
        """return x.map((given) => {
          const all = m.describe(given);
          return Array.from({ length: all.boxes }, (_, b) => m.boxAt(all, b, given.coord));
        });""",
        [case for case, _ in chosen],
    )
    several = 0
    for (case, trace), boxes in zip(chosen, found, strict=True):
        said = {(one["cta"], one["instruction"]): (tuple(one["coordinates"]), one["byte"]) for one in boxes}
        per_cta: Counter[int] = Counter()
        for one in tma_coords(trace, tuple(case["coord"])):
            key = (one.multicast_id, per_cta[one.multicast_id])
            per_cta[one.multicast_id] += 1
            assert said.pop(key) == (one.coords, one.smem_offset_bytes), (case, key)
        assert said == {}, case
        several += len(boxes) > 1
    assert several >= 40


def test_tile__past_the_tensor_is_all_zeros(javascript: Callable[..., Any]) -> None:
    case = {
        "extents": [64, 64],
        "major": "K",
        "dtype": "f16",
        "padding": 0,
        "address": 0,
        "tile": [32, 64],
        "smem_layout": "atoms",
        "smem_major": "K",
        "swizzle": "128B",
        "multicast": 1,
    }
    valid = javascript(
        "tma_box.js",
        """const all = m.describe(x);
           const valid = (coord) => Array.from({ length: 256 }, (_, c) => m.chunkAt(all, c, coord).valid);
           return [[1, 0], [2, 0], [0, 1]].map(valid);""",
        case,
    )
    assert [set(each) for each in valid] == [{8}, {0}, {0}]
