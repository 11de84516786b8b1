"""Figures 6 and 7: the contours of every method on test cases, in the paper's colours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from coranet.data.splits.by_patient import Split
from coranet.paper.figure_list import FIGURES
from coranet.paper.figures.finished import SettingRuns, find_runs, missing_words
from coranet.paper.figures.panels import edge, key, name_row, panel_grid
from coranet.paper.printed import MT, OURS, PI, SUPERVISED, TE, UA_MT
from coranet.paper.tables import TABLES
from coranet.report.numbers import number
from coranet.report.pictures.case_slices import choose_cases, cut_case
from coranet.report.pictures.paint import Panel, Picture, draw_panel, square_around
from coranet.report.run_files import FinishedRun, read_runs
from coranet.runs.exam import find_exam

TRUTH = "#FF2020"
COLOURS = {
    SUPERVISED: "#FF00FF",
    PI: "#1F3BFF",
    TE: "#00FFFF",
    MT: "#000000",
    UA_MT: "#00E000",
    OURS: "#FFE500",
}


def draw_pancreas(root: Path) -> list[Picture]:
    """Figure 6, one picture a set."""
    return _draw(root, "fig6", "table2")


def draw_endocardium(root: Path) -> list[Picture]:
    """Figure 7, one picture a set."""
    return _draw(root, "fig7", "table7")


def _draw(root: Path, name: str, table: str) -> list[Picture]:
    (needs,) = FIGURES[name].needs
    methods = {row.label: row.method for row in TABLES[table].blocks[0].rows if row.printed}
    return [_draw_set(name, found) for found in find_runs(root, needs, methods, "predictions")]


def _draw_set(name: str, found: SettingRuns) -> Picture:
    runs = {run.name: run for run in read_runs(found.shown(found.seed))}
    chooser = runs.get(OURS) or next(iter(runs.values()))
    chosen = choose_cases(chooser.scores)
    caption = (
        f"Contours on test cases, one column a method, with the truth in red: {found.words}, seed {found.seed}. Cases were"
        f" chosen by the Dice of {chooser.name}: {', '.join(chosen)}. Each is cut through the middle of the object (slices"
        " count from 0) and enlarged to where truth or a prediction has something. A method without a line found nothing"
        " in the slice. Above a panel stands the Dice of the whole case, not of the slice."
        f"{missing_words(found.missing([found.seed]))}"
    )
    figure = _panels(found, runs, chosen)
    return Picture(name=f"{name}-{found.setting.scans}", figure=figure, caption=caption)


def _panels(found: SettingRuns, runs: Mapping[str, FinishedRun], chosen: Mapping[str, str]) -> Figure:
    exam = find_exam(found.scans, Split.read(found.folder / "split.json"))
    figure, grid = panel_grid(len(chosen), len(runs))
    for place, (role, case) in enumerate(chosen.items()):
        seen = cut_case(case, list(runs.values()), exam.images, exam.labels, {})
        limits = square_around(np.any([seen.truth, *seen.predictions.values()], axis=0), seen.spacing)
        for axes, (label, run) in zip(grid[place], runs.items(), strict=True):
            dice = f"Dice {number(run.scores.by_case('dsc')[case], 3)}"
            title = dice if place else f"{label}\n{dice}"
            draw_panel(axes, Panel(image=seen.image, title=title), limits, seen.spacing)
            edge(axes, seen.truth, TRUTH, linewidth=2.4)  # seen beside a line that lies on it
            edge(axes, seen.predictions[label], COLOURS[label], linewidth=1.2)
        name_row(grid[place][0], role, case, f"slice {seen.index}")
    key(figure, lines={"truth": TRUTH} | {label: COLOURS[label] for label in runs}, areas={})
    return figure
