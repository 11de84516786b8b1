"""Figure 9: hearts of several classes, mean teacher against CoraNet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from coranet.data.splits.by_patient import Split
from coranet.paper.figure_list import FIGURES
from coranet.paper.figures.finished import SettingRuns, by_set, find_runs, missing_words
from coranet.paper.figures.panels import name_row, panel_grid
from coranet.report.numbers import number
from coranet.report.pictures.case_slices import choose_cases, cut_case
from coranet.report.pictures.paint import TEXT, Panel, Picture, draw_panel, legend, square_around
from coranet.report.run_files import FinishedRun, read_runs
from coranet.runs.exam import find_exam

LABELS = ("mean teacher", "CoraNet")
"""In the order of what the figure needs."""


def draw_hearts(root: Path) -> list[Picture]:
    """One picture a set."""
    every = [
        one
        for label, needs in zip(LABELS, FIGURES["fig9"].needs, strict=True)
        for one in find_runs(root, needs, {label: needs.methods[0]}, "predictions")
    ]
    return [_draw(scans, found) for scans, found in by_set(every).items()]


def _draw(scans: str, found: Sequence[SettingRuns]) -> Picture:
    by_label = {label: by_seed for one in found for label, by_seed in one.runs.items()}
    shared = set.intersection(*(set(by_seed) for by_seed in by_label.values()))
    seeds = {label: min(shared or by_seed) for label, by_seed in by_label.items()}
    runs = read_runs({label: by_label[label][seed] for label, seed in seeds.items()})
    chooser = runs[-1]
    chosen = choose_cases(chooser.scores)
    places = "; ".join(
        f"{label} in {one.words}, seed {seeds[label]}" for one, label in zip(found, by_label, strict=True)
    )
    caption = (
        f"Test cases of several classes: {places}. Cases were chosen by the Dice of {chooser.name}: {', '.join(chosen)}."
        " Each is cut through the middle of the object (slices count from 0) and enlarged to where truth or a prediction has"
        " something. Above a prediction stands the mean Dice over the classes of the whole case, not of the slice."
        f"{missing_words(label for label in LABELS if label not in by_label)}"
    )
    return Picture(name=f"fig9-{scans}", figure=_panels(found[-1], runs, chosen), caption=caption)


def _panels(found: SettingRuns, runs: Sequence[FinishedRun], chosen: Mapping[str, str]) -> Figure:
    exam = find_exam(found.scans, Split.read(found.folder / "split.json"))
    figure, grid = panel_grid(len(chosen), 2 + len(runs))
    for place, (role, case) in enumerate(chosen.items()):
        seen = cut_case(case, runs, exam.images, exam.labels, {})
        limits = square_around(np.any([seen.truth, *seen.predictions.values()], axis=0), seen.spacing)
        columns: dict[str, Panel] = {"image": Panel(image=seen.image)}
        for run in runs:
            dice = f"Dice {number(run.scores.by_case('dsc')[case], 3)}"
            columns[run.name] = Panel(image=seen.image, filled=seen.predictions[run.name], title=dice)
        columns["truth"] = Panel(image=seen.image, filled=seen.truth)
        for axes, (heading, panel) in zip(grid[place], columns.items(), strict=True):
            draw_panel(axes, panel, limits, seen.spacing)
            if place == 0:
                axes.set_title(f"{heading}\n{panel.title}".strip(), fontsize=TEXT, pad=3)
        name_row(grid[place][0], role, case, f"slice {seen.index}")
    legend(figure, runs[0].classes, uncertain=False, truth=False)
    return figure
