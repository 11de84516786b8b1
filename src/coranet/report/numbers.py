"""Which numbers of a run are shown, and how a number is written.

To add a column, give it a row here: in `MEASURES` if it is one of `coranet.metrics.METRICS`, in `FACTS` if it is anything
else that the files of a run say. Pages and tables of comparisons then have it; every table has the facts of `WORK`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, nan
from statistics import mean
from typing import NamedTuple

from coranet.evaluation import Scores
from coranet.metrics import Comparison, Summary
from coranet.report.run_files import FinishedRun

TableRow = dict[str, str]
"""Text by the title of its column."""


class Measure(NamedTuple):
    """How a metric is shown. The page and table.csv have every measure."""

    title: str
    digits: int
    brief: bool = False
    """Whether the console and table.md, which are narrow, have it too."""


MEASURES = {
    "dsc": Measure("DSC", 3, brief=True),
    "jaccard": Measure("Jaccard", 3),
    "hd95_mm": Measure("HD95 mm", 2, brief=True),
    "asd_mm": Measure("ASD mm", 2),
}
"""By the name of the metric."""


class Fact(NamedTuple):
    """What a run's files say of it, other than the mean of a metric."""

    of: Callable[[FinishedRun], float]
    """Of a run; NaN where its files do not say."""
    digits: int = 0
    over: Callable[[Sequence[float]], float] = mean
    """Of runs that differ by their seed: `min` for the least of all."""

    def value(self, runs: Sequence[FinishedRun]) -> float:
        """Of all runs together; NaN where one of them does not say."""
        each = [self.of(run) for run in runs]
        return nan if not each or any(map(isnan, each)) else self.over(each)

    def text(self, runs: Sequence[FinishedRun]) -> str:
        """The same, or a dash."""
        return number(self.value(runs), self.digits)


def _last(name: str) -> Fact:
    """What the last line of the log says under a name."""
    return Fact(lambda run: float(run.log[-1].get(name, nan)) if run.log else nan)


FACTS = {
    "steps": _last("step"),
    "updates": _last("updates"),
    "images": _last("images"),
    "seconds": Fact(lambda run: run.seconds if run.log else nan),
}
"""By the title of the column, with its unit where it has one."""

WORK = ("updates", "images")
"""The facts that stand in every table that compares methods: optimizer steps, and images learnt from."""

NOTHING = "–"
"""Where there is no number."""


def number(value: float, digits: int) -> str:
    """Rounded, or a dash for NaN."""
    return NOTHING if isnan(value) else f"{value:.{digits}f}"


def with_interval(found: Summary | Comparison, digits: int) -> str:
    """`mean [low, high]`; differences always have a sign."""
    if isinstance(found, Summary):
        interval = f"[{found.low:.{digits}f}, {found.high:.{digits}f}]"
        return NOTHING if isnan(found.mean) else f"{found.mean:.{digits}f} {interval}"
    return f"{found.difference:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def in_points(found: Comparison) -> str:
    """A difference of shares in points of a percent, with its interval."""
    return f"{100 * found.difference:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def failures(scores: Iterable[Scores]) -> str:
    """How many objects were missed or invented, of all that are there or were predicted."""
    statuses = [row.status for one in scores for row in one.rows if row.status != "absent"]
    return f"{sum(status != 'scored' for status in statuses)} of {len(statuses)}" if statuses else NOTHING


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
