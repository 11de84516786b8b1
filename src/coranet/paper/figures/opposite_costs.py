"""Figure 1: two models that were trained apart with opposite costs, and where they disagree."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from coranet.data.readers import source
from coranet.data.splits.by_patient import Split
from coranet.metrics import count
from coranet.paper.figure_list import COSTLY, FIGURES
from coranet.paper.figures.finished import SettingRuns, find_runs
from coranet.paper.figures.panels import YELLOW, edge, key, name_row, panel_grid
from coranet.report.pictures.case_slices import cut_case
from coranet.report.pictures.paint import UNCERTAIN, Panel, Picture, colour_of, draw_panel, square_around
from coranet.report.run_files import FinishedRun, read_runs
from coranet.runs.exam import find_exam

Pair = tuple[FinishedRun, FinishedRun]
"""The conservative model and the radical one."""


def draw_opposites(root: Path) -> list[Picture]:
    """One picture a set; none where only one of the two models is there."""
    (needs,) = FIGURES["fig1"].needs
    every = find_runs(root, needs, COSTLY, "predictions")
    return [_draw(found) for found in every if len(found.shown(found.seed)) == len(COSTLY)]


def choose_by_agreement(agreement: dict[str, float]) -> dict[str, str]:
    """Up to three cases by their place in the order of agreement; two empty masks agree about nothing and come last."""
    ranked = sorted(agreement, key=lambda case: (isnan(agreement[case]), agreement[case], case))
    seen = [case for case in ranked if not isnan(agreement[case])] or ranked
    wanted = {"least agreement": 0, "most agreement": len(seen) - 1, "median": len(seen) // 2}
    places: dict[int, str] = {}
    for role, place in wanted.items():
        places.setdefault(place, role)
    return {places[place]: seen[place] for place in sorted(places)}


def _draw(found: SettingRuns) -> Picture:
    conservative, radical = read_runs(found.shown(found.seed))
    exam = find_exam(found.scans, Split.read(found.folder / "split.json"))
    agreement = {case: _agreement(conservative.prediction(case), radical.prediction(case)) for case in exam.cases}
    chosen = choose_by_agreement(agreement)
    caption = (
        "Two models trained apart, by cross-entropy of opposite costs (conservative: a false object costs five times as much"
        f" as a missed one; radical: the reverse), on test cases: {found.words}, seed {found.seed}. Red is where they"
        " disagree: the uncertain region. The yellow line is the truth. Cases were chosen by how far the two agree"
        f" over the whole case (Dice between them): {', '.join(chosen)}. Each is cut through the middle of the object"
        " (slices count from 0) and enlarged to where any mask has something."
    )
    figure = _panels((conservative, radical), exam.images, exam.labels, chosen, agreement)
    return Picture(name=f"fig1-{found.setting.scans}", figure=figure, caption=caption)


def _panels(pair: Pair, images: Path, labels: Path, chosen: dict[str, str], agreement: dict[str, float]) -> Figure:
    figure, grid = panel_grid(len(chosen), 4)
    for line, (role, case) in zip(grid, chosen.items(), strict=True):
        seen = cut_case(case, pair, images, labels, {})
        cautious, bold = (seen.predictions[run.name] for run in pair)
        limits = square_around(np.any([seen.truth, cautious, bold], axis=0), seen.spacing)
        said = "nothing predicted" if isnan(agreement[case]) else f"Dice between them {agreement[case]:.3f}"
        panels = (
            Panel(image=seen.image, title="image and truth"),
            Panel(image=seen.image, title=pair[0].name, filled=cautious),
            Panel(image=seen.image, title=pair[1].name, filled=bold),
            Panel(image=seen.image, title=f"where they disagree\n{said}", uncertain=cautious != bold),
        )
        for axes, panel in zip(line, panels, strict=True):
            draw_panel(axes, panel, limits, seen.spacing)
            edge(axes, seen.truth, YELLOW)
        name_row(line[0], role, case, f"slice {seen.index}")
    key(figure, lines={"truth": YELLOW}, areas={"predicted object": colour_of(1), "uncertain": UNCERTAIN})
    return figure


def _agreement(first: Path, second: Path) -> float:
    """Dice between two predictions, any class an object; NaN where both are empty."""
    one, other = (_mask(file) for file in (first, second))
    return count(one, other).dsc


def _mask(file: Path) -> NDArray[np.bool_]:
    array: NDArray[Any] = source(file).read().array
    return array > 0
