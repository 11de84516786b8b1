"""Rows on real scans: the paper's table on ACDC and its table on volumes, beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, stdev

from coranet.paper.pages.evidence_parts import parts_of
from coranet.paper.pages.origin import origins_of
from coranet.paper.table_text import TableLine
from coranet.report.numbers import markdown

ROWS = {
    "supervised": ("Supervised", "V-Net"),
    "`pseudo_label`": ("PL", ""),
    "`mean_teacher`": ("MT", "MT"),
    "`ua_mt`": ("UA-MT", "UA-MT"),
    "`dan`": ("", "DAN"),
    "`advent`": ("", "ADVNET"),
    "`sassnet`": ("", "SASSNet"),
    "`dtc`": ("", "DTC"),
    "`unimatch`": ("UniMatch", ""),
    "`coranet`": ("Ours, several classes in one network", "Ours"),
    "`coranet:released`": ("Ours, as the released code does", ""),
    "`coranet:repaired`": ("Ours, repaired", "Ours, repaired"),
    "all scans labelled": ("Fully supervised", ""),
}
"""Rows, and what the paper's table on ACDC and its table on volumes call them."""
TITLES = ("ACDC, 14 of 70 patients labelled", "left atrium, 16 of 80 scans labelled")

Shown = Mapping[str, tuple[TableLine | None, TableLine | None]]
"""Rows by name, on both sets."""


def whole_table(runs: Path) -> str:
    """All rows."""
    shown = _lines(runs)
    steps = (origins_of(_runs(column)).steps for column in _columns(shown))
    return _table(shown, [f"{title}, {length} steps" for title, length in zip(TITLES, steps, strict=True)])


def _lines(runs: Path) -> Shown:
    hearts, volumes = (
        {line.row.label: line for line in parts_of(runs, name)[0].lines}  # the first block, on its first set
        for name in ("table9", "table5")
    )
    return {name: (hearts.get(heart), volumes.get(volume)) for name, (heart, volume) in ROWS.items()}


def _columns(shown: Shown) -> list[list[TableLine]]:
    return [[line for line in column if line] for column in zip(*shown.values(), strict=True)]


def _runs(lines: Iterable[TableLine]) -> list[Path]:
    return [run for line in lines for run in line.runs]


def _table(shown: Shown, titles: Iterable[str]) -> str:
    rows = [
        {"": name} | {title: _dice(line) for title, line in zip(titles, lines, strict=True) if line}
        for name, lines in shown.items()
    ]
    hearts, volumes = (origins_of(_runs(column)).commit for column in _columns(shown))
    return f"{markdown(rows)}\n\nCommits: ACDC {hearts}; left atrium {volumes}."


def _dice(line: TableLine) -> str:
    """Its mean, and its deviation over seeds."""
    dice = line.cells["dsc"].ours
    return f"{mean(dice):.1f} ± {stdev(dice):.1f}" if len(dice) > 1 else f"{mean(dice):.1f}"
