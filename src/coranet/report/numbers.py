"""Scores in words: the rows of every table, each a text by column."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import NamedTuple

from coranet.metrics import Comparison, Summary, compare
from coranet.report.run_files import FinishedRun, read_runs

TableRow = dict[str, str]
"""Text by the title of its column."""


class Measure(NamedTuple):
    """How a metric is shown."""

    title: str
    digits: int


MEASURES = {
    "dsc": Measure("DSC", 3),
    "jaccard": Measure("Jaccard", 3),
    "hd95_mm": Measure("HD95 mm", 2),
    "asd_mm": Measure("ASD mm", 2),
}
"""What reports show of all that is scored."""

NOTHING = "–"
"""Where there is no number."""


def table_text(runs: Mapping[str, Path]) -> list[TableRow]:
    """The table of the console: for each run mean DSC with its interval, DSC by class, HD95 and failures.

    Raises:
        InputError: a run lacks a file, or runs were not scored on the same cases.
    """
    return [_console_row(run) for run in read_runs(runs)]


def _console_row(run: FinishedRun) -> TableRow:
    mean = run.scores.mean()
    by_class = {f"DSC {name}": of["dsc"] for name, of in run.scores.per_class().items()}
    return {
        "run": run.name,
        "DSC": with_interval(mean["dsc"], 3),
        **{title: number(summary.mean, 3) for title, summary in by_class.items()},
        "HD95 mm": number(mean["hd95_mm"].mean, 2),
        "failures": failures(run),
    }


def score_row(run: FinishedRun) -> TableRow:
    """Each measure over cases, with its interval, and failures."""
    mean = run.scores.mean()
    shown = {measure.title: with_interval(mean[metric], measure.digits) for metric, measure in MEASURES.items()}
    return {"run": run.name, **shown, "failures": failures(run)}


def class_row(run: FinishedRun) -> TableRow:
    """DSC of each class over the cases that have it."""
    return {"run": run.name, **{name: with_interval(of["dsc"], 3) for name, of in run.scores.per_class().items()}}


def difference_row(run: FinishedRun, base: FinishedRun) -> TableRow:
    """Each measure's mean over cases of run minus base, with its interval and p."""

    def text(metric: str, digits: int) -> str:
        found = compare(run.scores.by_case(metric), base.scores.by_case(metric))
        return NOTHING if isnan(found.difference) else f"{with_interval(found, digits)}, {p_value(found.p)}"

    pair = {"run": f"{run.name} − {base.name}"}
    return pair | {measure.title: text(metric, measure.digits) for metric, measure in MEASURES.items()}


def failures(run: FinishedRun) -> str:
    """How many objects were missed or invented, of all that are there or were predicted."""
    statuses = [row.status for row in run.scores.rows if row.status != "absent"]
    return f"{sum(status != 'scored' for status in statuses)} of {len(statuses)}"


def number(value: float, digits: int) -> str:
    """Rounded, or a dash for NaN."""
    return NOTHING if isnan(value) else f"{value:.{digits}f}"


def with_interval(found: Summary | Comparison, digits: int) -> str:
    """`mean [low, high]`; differences always have a sign."""
    if isinstance(found, Summary):
        return (
            NOTHING
            if isnan(found.mean)
            else f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
        )
    return f"{found.difference:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def p_value(p: float) -> str:
    """With as many digits as mean something."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def csv_text(rows: Sequence[Mapping[str, str | float]]) -> str:
    """Rows with a header of all their columns."""
    content = io.StringIO()
    writer = csv.DictWriter(content, dict.fromkeys(column for row in rows for column in row))
    writer.writeheader()
    writer.writerows(rows)
    return content.getvalue()


def markdown(rows: Sequence[TableRow]) -> str:
    """Rows as a table of a text file, with a header of all their columns."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, ["---"] * len(columns), *([row.get(column, NOTHING) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
