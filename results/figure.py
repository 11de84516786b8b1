"""Draw docs/images/ranking.png: how far every method is ahead of the same network on labels alone, on two sets.

python results/figure.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import matplotlib as mpl
from matplotlib.axes import Axes
from section import rankings

from coranet.report.seeds import Standing

mpl.use("Agg")
from matplotlib import pyplot as plt

IMAGE = Path(__file__).parent.parent / "docs/images/ranking.png"
TITLES = {"acdc": "ACDC, 14 labelled patients, one seed", "phantom": "phantom, 4 labelled patients, three seeds"}
OURS = {"coranet": "#c44e00", "coranet:repaired": "#c44e00", "coranet:released": "#c44e00"}
LEAST = -30.0
"""Points; what lies further down is drawn there, and says where it is."""


def draw(axes: Axes, order: list[str], found: dict[str, Standing], title: str) -> None:
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


def main() -> None:
    """Both sets beside each other, methods in the order of their mean over both."""
    found = {folder: {one.name: one for one in rankings(folder)} for folder in TITLES}
    names = [name for name in found["acdc"] if name != "supervised"]
    gains = {name: mean(ahead.difference for one in found.values() if (ahead := one[name].ahead)) for name in names}
    order = sorted(names, key=lambda name: gains[name])
    figure, panels = plt.subplots(1, 2, figsize=(9, 7.2), sharey=True, constrained_layout=True)
    for axes, folder in zip(panels, ("acdc", "phantom"), strict=True):
        draw(axes, order, found[folder], TITLES[folder])
    panels[0].set_yticks(range(len(order)), order, fontsize=8)
    panels[0].set_ylim(-0.7, len(order) - 0.3)
    for label in panels[0].get_yticklabels():
        label.set_color(OURS.get(label.get_text(), "#222222"))
    for axes in panels:
        axes.tick_params(axis="y", length=0)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
