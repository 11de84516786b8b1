"""Figures 5 and 8: where runs are uncertain about an unlabelled slice, over the refreshes and by the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from coranet.paper.figure_list import FIGURES
from coranet.paper.figures.finished import SettingRuns, by_set, find_runs, missing_words
from coranet.paper.figures.label_quality import find_unlabelled, middling_case, refreshes
from coranet.paper.figures.panels import YELLOW, edge, key, name_row, panel_grid, room_about
from coranet.paper.tables import COSTS
from coranet.report.pictures.paint import UNCERTAIN, Panel, Picture, draw_panel

SHOWN = 5
"""Refreshes in a row."""
ALPHAS = {label: method for label, method in COSTS.items() if "*" not in label}
PAPERS_OWN = "α = 5"

Files = Callable[[SettingRuns], tuple[Path, Mapping[str, Path]]]
"""The maps a case is chosen by, and those that are shown, by title."""

ABOUT = (
    " Red is where the conservative and the radical head disagree, the yellow line is the truth, which no training has seen."
    " Panels are enlarged about the object; the share of uncertain pixels is that of the whole slice, and slices count from"
    " 0."
)


def draw_refreshes(root: Path) -> list[Picture]:
    """Figure 5, one picture a set."""
    every = [one for needs in FIGURES["fig5"].needs for one in find_runs(root, needs, {"CoraNet": "coranet"}, "maps")]
    return [
        Picture(
            name=f"fig5-{scans}",
            figure=_draw(found, _by_step, bare=False),
            caption="The uncertain region of an unlabelled case in the course of self-training, at evenly spaced refreshes"
            f" of the masks, {SHOWN} at most: CoraNet in {_places(found)}. The case is the one whose share of uncertain"
            f" pixels at the first refresh is the median of all unlabelled cases.{ABOUT}",
        )
        for scans, found in by_set(every).items()
    ]


def draw_costs(root: Path) -> list[Picture]:
    """Figure 8, one picture a set."""
    every = [one for needs in FIGURES["fig8"].needs for one in find_runs(root, needs, ALPHAS, "maps")]
    return [
        Picture(
            name=f"fig8-{scans}",
            figure=_draw(found, _by_cost, bare=True),
            caption=f"The first uncertain region of an unlabelled case, after training on labels alone, by the cost α:"
            f" CoraNet in {_places(found)}. The case is the one whose share of uncertain pixels by the run with"
            f" {' and '.join(dict.fromkeys(map(_chooser, found)))} is the median of all unlabelled cases.{ABOUT}"
            f"{missing_words(*(one.missing([one.seed]) for one in found))}",
        )
        for scans, found in by_set(every).items()
    ]


def _by_step(found: SettingRuns) -> tuple[Path, Mapping[str, Path]]:
    files = refreshes(found.shown(found.seed)["CoraNet"])
    places = np.linspace(0, len(files) - 1, min(len(files), SHOWN)).round().astype(int)
    shown = [list(files.items())[place] for place in places]
    return shown[0][1], {f"step {step}": file for step, file in shown}


def _by_cost(found: SettingRuns) -> tuple[Path, Mapping[str, Path]]:
    first = {label: next(iter(refreshes(run).values())) for label, run in found.shown(found.seed).items()}
    return first[_chooser(found)], first


def _chooser(found: SettingRuns) -> str:
    """The run that a case is chosen by: the paper's own cost, or the first that is there."""
    shown = found.shown(found.seed)
    return PAPERS_OWN if PAPERS_OWN in shown else next(iter(shown))


def _draw(found: Sequence[SettingRuns], files_of: Files, *, bare: bool) -> Figure:
    """A row for each setting; with a panel of the image and the truth alone before the others, or without."""
    chosen = [files_of(one) for one in found]
    figure, grid = panel_grid(len(found), bare + max(len(shown) for _, shown in chosen))
    for line, one, (chooser, shown) in zip(grid, found, chosen, strict=True):
        unlabelled = find_unlabelled(one.scans, next(iter(one.shown(one.seed).values())))
        seen = unlabelled.slice_of(middling_case(chooser, unlabelled.cases))
        limits = room_about(seen.truth, seen.spacing)
        panels = [Panel(image=seen.image, title="image and truth")] if bare else []
        for title, file in shown.items():
            uncertain = seen.uncertain(file)
            said = f"{title}\n{100 * uncertain.mean():.1f} % uncertain"
            panels.append(Panel(image=seen.image, uncertain=uncertain, title=said))
        for axes, panel in zip(line, panels, strict=False):
            draw_panel(axes, panel, limits, seen.spacing)
            edge(axes, seen.truth, YELLOW)
        for axes in line[len(panels) :]:
            axes.set_axis_off()
        name_row(line[0], one.setting.name, seen.case, f"slice {seen.index}")
    key(figure, lines={"truth": YELLOW}, areas={"uncertain": UNCERTAIN})
    return figure


def _places(found: Sequence[SettingRuns]) -> str:
    return "; ".join(f"{one.words}, seed {one.seed}" for one in found)
