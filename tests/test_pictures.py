"""Pictures: what they hold, what they refuse, and colours that text can be read on."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from cutecourse import palette
from cutecourse.pictures import Picture, PictureError, beside, grid


def _luminance(colour: str) -> float:
    """WCAG 2.1's relative luminance of `#rrggbb`."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_palette__text_can_be_read_on_every_colour(dark: bool) -> None:
    meanings = palette.MEANINGS_DARK if dark else palette.MEANINGS_LIGHT
    things = palette.THINGS_DARK if dark else palette.THINGS_LIGHT
    steps = (*palette.RAMP_DARK, *palette.QUADS_DARK) if dark else (*palette.RAMP_LIGHT, *palette.QUADS_LIGHT)
    grounds = [*things.values(), *steps, meanings["surface"], meanings["raised"], meanings["hole"]]
    assert [ground for ground in grounds if _contrast(meanings["ink"], ground) < 4.5] == []
    assert _contrast(meanings["muted"], meanings["surface"]) >= 4.5
    assert len(set(things.values())) == len(things)


def test_palette__has_each_colour_in_light_and_dark() -> None:
    assert palette.THINGS_LIGHT.keys() == palette.THINGS_DARK.keys()
    css = palette.css_variables()
    for name in palette.colour_names():
        variable = palette.css_value(name).removeprefix("var(").split(",")[0]
        assert css.count(f"{variable}: #") == 2, name


def test_grid__is_well_formed_and_holds_each_cell() -> None:
    picture = grid(
        [["a<b", 1], [2, None]],
        fill=lambda i, j: "A" if i == j else None,
        alt="Two rows & two columns.",
        title="Title",
        rows="m",
        columns="k",
        mark={(0, 1)},
        legend={"A": "on the diagonal"},
    )
    svg = ET.fromstring(picture.svg())
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a<b", "1", "2", "Title", "m", "k", "on the diagonal"} <= set(texts)
    assert svg.get("aria-label") == "Two rows & two columns."
    fills = [element.get("style", "") for element in svg.iter("{http://www.w3.org/2000/svg}rect")]
    assert sum("--cc-A" in fill for fill in fills) == 3  # two cells and the legend
    assert sum("stroke-width:2.5" in fill for fill in fills) == 1
    assert repr(picture) == "Picture: Two rows & two columns."


def test_picture__shows_its_narrow_variant_instead() -> None:
    picture = Picture(700, 50, alt="wide").rect(0, 0, 10, 10, "B", "x").arrow(0, 0, 30, 40, "moves")
    picture.narrow = Picture(360, 90, alt="tall")
    shown = picture._repr_html_()
    assert shown.count("<svg") == 2
    assert 'class="cute-narrow"' in shown
    assert beside(picture, picture, titles=["one", "two"])._repr_html_().count("<svg") == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Picture(721, 10, alt="x"), "at most 720"),
        (lambda: Picture(10, 10, alt=" "), "say in `alt`"),
        (lambda: Picture(10, 10, alt="x").text(0, 0, "x", 9), "13 is the least"),
        (lambda: Picture(10, 10, alt="x").rect(0, 0, 1, 1, "mauve"), "no colour 'mauve'"),
        (lambda: Picture(10, 10, alt="x").arrow(1, 1, 1, 1), "two different ends"),
        (lambda: grid([[1, 2], [3]], alt="x"), "equally long"),
        (lambda: grid([list(range(40))], alt="x"), "at most 720"),
        (beside, "at least one picture"),
    ],
)
def test_picture__refuses_in_one_sentence(wrong, said: str) -> None:
    with pytest.raises(PictureError, match=said):
        wrong()
