"""Dice over labels by way of asking, as the studies in results/labelling.csv have it: docs/images/labelling.png.

python benchmarks/labelling_picture.py docs/images/labelling.png
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

STUDIES = {
    "acdc-dev1-7, 400 steps": "ACDC",
    "la-dev1-8, 5 labels, 600 steps": "left atrium",
    "hippocampus-10, 300 steps": "hippocampus",
}
"""By their name in the file."""
WAYS = {
    "random": ("random", "0.45"),
    "covering": ("usual", "tab:blue"),
    "expected": ("worst, fitted", "tab:orange"),
    "uncertainty": ("worst, not fitted", "tab:red"),
    "oracle": ("lowest true Dice", "tab:green"),
}
"""What the docs call them, and their colours."""

Rows = Sequence[dict[str, str]]


def main() -> None:
    """Draw to the file that is named."""
    with (Path(__file__).parent / "results/labelling.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure = Figure(figsize=(9, 3.3), layout="constrained")
    panels = figure.subplots(1, len(STUDIES))
    for panel, (study, title) in zip(panels, STUDIES.items(), strict=True):
        for way, (name, colour) in WAYS.items():
            curve = mean_curve([row for row in rows if (row["study"], row["way"]) == (study, way)])
            panel.plot(curve.keys(), curve.values(), label=name, color=colour, marker="o", markersize=4)
        panel.set(
            title=title,
            xlabel="labelled volumes",
            xticks=sorted({int(row["labels"]) for row in rows if row["study"] == study}),
        )
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("Dice (%), mean of three seeds")
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(WAYS), frameon=False)
    figure.savefig(sys.argv[1], dpi=120)


def mean_curve(rows: Rows) -> dict[int, float]:
    """Dice in percent over seeds by number of labels, where every seed has come so far."""
    seeds = {row["seed"] for row in rows}
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(int(row["labels"]), []).append(100 * float(row["dice"]))
    return {labels: fmean(dice) for labels, dice in sorted(found.items()) if len(dice) == len(seeds)}


if __name__ == "__main__":
    main()
