"""The same slices through all runs: image, truth, predictions, and what one of the runs is uncertain about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from coranet.report.case_slices import CaseSlice, choose_cases, cut_case
from coranet.report.numbers import number
from coranet.report.paint import LARGEST, TEXT, WIDTH, Panel, Picture, draw_panel, legend, plain, square_around
from coranet.report.run_files import FinishedRun

REGIONS = ("conservative", "radical", "uncertain")
"""Maps that a run may have beside its prediction."""


def draw_comparison(runs: Sequence[FinishedRun], images: Path, labels: Path) -> Picture:
    """Rows are test cases, columns what is known and said of them."""
    chosen = choose_cases(runs[0].scores)
    source, kinds = _regions(runs, chosen.values())
    columns = 2 + len(runs) + len(kinds)
    side = min(WIDTH / (columns + 0.5), LARGEST)
    figure = Figure(figsize=(side * (columns + 0.5), (side + 0.2) * len(chosen) + 0.8), layout="constrained")
    grid = figure.subplots(len(chosen), columns, squeeze=False)
    for line, (role, case) in zip(grid, chosen.items(), strict=True):
        seen = cut_case(case, runs, images, labels, {kind: source.region(case, kind) for kind in kinds})
        limits = square_around(np.any([seen.truth, *seen.predictions.values()], axis=0), seen.spacing)
        for axes, panel in zip(line, _panels(seen, runs, source), strict=True):
            draw_panel(axes, panel, limits, seen.spacing)
        line[0].set_ylabel(f"{role}\n{plain(case)}\nslice {seen.index}", fontsize=TEXT)
    for axes, heading in zip(grid[0], ("image", "truth", *(run.name for run in runs), *kinds), strict=True):
        axes.set_title(f"{fill(plain(heading), 16)}\n{axes.get_title()}".strip(), fontsize=TEXT, pad=3)
    legend(figure, runs[0].classes, uncertain="uncertain" in kinds, truth=True)
    return Picture(name="comparison", figure=figure, caption=_caption(runs[0], list(chosen), source, kinds))


def _regions(runs: Sequence[FinishedRun], cases: Collection[str]) -> tuple[FinishedRun, list[str]]:
    """The run with the most kinds of regions for all cases, the first of equals, and which kinds they are."""
    there = {
        run.name: [kind for kind in REGIONS if all(run.region(case, kind).exists() for case in cases)] for run in runs
    }
    source = max(runs, key=lambda run: len(there[run.name]))
    return source, there[source.name]


def _panels(seen: CaseSlice, runs: Sequence[FinishedRun], source: FinishedRun) -> list[Panel]:
    bare = Panel(image=seen.image)
    panels = [bare, replace(bare, filled=seen.truth)]
    for run in runs:
        title = f"Dice {number(run.scores.by_case('dsc')[seen.case], 3)}"
        panels.append(replace(bare, title=title, filled=seen.predictions[run.name], truth=seen.truth))
    for kind, region in seen.regions.items():
        uncertain = replace(bare, uncertain=region, outlined=seen.predictions[source.name])
        panels.append(uncertain if kind == "uncertain" else replace(bare, filled=region))
    return panels


def _caption(first: FinishedRun, roles: list[str], source: FinishedRun, kinds: list[str]) -> str:
    said = (
        f"Test cases chosen by the DSC of {first.name}: {', '.join(roles)}. Each is cut through the middle of the object "
        "(slices count from 0) and enlarged to where truth or a prediction has something. Coloured areas are classes; where "
        "a prediction leaves the truth, the edge of the truth shows in white. Above a prediction stands the mean Dice of "
        "the whole case, not of the slice."
    )
    if "conservative" in kinds:
        said += (
            f" The conservative mask of {source.name} marks only what it is sure of, the radical one all that may belong to "
            "an object."
        )
    if "uncertain" in kinds:
        said += f" Red is where {source.name} is uncertain: look there first. The lines are its prediction."
    return said
