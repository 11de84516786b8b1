"""Figures 3 and 4: pseudo-labels by their source, the first ones and those of every refresh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import isnan
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coranet.paper.collection import JUDGED
from coranet.paper.figure_list import FIGURES, SOURCES
from coranet.paper.figures.finished import SettingRuns, by_set, find_runs, missing_words
from coranet.paper.figures.label_quality import SHARES, Shares, find_unlabelled, judge_labels
from coranet.report.curves import INKS, mark_steps
from coranet.report.pictures.paint import TEXT, WIDTH, Picture, plain

Measured = Mapping[str, Mapping[int, Mapping[int, Shares]]]
"""By source, step and seed."""

ABOUT = (
    " Pseudo-labels of unlabelled cases against their true labels, which no training has seen, over all pixels of all cases:"
    " PPV = tp / (tp + fp), TPR = tp / (tp + fn), CSI = tp / (tp + fp + fn). A pixel that a source is not certain of has no"
    " pseudo-label and counts as not foreground. A source without any foreground has no PPV. CRM's runs train its two heads"
    " through the shared encoder as well, so that sources differ in their labels too, not in their regions alone."
)


def measure(found: SettingRuns, *, first: bool) -> Measured:
    """Each source's pseudo-labels, of the first refresh of each run or of all."""
    truth = cache(lambda: find_unlabelled(found.scans, found.some_run).truth())
    measured: dict[str, dict[int, dict[int, Shares]]] = {}
    for label, by_seed in found.runs.items():
        steps = measured.setdefault(label, {})
        for seed, run in by_seed.items():
            for step, shares in list(judge_labels(run, truth).items())[: 1 if first else None]:
                steps.setdefault(step, {})[seed] = shares
    return measured


def rows_of(found: SettingRuns, measured: Measured) -> list[Mapping[str, str | float]]:
    """One for each source, step and seed, in percent."""

    def row(label: str, step: int, seed: int, shares: Shares) -> Mapping[str, str | float]:
        rounded = {title: round(share, 4) for title, share in shares.items()}
        return {"setting": found.setting.name, "source": label, "step": step, "seed": seed, **rounded}

    return [
        row(label, step, seed, shares)
        for label, steps in measured.items()
        for step, by_seed in steps.items()
        for seed, shares in by_seed.items()
    ]


def judge_sources(root: Path) -> None:
    """Look at all pseudo-labels of figures 3 and 4 while maps and scans are there: their runs keep what was found."""
    for name in ("fig3", "fig4"):
        for needs in FIGURES[name].needs:
            for found in find_runs(root, needs, SOURCES, "maps"):
                measure(found, first=False)


def draw_first(root: Path) -> list[Picture]:
    """Figure 3: bars, one picture a set."""
    every = [one for needs in FIGURES["fig3"].needs for one in find_runs(root, needs, SOURCES, "maps", JUDGED)]
    return [_draw_first(scans, found) for scans, found in by_set(every).items()]


def _draw_first(scans: str, found: Sequence[SettingRuns]) -> Picture:
    figure = Figure(figsize=(WIDTH, 3.3 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), len(SHARES), squeeze=False, sharey=True)
    measured = [measure(one, first=True) for one in found]
    for line, one, sources in zip(grid, found, measured, strict=True):
        first = {label: [one for each in steps.values() for one in each.values()] for label, steps in sources.items()}
        for axes, title in zip(line, SHARES, strict=True):
            _bars(axes, {label: _known(shares, title) for label, shares in first.items()})
            axes.set_title(title, fontsize=TEXT + 1)
        line[0].set_ylabel(f"{plain(one.setting.name)}\n%", fontsize=TEXT)
    caption = (
        f"The first pseudo-labels, after training on labels alone: {_places(found)}. Bars are means over seeds, lines their"
        f" standard deviation, cut at 0 and 100 %.{ABOUT}{missing_words(*(one.missing(one.seeds) for one in found))}"
    )
    numbers = [row for one, sources in zip(found, measured, strict=True) for row in rows_of(one, sources)]
    return Picture(name=f"fig3-{scans}", figure=figure, caption=caption, numbers=numbers)


def draw_course(root: Path) -> list[Picture]:
    """Figure 4: lines over steps, one picture a set."""
    (needs,) = FIGURES["fig4"].needs
    return [_draw_course(found) for found in find_runs(root, needs, SOURCES, "maps", JUDGED)]


def _draw_course(found: SettingRuns) -> Picture:
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    panels = figure.subplots(1, len(SHARES))
    measured = measure(found, first=False)
    for axes, title in zip(panels, SHARES, strict=True):
        for ink, (label, steps) in zip(INKS, measured.items(), strict=False):
            every = {step: _known(by_seed.values(), title) for step, by_seed in steps.items()}
            by_step = {step: values for step, values in every.items() if values}
            if by_step:
                _line(axes, by_step, label, ink)
        mark_steps(axes)
        axes.set_title(f"{title}, %", fontsize=TEXT + 1)
    handles, labels = max((axes.get_legend_handles_labels() for axes in panels), key=lambda both: len(both[1]))
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SOURCES), fontsize=TEXT, frameon=False)
    caption = (
        "Plain self-training on the certain pixels of each source, at every refresh of its pseudo-labels:"
        f" {_places([found])}. Lines are means over seeds, bands one standard deviation about them, cut at 0 and"
        f" 100 %.{ABOUT}"
        f"{missing_words(found.missing(found.seeds))}"
    )
    numbers = rows_of(found, measured)
    return Picture(name=f"fig4-{found.setting.scans}", figure=figure, caption=caption, numbers=numbers)


def _bars(axes: Axes, values: Mapping[str, Sequence[float]]) -> None:
    for place, (ink, (label, seeds)) in enumerate(zip(INKS, values.items(), strict=False)):
        if not seeds:
            axes.text(place, 1, "none", ha="center", fontsize=TEXT, color="0.4")
            continue
        height, spread = mean(seeds), _spread(seeds)
        axes.bar(place, height, color=ink, width=0.7, label=plain(label))
        if spread:
            down, up = min(spread, height), min(spread, 100 - height)  # there are no shares beyond 0 and 100 %
            axes.errorbar(place, height, yerr=[[down], [up]], color="black", capsize=4, linewidth=1.2)
        axes.text(place, min(height + spread, 100) + 1.5, f"{height:.1f}", ha="center", fontsize=TEXT)
    axes.set_xticks(range(len(values)), [plain(label).replace(" ", "\n") for label in values], fontsize=TEXT)
    axes.set(ylim=(0, 112), yticks=range(0, 101, 25), xlim=(-0.6, len(values) - 0.4))
    axes.tick_params(labelsize=TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="0.9")


def _line(axes: Axes, by_step: Mapping[int, Sequence[float]], label: str, ink: str) -> None:
    steps, middle = list(by_step), np.array([mean(values) for values in by_step.values()])
    spread = np.array([_spread(values) for values in by_step.values()])
    axes.plot(steps, middle, color=ink, marker="o", markersize=4, label=plain(label))
    if spread.any():
        low, high = np.clip([middle - spread, middle + spread], 0, 100)
        axes.fill_between(steps, low, high, color=ink, alpha=0.15, linewidth=0)


def _known(shares: Iterable[Shares], title: str) -> list[float]:
    """Of each seed that has a value."""
    return [one[title] for one in shares if not isnan(one[title])]


def _spread(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _places(found: Sequence[SettingRuns]) -> str:
    return "; ".join(f"{one.words}, seed {' and '.join(map(str, one.seeds))}" for one in found)
