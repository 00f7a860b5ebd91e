"""A cluster's multicast masks for print."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from cutecourse import palette
from cutecourse.widgets.clusters import CtaMasks, cluster_layout, cta_masks
from cutecourse.widgets.figures import CELL_IN, INK, LINE, MONO, MUTED, PrintFigure

ACCENT = palette.MEANINGS_LIGHT["accent"]
TITLES = {"A": "A, along N (mode 2)", "B": "B, along M (mode 1)", "C": "commit (modes 0,1 and 0,2)"}
WIDE = 1.5  # a CTA is drawn this much wider than high


def draw_cluster_masks(cluster: Sequence[int], thr_id: int, cta: int) -> PrintFigure:
    """The cluster three times: the CTAs in the masks of A, B and the commit of one CTA, each with its bits.

    M goes down, N across, as `cluster_layout_vmnk` counts the ranks; a heavy frame is the CTA that is
    chosen, a colour with a check mark a CTA in its mask, and a thin frame a pair of SMs that share an MMA.

    Errors: WidgetError, for a cluster or CTA that cannot be.
    """
    layout = cluster_layout(cluster, thr_id)
    chosen = cta_masks(cluster, thr_id, cta)
    m, n = cluster
    # Bits stand over each other in two rows of eight where there is little room.
    panel_in = max((n * WIDE + 1) * CELL_IN, 2.3)
    figure = PrintFigure(3 * panel_in, (m + 3.4) * CELL_IN)
    for axes, letter in zip(figure.subplots(1, 3, squeeze=False)[0], TITLES, strict=True):
        _panel(axes, cluster, thr_id, chosen, letter)
    crd = ",".join(map(str, chosen.crd))
    figure.suptitle(
        f"CTA {cta} of the cluster {m}×{n}, (v,m,n,k) = ({crd}) in {layout}",
        fontsize=9,
        color=INK,
        x=0.01,
        ha="left",
    )
    return figure


def _panel(axes: Axes, cluster: Sequence[int], v: int, chosen: CtaMasks, letter: str) -> None:
    m, n = cluster
    mask = chosen.mask(letter)
    axes.set_xlim(-0.2, max(n, 4) + 0.2)
    axes.set_ylim(m + 1.6, -0.2)
    axes.set_aspect(1 / WIDE)
    axes.set_anchor("NW")
    axes.set_title(TITLES[letter], fontsize=8.5, color=INK, loc="left")
    axes.tick_params(length=0, labelsize=7, labelcolor=MUTED, pad=1)
    axes.xaxis.tick_top()
    axes.set_xticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
    axes.set_yticks([i + 0.5 for i in range(m)], [str(i) for i in range(m)])
    for spine in axes.spines.values():
        spine.set_visible(False)
    for rank in range(m * n):
        row, column = rank % m, rank // m
        inside = rank in chosen.ranks[letter]
        axes.add_patch(
            Rectangle(
                (column + 0.06, row + 0.06),
                0.88,
                0.88,
                facecolor=palette.RAMP_LIGHT[4] if inside else palette.MEANINGS_LIGHT["raised"],
                edgecolor=ACCENT if rank == chosen.rank else LINE,
                linewidth=2.2 if rank == chosen.rank else 0.6,
            )
        )
        text = f"{rank}✓" if inside else str(rank)
        axes.text(
            column + 0.5,
            row + 0.5,
            text,
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            family=MONO["family"],
        )
    if v == 2:
        for row in range(0, m, 2):
            for column in range(n):
                axes.add_patch(
                    Rectangle(
                        (column + 0.01, row + 0.01), 0.98, 1.98, fill=False, edgecolor=MUTED, linewidth=0.8
                    )
                )
    bits = f"{mask:016b}"
    grouped = " ".join(bits[i : i + 4] for i in range(0, 16, 4))
    axes.text(
        0.05,
        m + 0.65,
        f"0x{mask:04X}",
        fontsize=9,
        color=INK,
        va="center",
        weight="bold",
        family=MONO["family"],
    )
    axes.text(0.05, m + 1.25, grouped, fontsize=7.5, color=INK, va="center", family=MONO["family"])
