"""Every value of a trace is in its explanation and its snapshot, and both are plain enough for a page."""

import json
from dataclasses import fields

from cutecourse.layout import Layout, explain
from cutecourse.tma import (
    TensorMapEncoding,
    create_tma_multicast_mask,
    make_cluster_layout_vmnk,
    multicast_ctas,
    parse_cpp,
    static,
    tma_coords,
    tma_partition,
    trace_tma_atom,
)

TILE = Layout.parse("S<3,4,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))")
TRACE = trace_tma_atom(Layout((512, 256), (256, 1)), TILE, (128, 128), "f16", 4)
TILES = TRACE.get_tma_tensor().local_tile((128, 128), (1, None)).group_modes(0, 2)
PARTITION = tma_partition(
    TRACE, 2, Layout(4), TILE.replace_outer(Layout((TILE.shape,), (TILE.outer.stride,))), TILES
)
ARGUMENTS = {"gtensor", "slayout", "cta_tiler", "dtype", "num_multicast", "internal_type", "encoding"}


def test_explanation_of_an_atom__shows_every_value() -> None:
    explanation = TRACE.explain()
    shown = [name for step in explanation.steps for name, _ in step.values]
    wanted = {field.name for field in fields(TRACE)} - ARGUMENTS - {"smem_box_stride"}
    assert set(shown) == wanted
    for step in explanation.steps:
        for name, value in step.values:
            assert name == "recast_ratio" or value == getattr(TRACE, name)
    assert explanation.result == TRACE.tma_gbasis
    assert dict(explanation.steps[-1].values)["tma_gbasis"] == explanation.result


def test_explanation_of_a_partition__shows_every_value() -> None:
    explanation = PARTITION.explain()
    shown = {name for step in explanation.steps for name, _ in step.values}
    arguments = {"cta_coord", "cta_layout", "stensor", "gtensor", "dtype"}
    assert shown == {field.name for field in fields(PARTITION)} - arguments
    assert "multicast_offset = 4096" in str(explanation)


def test_explanations__are_plain_for_json_and_html() -> None:
    for explanation in (
        TRACE.explain(),
        PARTITION.explain(),
        explain(create_tma_multicast_mask, make_cluster_layout_vmnk((4, 4, 1)), (0, 1, 2, 0), 2),
    ):
        snapshot = explanation.to_snapshot()
        assert json.loads(json.dumps(snapshot)) == snapshot
        assert explanation._repr_html_().count("<li>") >= len([s for s in explanation.steps if s.level == 0])


def test_explanation_of_a_mask__ends_with_the_mask() -> None:
    cluster = make_cluster_layout_vmnk((4, 4, 1), 2)
    for mode in (1, 2):
        explanation = explain(create_tma_multicast_mask, cluster, (1, 1, 3, 0), mode)
        assert explanation.result == create_tma_multicast_mask(cluster, (1, 1, 3, 0), mode)
        assert dict(explanation.steps[-1].values)["result"] == explanation.result


def test_snapshots__are_json_and_complete() -> None:
    snapshot = TRACE.to_snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert {field.name for field in fields(TRACE)} <= set(snapshot)
    assert snapshot["smem_box_shape"] == [64, 32, 1, 1, 1]
    assert Layout.parse(snapshot["tma_gbasis"]) == TRACE.tma_gbasis
    encoding = snapshot["encoding"]
    assert TensorMapEncoding(**{field.name: encoding[field.name] for field in fields(TRACE.encoding)}) == (
        TRACE.encoding
    )
    for other in (
        PARTITION.to_snapshot(),
        [instruction.to_snapshot() for instruction in tma_coords(TRACE, (1, 0))],
        [cta.to_snapshot() for cta in multicast_ctas(make_cluster_layout_vmnk((4, 2, 1), 2), 2)],
    ):
        assert json.loads(json.dumps(other)) == other


def test_notation__keeps_what_is_static() -> None:
    layout = parse_cpp("((_64,2),128):((_1,_64),8192)")
    assert static(layout) == Layout(((64, 2), 128), ((1, 64), 8192))
    again = trace_tma_atom(parse_cpp("(512,256):(256,_1)"), TILE, (128, 128), "f16", 4)
    assert again.log() == TRACE.log(static_sizes=False)
    assert TRACE.log()["tma_gbasis"] == again.log()["tma_gbasis"]
