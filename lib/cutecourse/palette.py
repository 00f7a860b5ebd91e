"""The colours of every widget and picture, in one place, so that one colour means one thing everywhere.

- The *ramp* has eight steps of blue. It shows where an offset lies in memory, first step first.
- The *quads* are eight hues that colour-blind readers can tell apart (after Paul Tol's "light" scheme). They
  show which group of four neighbouring threads owns a cell.
- The *things* are what a kernel is made of: the operands, the stages of a pipeline, the CTAs of a cluster,
  barriers, and the four memories.
- The *meanings* mark a hole in memory, a collision, the selected cell, and what went right or wrong.

JavaScript and inline SVG read the colours as CSS variables (`css_variables`), Matplotlib reads the values.
"""

from __future__ import annotations

RAMP_LIGHT = ("#eef5fc", "#dfecf8", "#cfe2f4", "#bfd8f0", "#aecdeb", "#9dc2e6", "#8bb7e1", "#79acdb")
RAMP_DARK = ("#16222e", "#192c3e", "#1c364e", "#1f415f", "#234c70", "#265882", "#2a6393", "#2e6fa5")

QUADS_LIGHT = ("#8ab8e6", "#ee9a7c", "#eedd88", "#ffb3c1", "#a5e1ff", "#5cc5a7", "#c4d452", "#d4d4d4")
QUADS_DARK = ("#2b5f93", "#9c4428", "#75650f", "#a2425a", "#1b6a8f", "#1b6f55", "#58650a", "#5a6270")

MEANINGS_LIGHT = {
    "ink": "#14202b",
    "muted": "#566472",
    "surface": "#ffffff",
    "raised": "#f3f6f9",
    "line": "#c3ccd5",
    "accent": "#0b61a4",
    "on-accent": "#ffffff",
    "hole": "#e9edf1",
    "collision": "#c2410c",
    "good": "#1a7f4b",
    "bad": "#b3261e",
}
MEANINGS_DARK = {
    "ink": "#eef3f8",
    "muted": "#a8b4c0",
    "surface": "#14181e",
    "raised": "#1f262e",
    "line": "#46525f",
    "accent": "#7cc0f5",
    "on-accent": "#0c1a26",
    "hole": "#242b33",
    "collision": "#ff9d66",
    "good": "#6fd39b",
    "bad": "#ff8f86",
}

THINGS_LIGHT = {
    "A": "#8fbdea",
    "B": "#f2b279",
    "C": "#9ad391",
    "stage0": "#f7df8b",
    "stage1": "#f4b9a7",
    "stage2": "#cbbcec",
    "stage3": "#b3dcc8",
    "cta0": "#84cdc8",
    "cta1": "#dda8da",
    "cta2": "#cdc66f",
    "cta3": "#b1bac8",
    "barrier": "#ec9dba",
    "gmem": "#dde3e9",
    "smem": "#ece3c6",
    "tmem": "#d2e6d8",
    "rmem": "#ead9e7",
}
THINGS_DARK = {
    "A": "#2a5c90",
    "B": "#8a4d17",
    "C": "#2f6b34",
    "stage0": "#6b5a0c",
    "stage1": "#86402e",
    "stage2": "#564389",
    "stage3": "#2a6349",
    "cta0": "#17635f",
    "cta1": "#7b3d79",
    "cta2": "#5f5a0f",
    "cta3": "#4d5768",
    "barrier": "#8c3258",
    "gmem": "#2f3742",
    "smem": "#423a1f",
    "tmem": "#22402f",
    "rmem": "#40293d",
}


def ramp_step(offset: int, cosize: int) -> int:
    """Which of the ramp's eight steps an offset takes: `floor(8 * offset / cosize)`."""
    return min(7, 8 * offset // max(1, cosize))


def quad_of(thread: int) -> int:
    """Which of the eight hues a thread takes: `(thread // 4) % 8`."""
    return (thread // 4) % 8


def colour_names() -> tuple[str, ...]:
    """The names by which a picture asks for a colour: `A`, `stage0`, `thread3`, `ramp7`, `hole`, ..."""
    steps = [f"{kind}{i}" for kind in ("thread", "ramp") for i in range(8)]
    return (*THINGS_LIGHT, *steps, *MEANINGS_LIGHT)


def _pairs(dark: bool) -> dict[str, str]:
    ramp, quads = (RAMP_DARK, QUADS_DARK) if dark else (RAMP_LIGHT, QUADS_LIGHT)
    things, meanings = (THINGS_DARK, MEANINGS_DARK) if dark else (THINGS_LIGHT, MEANINGS_LIGHT)
    steps = {f"ramp-{i}": colour for i, colour in enumerate(ramp)}
    return steps | {f"quad-{i}": colour for i, colour in enumerate(quads)} | things | meanings


def css_value(name: str) -> str:
    """The CSS that stands for a colour: its variable, and its light value where the page defines none.

    Errors: KeyError for a name that is not in `colour_names()`.

    >>> css_value("thread2")
    'var(--cc-quad-2, #eedd88)'
    """
    variable = name.replace("thread", "quad-").replace("ramp", "ramp-")
    return f"var(--cc-{variable}, {_pairs(dark=False)[variable]})"


def css_variables() -> str:
    """Every colour as a CSS variable `--cc-...`: light by default, dark where the page says so.

    The Sphinx theme says so by `html[data-theme=dark]`, JupyterLab by `body[data-jp-theme-light=false]`.
    Paper is always light.
    """

    def block(*, dark: bool) -> str:
        return " ".join(f"--cc-{name}: {colour};" for name, colour in _pairs(dark).items())

    ours = (".cc-widget", ".cute-picture")
    themes = ('html[data-theme="dark"]', 'body[data-jp-theme-light="false"]')
    in_the_dark = ", ".join(f"{theme} {part}" for theme in themes for part in ours)
    return (
        f"{', '.join(ours)} {{ {block(dark=False)} color-scheme: light; }}\n"
        f"@media screen {{ {in_the_dark} {{ {block(dark=True)} color-scheme: dark; }} }}\n"
    )
