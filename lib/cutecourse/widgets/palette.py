"""The colours of every widget and figure, in one place, so that one colour means one thing everywhere.

- the *ramp*, eight steps of blue: where an offset lies in memory, first step first;
- the *quads*, eight hues that colour-blind readers can tell apart (after Paul Tol's "light" scheme): which
  group of four neighbouring threads owns a cell;
- a few meanings: a hole in memory, a collision, what is selected, what went wrong.

The JavaScript reads them as CSS variables (`css_variables`), Matplotlib as values.
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


def ramp_step(offset: int, cosize: int) -> int:
    """Which of the ramp's eight steps an offset takes: `floor(8 * offset / cosize)`."""
    return min(7, 8 * offset // max(1, cosize))


def quad_of(thread: int) -> int:
    """Which of the eight hues a thread takes: `(thread // 4) % 8`."""
    return (thread // 4) % 8


def css_variables() -> str:
    """Every colour as a CSS variable `--cc-...`: light by default, dark where the page says so.

    The Sphinx theme says so by `html[data-theme=dark]`, JupyterLab by `body[data-jp-theme-light=false]`.
    """

    def block(ramp: tuple[str, ...], quads: tuple[str, ...], meanings: dict[str, str]) -> str:
        pairs = [(f"ramp-{i}", colour) for i, colour in enumerate(ramp)]
        pairs += [(f"quad-{i}", colour) for i, colour in enumerate(quads)]
        pairs += meanings.items()
        return " ".join(f"--cc-{name}: {colour};" for name, colour in pairs)

    return (
        f".cc-widget {{ {block(RAMP_LIGHT, QUADS_LIGHT, MEANINGS_LIGHT)} color-scheme: light; }}\n"
        f'html[data-theme="dark"] .cc-widget, body[data-jp-theme-light="false"] .cc-widget '
        f"{{ {block(RAMP_DARK, QUADS_DARK, MEANINGS_DARK)} color-scheme: dark; }}\n"
    )
