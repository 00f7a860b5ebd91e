"""ClusterMasks without a browser: what it takes, what it refuses, what its figure says."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from cutecourse import tma
from cutecourse.layout import Layout, make_layout, tiled_divide
from cutecourse.widgets import ClusterMasks, WidgetError, draw_cluster_masks
from cutecourse.widgets.clusters import cluster_layout, cta_masks

SHAPES = [(m, n) for m in range(1, 17) for n in range(1, 17) if m * n <= 16]


def by_hand(m: int, n: int, v: int, rank: int) -> tuple[tuple[int, ...], dict[str, set[int]]]:
    """A CTA's coordinate and masks from what they are for: who needs the same data, and who is told.

    The MMA of pair (or CTA) `i, j` reads rows i of A and columns j of B. A CTA holds part `x % v` of the
    pair's A and of its B, so it shares A with the CTAs of the same part and i, and B with those of the same
    part and j. A commit goes to every CTA that sends to either CTA of the pair.
    """
    ctas = {r: (r % m % v, r % m // v, r // m) for r in range(m * n)}
    part, i, j = ctas[rank]
    shared_a = {r for r, (p, a, _) in ctas.items() if (p, a) == (part, i)}
    shared_b = {r for r, (p, _, b) in ctas.items() if (p, b) == (part, j)}
    pair = [r for r, (_, a, b) in ctas.items() if (a, b) == (i, j)]
    senders = {r for r, (p, a, b) in ctas.items() for q in pair if p == ctas[q][0] and (a == i or b == j)}
    return (part, i, j, 0), {"A": shared_a, "B": shared_b, "C": senders}


@pytest.mark.parametrize("v", [1, 2])
def test_cta_masks__are_those_who_need_the_same_data(v: int) -> None:
    seen = 0
    for m, n in SHAPES:
        if m % v:
            continue
        for rank in range(m * n):
            crd, sets = by_hand(m, n, v, rank)
            found = cta_masks((m, n), v, rank)
            assert found.crd == crd, (m, n, rank)
            assert {letter: set(ranks) for letter, ranks in found.ranks.items()} == sets, (m, n, v, rank)
            seen += 1
    assert seen == sum(m * n for m, n in SHAPES if m % v == 0)


@pytest.mark.parametrize("v", [1, 2])
def test_cta_masks__are_those_of_create_tma_multicast_mask(v: int) -> None:
    for m, n in SHAPES:
        if m % v:
            continue
        layout = tma.make_cluster_layout_vmnk((m, n, 1), v)
        assert layout == cluster_layout((m, n), v)
        for rank in range(m * n):
            found = cta_masks((m, n), v, rank)
            crd = found.crd
            assert found.mask("A") == tma.create_tma_multicast_mask(layout, crd, 2)
            assert found.mask("B") == tma.create_tma_multicast_mask(layout, crd, 1)
            commit = tma.create_tma_multicast_mask(layout, crd, 0, 1)
            assert found.mask("C") == commit | tma.create_tma_multicast_mask(layout, crd, 0, 2)


def test_cta_masks__of_cutlass_example_03() -> None:
    # The masks that CUTLASS's examples/cute/tutorial/blackwell/03_mma_tma_multicast_sm100.cu names in its
    # comments for one CTA of the 4x4 cluster, the one at M 1 and N 2.
    found = cta_masks((4, 4), 1, 9)
    assert found.crd == (0, 1, 2, 0)
    assert [found.mask(letter) for letter in "ABC"] == [0x2222, 0x0F00, 0x2F22]


def test_layout__is_the_tiled_divide() -> None:
    assert ClusterMasks((4, 4), thr_id=2).layout == tiled_divide(make_layout((4, 4, 1)), (2,))
    assert str(ClusterMasks((4, 4), thr_id="2:1").layout) == "((2),2,4,1):((1),2,4,0)"
    assert ClusterMasks((4, 4, 1), thr_id=Layout(1, 0)).thr_id == 1
    assert ClusterMasks((2, 2), thr_id=2).tile == [256, 256, 64]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cluster": (8, 4)}, "has 32 CTAs; a cluster has at most 16"),
        ({"cluster": (0, 4)}, "at least 1"),
        ({"cluster": (4,)}, "two extents"),
        ({"cluster": 4}, "two extents"),
        ({"cluster": (3, 2), "thr_id": 2}, "the pairs lie along M, and 3 is odd"),
        ({"thr_id": 3}, "on one SM"),
        ({"thr_id": "4:1"}, "on one SM"),
        ({"thr_id": "2:2"}, "1:0 .one SM. or 2:1"),
        ({"thr_id": "two"}, "write 1, 2"),
        ({"cta": 16}, "ranks go from 0 to 15"),
        ({"tile": (128, 256)}, "three extents"),
        ({"tile": (1, 256, 1), "cluster": (1, 2)}, "1 elements of A in a CTA cannot be cut into 2"),
        ({"tile": (127, 256, 64), "thr_id": 2}, "share its M of 127"),
        ({"tile": (4, 4, 1), "dtype": "s4"}, "whole number of bytes"),
        ({"dtype": "f17"}, "f17"),
        ({"shown": "D"}, "A, B, or C"),
    ],
)
def test_cluster_masks__refuses_in_words(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WidgetError, match=message):
        ClusterMasks(**arguments)


def test_cluster_masks__undoes_what_cannot_be() -> None:
    widget = ClusterMasks((4, 4))
    for name, value in (("cluster", [5, 4]), ("thr_id", 4), ("shown", "X")):
        with pytest.raises(WidgetError):
            setattr(widget, name, value)
    assert (widget.cluster, widget.thr_id, widget.shown) == ([4, 4], 1, "A")


def test_repr__says_what_is_shown() -> None:
    assert repr(ClusterMasks((4, 2), thr_id=2, cta=5)) == "ClusterMasks((4, 2), thr_id=2, cta=5)"
    assert "tile=(64, 64, 64)" in repr(ClusterMasks((1, 1), tile=(64, 64, 64), dtype="bf16"))


def test_figure__marks_the_ctas_of_each_mask_and_prints_its_bits() -> None:
    for (m, n), v in product([(4, 4), (2, 1), (16, 1), (1, 16)], [1, 2]):
        if m % v:
            continue
        _, sets = by_hand(m, n, v, m * n - 1)
        for axes, letter in zip(draw_cluster_masks((m, n), v, m * n - 1).axes, "ABC", strict=True):
            words = [text.get_text() for text in axes.texts]
            assert {int(word[:-1]) for word in words if word.endswith("✓")} == sets[letter]
            mask = sum(1 << rank for rank in sets[letter])
            assert f"0x{mask:04X}" in words
            assert f"{mask:016b}" in [re.sub(" ", "", word) for word in words]
