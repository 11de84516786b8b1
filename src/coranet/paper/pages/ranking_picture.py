"""How far every method is ahead of the same network on labels alone, on two sets, drawn."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coranet.paper.pages.rankings import ranking
from coranet.report.pictures.paint import as_png
from coranet.report.seeds import Standing

TITLES = {"acdc": "ACDC, 14 labelled patients, one seed", "phantom": "phantom, 4 labelled patients, three seeds"}
OURS = {"coranet": "#c44e00", "coranet:repaired": "#c44e00", "coranet:released": "#c44e00"}
LEAST = -30.0
"""Points; what lies further down is drawn there, and says where it is."""


def ranking_picture(runs: Path) -> bytes:
    """A PNG of both sets beside each other, methods in the order of their mean over both."""
    found = {name: {one.name: one for one in ranking(runs, name)} for name in TITLES}
    names = [name for name in found["acdc"] if name != "supervised"]
    gains = {name: mean(ahead.difference for one in found.values() if (ahead := one[name].ahead)) for name in names}
    order = sorted(names, key=lambda name: gains[name])
    figure = Figure(figsize=(9, 7.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, title) in zip(panels, TITLES.items(), strict=True):
        _draw(axes, order, found[name], title)
    panels[0].set_yticks(range(len(order)), order, fontsize=8)
    panels[0].set_ylim(-0.7, len(order) - 0.3)
    for label in panels[0].get_yticklabels():
        label.set_color(OURS.get(label.get_text(), "#222222"))
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    return as_png(figure, 110)


def _draw(axes: Axes, order: list[str], found: dict[str, Standing], title: str) -> None:
    """One set: a dot for each method, and its interval over patients."""
    for place, name in enumerate(order):
        ahead = found[name].ahead
        assert ahead is not None
        value, low, high = (100 * number for number in (ahead.difference, ahead.low, ahead.high))
        colour = OURS.get(name, "#1f5a8a")
        if value < LEAST:
            axes.annotate(f"{value:.0f}", (LEAST, place), color=colour, fontsize=7, va="center")
            continue
        axes.plot([max(low, LEAST), high], [place, place], color=colour, linewidth=1.2, alpha=0.7)
        axes.plot([value], [place], "o", color=colour, markersize=4)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("Dice points ahead of supervised")
    axes.set_title(title, fontsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
