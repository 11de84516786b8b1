"""How training went: the terms of every run's loss, and Dice on validation cases, against steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coranet.report.pictures.paint import TEXT, WIDTH, Picture, plain
from coranet.report.run_files import FinishedRun, Json

INKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of lines on white, apart for colour-blind eyes too."""
BESIDE = 3
"""Panels in a row."""

Curve = Mapping[int, float]
"""Value by step."""


def draw_curves(runs: Sequence[FinishedRun]) -> Picture | None:
    """One panel for the loss of each run that has a log, and one for the validation of all."""
    runs = [run for run in runs if any(record["terms"] for record in run.log)]
    if not runs:
        return None
    validation = {run.name: curve for run in runs if (curve := curve_of(run.log, "val", "mean"))}
    count = len(runs) + bool(validation)
    rows = -(-count // BESIDE)
    columns = -(-count // rows)
    figure = Figure(figsize=(WIDTH, 4.2 * rows), layout="constrained")
    panels = [figure.add_subplot(rows, columns, place) for place in range(1, count + 1)]
    for axes, run in zip(panels, runs, strict=False):
        _draw_loss(axes, run)
    if validation:
        _plot(panels[-1], validation, marker="o")
        mark_steps(panels[-1])
        panels[-1].set_ylim(0, 1)
        panels[-1].set_title("Dice on validation cases", fontsize=TEXT)
    return Picture(name="curves", figure=figure, caption=_caption(bool(validation)))


def curve_of(log: Sequence[Json], section: str, name: str) -> Curve:
    """What the lines of a log say of one term, measure or validation score."""
    return {record["step"]: record[section][name] for record in log if name in (record[section] or ())}


def mark_steps(axes: Axes, log: Sequence[Json] = ()) -> None:
    """Steps along the bottom; a dotted line where the next phase of a log, named beside it, begins."""
    axes.set_xlabel("step", fontsize=TEXT)
    axes.tick_params(labelsize=TEXT - 1)
    axes.grid(color="0.9")
    for last, first in pairwise(log):
        if last["phase"] != first["phase"]:
            axes.axvline(last["step"], color="0.4", linestyle=":")
            name = f" {plain(first['phase'])}"
            axes.text(last["step"], 0.97, name, fontsize=TEXT - 2, va="top", transform=axes.get_xaxis_transform())


def _plot(axes: Axes, curves: Mapping[str, Curve], marker: str = "") -> None:
    """Curves with their names below."""
    for place, (name, curve) in enumerate(curves.items()):
        ink = INKS[place % len(INKS)]
        axes.plot(list(curve), list(curve.values()), color=ink, marker=marker, markersize=4, label=plain(name))
    axes.legend(fontsize=TEXT - 1, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)


def _draw_loss(axes: Axes, run: FinishedRun) -> None:
    names = dict.fromkeys(name for record in run.log for name in record["terms"])
    curves = {name: curve_of(run.log, "terms", name) for name in names}
    _plot(axes, curves)
    mark_steps(axes, run.log)
    values = [value for curve in curves.values() for value in curve.values()]
    if min(values) > 0 and max(values) > 10 * min(values):
        axes.set_yscale("log")
    axes.set_title(f"loss of {plain(run.name)}", fontsize=TEXT)


def _caption(validated: bool) -> str:
    said = "The terms of each run's loss before their weights; a dotted line parts two phases of training."
    return said + " Last, the mean Dice over classes on validation cases." if validated else said
