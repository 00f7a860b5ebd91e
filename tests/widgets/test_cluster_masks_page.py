"""ClusterMasks in Chromium: its arithmetic against Python for every cluster, and clicks, keys and words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from widgets.parts import cc
from widgets.test_cluster_masks import SHAPES, by_hand

from cutecourse.widgets import ClusterMasks
from cutecourse.widgets._bundle import module
from cutecourse.widgets.clusters import cluster_layout, cta_masks

pytestmark = pytest.mark.browser

DESCRIBE = """async ([code, cases]) => {
  const { _math: m } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  return cases.map(([cluster, v, tile]) => {
    const layout = m.clusterLayout(cluster, v);
    const ranks = Array.from({ length: cluster[0] * cluster[1] }, (_, r) => r);
    const all = ranks.map((r) => m.describe(cluster, v, r, tile, 16));
    return { notation: m.formatLayout(layout), ranks: all.map((a) => m.rankAt(layout, a.crd)), all };
  });
}"""


def test_masks__javascript_agrees_with_python_for_every_cluster_and_cta(page: Any) -> None:
    k = math.lcm(*range(1, 17))  # that every number of CTAs can cut
    cases = [[[m, n], v, [256, 512, k]] for m, n in SHAPES for v in (1, 2) if m % v == 0]
    page.goto("about:blank")
    found = page.evaluate(DESCRIBE, [module("cluster_masks.js"), cases])
    for ((m, n), v, (tile_m, tile_n, tile_k)), js in zip(cases, found, strict=True):
        assert js["notation"] == str(cluster_layout((m, n), v))
        assert js["ranks"] == list(range(m * n))
        committed: dict[int, list[int]] = {rank: [] for rank in range(m * n)}
        landed = dict.fromkeys(range(m * n), 0)
        for rank, one in enumerate(js["all"]):
            python = cta_masks((m, n), v, rank)
            crd, sets = by_hand(m, n, v, rank)
            assert tuple(one["crd"]) == python.crd == crd
            assert one["masks"] == {letter: python.mask(letter) for letter in "ABC"}
            assert one["masks"] == {letter: sum(1 << r for r in sets[letter]) for letter in "ABC"}
            if crd[0] == 0:
                for receiver in sets["C"]:
                    committed[receiver].append(rank)
            # Every multicast of this CTA's slices adds to what lands at its receivers; a pair's bytes are
            # counted together, at its leader.
            for letter, mode in (("A", 2), ("B", 1)):
                assert one["slice"][letter] == crd[mode]
                for receiver in sets[letter]:
                    landed[receiver - receiver % v] += one["parts"][letter]["slice_bytes"]
                    assert js["all"][receiver]["sources"][letter][crd[mode]] == rank
            assert one["parts"]["A"]["bytes"] == tile_m // v * tile_k * 2
            assert one["parts"]["B"]["bytes"] == tile_n // v * tile_k * 2
        assert [one["arrivals"] for one in js["all"]] == list(committed.values())
        assert [one["expected_bytes"] for one in js["all"]] == list(landed.values())


def test_page__a_click_chooses_a_cta_and_says_who_sends_what(mount: Any) -> None:
    page = mount(ClusterMasks((4, 4)))
    cc(page, "cta", rank=9).click()
    # What CUTLASS's example 03 names in its comments for this CTA of the same cluster.
    assert [cc(page, "mask", letter=letter).inner_text() for letter in "ABC"] == [
        "0x2222",
        "0x0F00",
        "0x2F22",
    ]
    assert cc(page, "crd").inner_text() == "(0,1,2,0)"
    assert cc(page, "slice").first.get_attribute("data-from") == "1"
    words = cc(page, "state").inner_text()
    assert "slice 2 of 4" in words
    assert "CTAs 1, 5 and 13" in words
    assert "slice 0 from CTA 1, slice 1 from CTA 5, slice 3 from CTA 13" in words
    assert cc(page, "expected").inner_text() == str((128 * 64 + 256 * 64) * 2)
    inside = cc(page, "cta", inside="yes").evaluate_all("all => all.map((c) => +c.dataset.rank)")
    assert sorted(inside) == [1, 5, 9, 13]
    cc(page, "show", letter="C").click()
    assert page.evaluate("document.activeElement.dataset.letter") == "C"  # the focus stays
    assert cc(page, "arrivals").inner_text() == "7"
    assert cc(page, "cta", inside="yes").count() == 7
    lit = page.locator('.cc-shown [data-cc="bit"].cc-one').evaluate_all(
        "all => all.map((b) => +b.dataset.bit)"
    )
    assert sum(1 << bit for bit in lit) == 0x2F22


def test_page__arrow_keys_walk_the_cluster(mount: Any) -> None:
    page = mount(ClusterMasks((4, 4), cta=5))
    cc(page, "tile").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.rank") == "5"
    page.keyboard.press("ArrowDown")
    assert cc(page, "rank").inner_text() == "6"
    page.keyboard.press("ArrowRight")
    assert cc(page, "rank").inner_text() == "10"
    page.keyboard.press("Home")
    assert cc(page, "rank").inner_text() == "2"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    label = cc(page, "cta", rank=2).get_attribute("aria-label")
    assert label == "CTA 2, (v,m,n,k) (0,2,0,0), chosen, in the mask, loads slice 0"


def test_page__two_sms_halve_the_tiles_and_count_at_the_leader(mount: Any) -> None:
    page = mount(ClusterMasks((4, 4), cta=7))
    cc(page, "thr-id").select_option("2")
    assert cc(page, "layout").inner_text() == "((2),2,4,1):((1),2,4,0)"
    assert cc(page, "tile").input_value() == "(256,256,64)"  # the default follows
    assert cc(page, "expected").inner_text() == "0"
    assert "counted at the barrier of CTA 6" in cc(page, "state").inner_text()
    cc(page, "cta", rank=6).click()
    assert cc(page, "expected").inner_text() == str(2 * (128 * 64 + 128 * 64) * 2)
    assert cc(page, "mask", letter="B").inner_text() == "0x0050"
    cc(page, "show", letter="C").click()
    assert cc(page, "arrivals").inner_text() == "5"


def test_page__what_cannot_be_is_told_at_the_field_and_nothing_changes(mount: Any) -> None:
    page = mount(ClusterMasks((4, 4), thr_id=2))
    message = page.locator(".cc-message:visible")
    for field, text, said in [
        ("cluster-m", "3", "the pairs lie along M, and 3 is odd"),
        ("cluster-m", "8", "has 32 CTAs; a cluster has at most 16"),
        ("cluster-n", "", "at least 1"),
        ("tile", "(256,256", "a parenthesis is not closed"),
        ("tile", "(256,256)", "three extents"),
        ("tile", "(2,256,1)", "1 elements of A in a CTA cannot be cut into 4"),
    ]:
        before = cc(page, field).input_value()
        cc(page, field).fill(text)
        assert said in message.inner_text()
        assert cc(page, field).get_attribute("aria-invalid") == "true"
        assert cc(page, "layout").inner_text() == "((2),2,4,1):((1),2,4,0)"
        cc(page, field).fill(before)
        assert message.count() == 0
    cc(page, "cluster-n").fill("1")
    assert cc(page, "cta").count() == 4
    assert "No other CTA needs this part of A" in cc(page, "state").inner_text()


@pytest.mark.parametrize("width", [360, 1300])
def test_page__buses_reach_every_receiver_and_the_page_does_not_scroll(width: int, mount: Any) -> None:
    page = mount(ClusterMasks((4, 4), thr_id=2, cta=6, shown="C"), ClusterMasks((1, 16)), width=width)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    commit, wide = cc(page, "cluster-masks").all()
    _, sets = by_hand(4, 4, 2, 6)
    assert commit.locator("svg path.cc-bus-head").count() == len(sets["C"])
    assert wide.locator("svg path.cc-bus-head").count() == 16
    # The picture of a 4x4 cluster fits a phone without scrolling.
    assert commit.locator(".cc-scroll").evaluate("(e) => e.scrollWidth <= e.clientWidth")
