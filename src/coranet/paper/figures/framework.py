"""Figure 2: what CoraNet is, in boxes and arrows. It needs no run."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from coranet.report.pictures.paint import TEXT, WIDTH, Picture

HEIGHT = 6.6
"""Inches; a unit of the drawing is a tenth of one."""

NETWORK, LOSS, MAP, SCAN, TEACHER = "#CFE2F3", "#FBE0C4", "#E4DDF3", "#EDEDED", "#D5EBD5"
"""Of boxes: what is trained, what it is trained by, what it says, what it sees, what follows it."""
INK, LABELLED, UNLABELLED = "#222222", "#F4F8FC", "#FCF8F2"

Place = tuple[float, float]
"""Of a point, from the lower left."""
Box = tuple[float, float, float, float]
"""Left, bottom, width and height."""

HEADS = {r"$D$": 0.0, r"$D_{con}$": 1.0, r"$D_{rad}$": 2.0}
"""From the top down."""

CAPTION = (
    "CoraNet. Labelled images train an encoder E and three heads: D by cross-entropy, D_con and D_rad by cross-entropy of"
    " opposite costs (α = 5), which makes one cautious and the other bold about objects. Of an unlabelled image, pixels"
    " where the two disagree are uncertain (M_uc), the others certain (M_c). Certain pixels learn from the pseudo-label Y of"
    " D (C-SN), uncertain ones from a mean teacher E', D', which follows E and D slowly (UC-SN). Only E and D are used in"
    " test. Drawn after Figure 2 of Shi et al., IEEE TMI 2021."
)


def draw_framework(root: Path) -> list[Picture]:
    """The same wherever runs are."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10 * WIDTH), ylim=(0, 10 * HEIGHT))
    axes.set_axis_off()
    _labelled(axes)
    _unlabelled(axes)
    _arrow(axes, (27, 44), (27, 35.5), both=True, dashed=True)
    axes.text(28.5, 40.95, "the same weights", fontsize=TEXT, va="center", color=INK)
    return [Picture(name="fig2", figure=figure, caption=CAPTION)]


def _labelled(axes: Axes) -> None:
    _lane(axes, (1, 42.6, 118, 22.4), "Labelled images", LABELLED)
    _box(axes, (3, 49, 14, 8), "image $X^l$\ntruth $Y^l$", SCAN)
    _box(axes, (22, 44, 10, 17.5), "encoder\n$E$", NETWORK)
    _arrow(axes, (17, 53), (22, 53))
    costs = {
        r"$\mathcal{L}_{\mathrm{ce}}$: cross-entropy": 0.0,
        r"$\mathcal{L}_{\mathrm{ce‐con}}$: a false object costs $\alpha$": 1.0,
        r"$\mathcal{L}_{\mathrm{ce‐rad}}$: a missed object costs $\alpha$": 2.0,
    }
    for (head, down), loss in zip(HEADS.items(), costs, strict=True):
        low = 57 - 6.4 * down
        _box(axes, (38, low, 9, 5), head, NETWORK)
        _box(axes, (54, low, 36, 5), loss, LOSS)
        _arrow(axes, (32, low + 2.5), (38, low + 2.5))
        _arrow(axes, (47, low + 2.5), (54, low + 2.5))
        _arrow(axes, (90, low + 2.5), (98, 53.1 + 1.4 * (1 - down)))
    _box(axes, (98, 48, 19, 10.2), "CRM: their sum\n$\\mathcal{L}_{\\mathrm{crm}}$", LOSS)


def _unlabelled(axes: Axes) -> None:
    _lane(axes, (1, 1, 118, 38.4), "Unlabelled images", UNLABELLED)
    _box(axes, (3, 23, 14, 8), "image $X^u$", SCAN)
    _box(axes, (22, 18, 10, 17.5), "encoder\n$E$", NETWORK)
    _arrow(axes, (17, 27), (22, 27))
    for (head, down), said in zip(HEADS.items(), ("$Y$", "$Y_{con}$", "$Y_{rad}$"), strict=True):
        low = 30.5 - 6.4 * down
        _box(axes, (38, low, 9, 5), head, NETWORK)
        _box(axes, (53, low, 9, 5), said, MAP)
        _arrow(axes, (32, low + 2.5), (38, low + 2.5))
        _arrow(axes, (47, low + 2.5), (53, low + 2.5))
    _box(axes, (67.5, 18.2, 19, 10), "$M_{uc} = Y_{rad} \\oplus Y_{con}$\n$M_c = 1 - M_{uc}$", MAP)
    _arrow(axes, (62, 26.6), (67.5, 25))
    _arrow(axes, (62, 20.2), (67.5, 21.6))
    _box(
        axes,
        (94, 25.6, 24, 10.4),
        "C-SN: $\\mathcal{L}_{\\mathrm{c‐sn}}$\ncross-entropy of $D$\nagainst pseudo-label $Y$",
        LOSS,
    )
    _box(
        axes,
        (94, 11.2, 24, 10.4),
        "UC-SN: $\\mathcal{L}_{\\mathrm{cnt}}$\n$\\|M_{uc} \\otimes (F - F')\\|^2$\nstudent $F$, teacher $F'$",
        LOSS,
    )
    _arrow(axes, (62, 33), (94, 33), "pseudo-labels")
    _arrow(axes, (86.5, 25.5), (94, 28.5))
    axes.text(86.3, 28.8, "certain, $M_c$", fontsize=TEXT, ha="center", color=INK)
    _arrow(axes, (86.5, 21), (94, 18.5))
    axes.text(86.3, 16.2, "uncertain, $M_{uc}$", fontsize=TEXT, ha="center", color=INK)
    _box(axes, (22, 3, 25, 8.5), "mean teacher\n$E'$, $D'$", TEACHER)
    _arrow(axes, (27, 18), (27, 11.5), dashed=True)
    axes.text(28.2, 14.6, r"EMA of $E$, $D$: $\beta$ old + $(1 - \beta)$ new", fontsize=TEXT, va="center", color=INK)
    _arrow(axes, (10, 23), (22, 7.2), square=True)
    _arrow(axes, (47, 7.2), (106, 11.2), square=True)
    axes.text(66, 8.2, "what the teacher says, $F'$", fontsize=TEXT, color=INK)


def _lane(axes: Axes, box: Box, title: str, colour: str) -> None:
    _box(axes, box, "", colour, line=0.6)
    axes.text(box[0] + 1.6, box[1] + box[3] - 1.6, title, fontsize=TEXT + 1, weight="bold", va="top", color=INK)


def _box(axes: Axes, box: Box, text: str, colour: str, line: float = 1.0) -> None:
    left, bottom, width, height = box
    style = "round,pad=0,rounding_size=1"
    axes.add_patch(
        FancyBboxPatch((left, bottom), width, height, boxstyle=style, facecolor=colour, edgecolor=INK, linewidth=line)
    )
    axes.text(left + width / 2, bottom + height / 2, text, fontsize=TEXT + 1, ha="center", va="center", color=INK)


def _arrow(
    axes: Axes,
    start: Place,
    end: Place,
    text: str = "",
    *,
    dashed: bool = False,
    both: bool = False,
    square: bool = False,
) -> None:
    """An arrow, straight or by one corner, with a word above its middle."""
    across = abs(end[0] - start[0]) > 40  # first along the way, then up; else down first
    bent = f"angle,angleA={0 if across else -90},angleB={90 if across else 180},rad=0"
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="<|-|>" if both else "-|>",
            mutation_scale=13,
            linewidth=1.2,
            linestyle="--" if dashed else "-",
            color=INK,
            shrinkA=0,
            shrinkB=0,
            connectionstyle=bent if square else "arc3",
        )
    )
    if text:
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.8)
        axes.text(*middle, text, fontsize=TEXT, ha="center", color=INK)
