"""The same slices through all runs: image, truth, predictions, and what one of the runs is uncertain about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from coranet.evaluation.folders import class_maps
from coranet.report.numbers import number
from coranet.report.pictures.case_slices import CaseSlice, choose_cases, cut_case
from coranet.report.pictures.paint import LARGEST, TEXT, WIDTH, Panel, Picture, draw_panel, legend, plain, square_around
from coranet.report.pictures.upright import SIDES
from coranet.report.run_files import FinishedRun

REGIONS = ("conservative", "radical", "uncertain")
"""Maps that a run may have beside its prediction."""


def draw_comparison(runs: Sequence[FinishedRun], images: Path, labels: Path | None) -> Picture | None:
    """Rows are test cases, columns what is known and said of them; None where no run has predicted one.

    Args:
        runs: those that lack the prediction of a case that is shown are left out.
        images: the folder of the scans.
        labels: the folder of their labels, where there is one.
    """
    chosen = shown_cases(runs)
    runs = [run for run in runs if chosen and all(run.prediction(case).exists() for case in chosen.values())]
    if not runs:
        return None
    source, kinds = _regions(runs, chosen.values())
    known = ("image",) if labels is None else ("image", "truth")
    columns = len(known) + len(runs) + len(kinds)
    side = min(WIDTH / (columns + 0.5), LARGEST)
    figure = Figure(figsize=(side * (columns + 0.5), (side + 0.2) * len(chosen) + 0.8), layout="constrained")
    grid = figure.subplots(len(chosen), columns, squeeze=False)
    for line, (role, case) in zip(grid, chosen.items(), strict=True):
        seen = cut_case(case, runs, images, labels, {kind: source.region(case, kind) for kind in kinds})
        limits = square_around(np.any([seen.truth, *seen.predictions.values()], axis=0), seen.spacing)
        for axes, panel in zip(line, _panels(seen, runs, source, truth=labels is not None), strict=True):
            draw_panel(axes, panel, limits, seen.spacing)
        line[0].set_ylabel(f"{role}\n{plain(case)}\nslice {seen.index + 1}".strip(), fontsize=TEXT)
    for axes, heading in zip(grid[0], (*known, *(run.name for run in runs), *kinds), strict=True):
        axes.set_title(f"{fill(plain(heading), 16)}\n{axes.get_title()}".strip(), fontsize=TEXT, pad=3)
    legend(figure, runs[0].classes, uncertain="uncertain" in kinds, truth=labels is not None)
    chooser = next((run for run in runs if run.scored), None)
    caption = _caption(chooser, list(chosen), source, kinds, truth=labels is not None)
    return Picture(name="comparison", figure=figure, caption=caption)


def shown_cases(runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Cases by their role: chosen by the first run's scores or, without any, four of those that were predicted."""
    if scored := next((run for run in runs if run.scored), None):
        return choose_cases(scored.scores)
    predicted = next((names for run in runs if (names := list(class_maps(run.predicted)))), [])
    places = sorted({round(place) for place in np.linspace(0, len(predicted) - 1, 4)}) if predicted else []
    return {f"{place + 1} of {len(predicted)}": predicted[place] for place in places}


def _regions(runs: Sequence[FinishedRun], cases: Collection[str]) -> tuple[FinishedRun, list[str]]:
    """The run with the most kinds of regions for all cases, the first of equals, and which kinds they are."""
    there = {
        run.name: [kind for kind in REGIONS if all(run.region(case, kind).exists() for case in cases)] for run in runs
    }
    source = max(runs, key=lambda run: len(there[run.name]))
    return source, there[source.name]


def _panels(seen: CaseSlice, runs: Sequence[FinishedRun], source: FinishedRun, *, truth: bool) -> list[Panel]:
    bare = Panel(image=seen.image)
    panels = [bare, replace(bare, filled=seen.truth)] if truth else [bare]
    for run in runs:
        dice = run.scores.by_case("dsc").get(seen.case)
        title = "" if dice is None else f"Dice {number(dice, 3)}"
        panels.append(replace(bare, title=title, filled=seen.predictions[run.name], truth=seen.truth))
    for kind, region in seen.regions.items():
        uncertain = replace(bare, uncertain=region, outlined=seen.predictions[source.name])
        panels.append(uncertain if kind == "uncertain" else replace(bare, filled=region))
    return panels


def _caption(
    chooser: FinishedRun | None, roles: list[str], source: FinishedRun, kinds: list[str], *, truth: bool
) -> str:
    said = f"Test cases chosen by the DSC of {chooser.name}: {', '.join(roles)}." if chooser else "Some of the cases."
    said += (
        " Each is cut through the middle of the object and enlarged to where truth or a prediction has something. "
        f"{SIDES} Coloured areas are classes."
    )
    if truth:
        said += " Where a prediction leaves the truth, the edge of the truth shows in white."
    if chooser:
        said += " Above a prediction stands the mean Dice of the whole case, not of the slice."
    if "conservative" in kinds:
        said += (
            f" The conservative mask of {source.name} marks only what it is sure of, the radical one all that may belong to "
            "an object."
        )
    if "uncertain" in kinds:
        said += f" Red is where {source.name} is uncertain: look there first. The lines are its prediction."
    return said
