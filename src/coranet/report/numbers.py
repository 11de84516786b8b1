"""Which numbers of a run are shown, and how a number is written.

To add a column, give it a row here: in `MEASURES` if it is one of `coranet.metrics.METRICS`, in `FACTS` if it is anything
else that the files of a run say. The page, the console, table.md and table.csv then have it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import NamedTuple

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
    """What a run's files say of it, other than scores."""

    of: Callable[[FinishedRun], float]
    """Of a run that has a log."""
    digits: int = 0


FACTS = {
    "steps": Fact(lambda run: int(run.log[-1]["step"])),
    "updates": Fact(lambda run: int(run.log[-1]["updates"])),
    "images": Fact(lambda run: int(run.log[-1]["images"])),
    "seconds": Fact(lambda run: run.seconds),
}
"""By the title of the column. Runs of several seeds show their mean."""

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
