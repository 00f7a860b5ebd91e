"""The figure of tracks: which rows it has, what it says, and that a page of 700 pixels can hold it."""

import io

import numpy as np
import pytest
from PIL import Image
from widgets import traces

from cutecourse import palette, runtime
from cutecourse.emulator import EmulatorError
from cutecourse.kernels import tma_broken, umma_tile
from cutecourse.trace import Recorder
from cutecourse.widgets import WidgetError, draw_tracks
from cutecourse.widgets.track_figure import MOST_ROWS


def labels(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def doubled(spec=tma_broken.LAUNCH):
    source = np.arange(48 * 32, dtype=np.int32).reshape(48, 32)
    arrays = {"source": source, "result": np.zeros_like(source), "gave_up": np.zeros(2, np.uint32)}
    return runtime.run(spec, device="emulator", trace=True, tiles=3, **arrays)


def test_draw_tracks__has_warps_copies_and_barriers_with_their_phases():
    figure = draw_tracks(doubled())
    assert labels(figure) == ["warp 0", "warp 1", "copies", "full", "empty"]
    phases = [text for text in texts(figure) if text.startswith("phase") or text.isdecimal()]
    assert [text.split()[-1] for text in phases] == ["0", "1", "2", "3"] * 2
    assert figure.alt == (
        "Timeline of tma_doubled under seed 0: 1 CTA, 2 warps, instructions "
        f"{doubled().trace.events[0].time} to {doubled().trace.events[-1].time}. "
        f"{len(doubled().trace.waits())} waits, none without an end. 6 asynchronous copies. "
        "Barriers: full: 3 completed phases, empty: 3 completed phases."
    )
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"waits", "copy of source", "copy of result", "arrival"} <= set(legend)


def test_draw_tracks__is_700_pixels_wide_and_has_a_text():
    figure = draw_tracks(doubled())
    with Image.open(io.BytesIO(figure.png())) as image:
        assert image.width == 700
    shown = figure._repr_html_()
    assert f'alt="{figure.alt}"' in shown
    assert "width:700px" in shown
    sizes = [text.get_fontsize() for text in figure.axes[0].texts]
    sizes += [label.get_fontsize() for label in figure.axes[0].get_yticklabels()]
    assert min(sizes) * 110 / 72 > 11  # pixels


def test_draw_tracks__a_wait_without_end_is_hatched_and_the_error_is_named():
    with pytest.raises(EmulatorError) as caught:
        doubled(tma_broken.broken("too_many_bytes"))
    error = caught.value
    figure = draw_tracks(error.trace, end=error)
    hatched = [patch for patch in figure.axes[0].patches if patch.get_hatch()]
    assert len(hatched) == sum(wait.end is None for wait in error.trace.waits()) == 2
    assert "2 without an end" in figure.alt
    assert f"Ended with {type(error).__name__}: " in figure.alt
    assert f"ended with {type(error).__name__}" in figure.axes[0].get_xlabel()


def test_draw_tracks__mmas_of_a_commit_are_one_bar():
    a, b = np.ones((128, 256), np.float16), np.ones((128, 256), np.float16)
    c = np.zeros((128, 128), np.float32)
    run = runtime.run(umma_tile, device="emulator", trace=True, a=a, b=b, c=c)
    figure = draw_tracks(run)
    assert "MMAs" in labels(figure)
    assert labels(figure)[-1] == "smem+32768"
    mmas = [
        patch
        for patch in figure.axes[0].patches
        if patch.get_facecolor()[:3] == pytest.approx(_rgb(palette.QUADS_LIGHT[3]))
    ]
    assert len(mmas) == len(run.trace.of("mma.commit")) == 4


def _rgb(colour):
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))


def test_draw_tracks__of_several_ctas_names_each_where_it_begins():
    trace = traces.multicast()
    found = [label.split("  ")[0] for label in labels(draw_tracks(trace)) if label.startswith("CTA")]
    assert found == [f"CTA {rank}" for rank in range(len(found))]
    assert len(found) > 2


def test_draw_tracks__says_how_many_rows_it_leaves_out():
    recorder = Recorder()
    recorder.begin(kernel="k", grid=(60, 1, 1), block=(32, 1, 1))
    for n in range(60):
        recorder.emit(
            "fence", time=n, cluster=n, rank=0, block=(n, 0, 0), warp=0, lane=0, line=3, name="fence"
        )
    figure = draw_tracks(recorder.trace())
    assert len(labels(figure)) == MOST_ROWS
    assert figure.axes[0].get_xlabel() == f"{60 - MOST_ROWS} more rows not drawn"


def test_draw_tracks__refuses_what_is_no_trace():
    with pytest.raises(WidgetError, match="neither a trace"):
        draw_tracks(3)
