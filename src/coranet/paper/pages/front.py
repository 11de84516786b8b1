"""What the default reaches beside labels alone: the front page's table, from the scores in `benchmarks/results/`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from coranet.report.numbers import TableRow, markdown

HEADS = ("labels alone", "UniMatch", "`coranet:plus`")


class Shown(NamedTuple):
    """A row of the front page, and where its runs lie in development.csv."""

    title: str
    queue: str
    splits: str
    """What the names of its splits begin with."""
    step: str
    rows: tuple[str, str, str] = ("supervised", "", "plus")
    """What its columns are called there."""


ROWS = (
    Shown(
        "ACDC, slices, 14 labelled patients, 2 splits", "together", "acdc", "5000", ("supervised", "unimatch", "plus")
    ),
    Shown("left atrium, volumes, 16 labelled, 2 seeds", "volumes", "la-dev1-16", "1300"),
    Shown("left atrium, volumes, 8 labelled, 1 seed", "volumes", "la-dev1-8", "900"),
    Shown(
        "hippocampus, slices, 10 labelled, on a CPU, 2 splits",
        "windows",
        "hippocampus",
        "1000",
        ("supervised, snug", "", "plus, snug"),
    ),
)
DEMO = ("generated hearts, slices, 4 labelled, on a CPU, 5 seeds", "e91ecb4")
"""The demo's own row, and the commit of its last runs."""


def front_table(scores: Path) -> str:
    """Mean Dice of what a user gets without asking."""
    development = _read(scores / "development.csv")
    return markdown([*(_line(development, row) for row in ROWS), _demo(_read(scores / "demo.csv"))])


def _line(development: Sequence[dict[str, str]], shown: Shown) -> TableRow:
    place = (shown.queue, shown.step)
    runs = [
        row for row in development if (row["queue"], row["step"]) == place and row["split"].startswith(shown.splits)
    ]
    found = [[float(run["dice"]) for run in runs if run["row"] == name] for name in shown.rows]
    return {"": shown.title} | {head: f"{mean(dice):.1f}" for head, dice in zip(HEADS, found, strict=True) if dice}


def _demo(demo: Sequence[dict[str, str]]) -> TableRow:
    title, commit = DEMO
    found = [
        100 * mean(float(row["dice"]) for row in demo if (row["method"], row["commit"]) == (method, commit))
        for method in ("supervised", "coranet:plus")
    ]
    return {"": title} | {head: f"{dice:.1f}" for head, dice in zip((HEADS[0], HEADS[2]), found, strict=True)}


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))
