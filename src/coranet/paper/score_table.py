"""Scores of many runs as one table with typed columns: a line for each run, case and class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import PurePosixPath
from typing import Any, Final

from coranet.errors import InputError
from coranet.evaluation import Row
from coranet.metrics.mask import METRICS
from coranet.metrics.overlap import Counts

OVERLAPS: Final = ("dsc", "jaccard", "ppv", "tpr")
"""Metrics that follow from the first of them and the two counts of voxels, to the last digit."""

COLUMNS: Final[Mapping[str, type]] = {
    "run": str,
    "scores": str,
    "case": str,
    "class_name": str,
    "value": int,
    "status": str,
    "dsc": float,
    **dict.fromkeys(("hd", "hd95", "asd", "assd", "hd_mm", "hd95_mm", "asd_mm", "assd_mm"), float),
    "prediction_voxels": int,
    "label_voxels": int,
}
"""The columns and their types. A number that is NaN is written as nothing. Of `OVERLAPS` only the first is here.

A metric that is not here is not stored, so that a new one leaves what is stored as it is.
"""

Tables = Mapping[str, tuple[Row, ...]]
"""Scores by the path of their file: `paper/la-16/coranet-seed0/scores.csv`."""


def write_text(tables: Tables) -> str:
    """The table in the order of paths; the same scores give the same text.

    Raises:
        InputError: overlaps are not those of the voxels that were counted.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for file in sorted(tables):
        table.writerows(_lines(PurePosixPath(file), tables[file]))
    return text.getvalue()


def read_text(text: str) -> dict[str, tuple[Row, ...]]:
    """Read what this or another version of `write_text` wrote. A metric that the text does not have is NaN.

    Raises:
        ValueError: it is another table.
    """
    table = csv.DictReader(io.StringIO(text))
    if lacking := [name for name in COLUMNS if name not in METRICS and name not in (table.fieldnames or ())]:
        raise ValueError(f"it has no column {', '.join(lacking)}")
    tables: dict[str, list[Row]] = {}
    for line in table:
        values = {name: _value(kind, line.get(name) or "") for name, kind in COLUMNS.items()}
        file = f"{values.pop('run')}/{values.pop('scores')}.csv"
        overlaps = _overlaps(values)
        known = {name: values.pop(name) for name in COLUMNS if name in METRICS} | overlaps
        tables.setdefault(file, []).append(Row(**values, values={name: known.get(name, nan) for name in METRICS}))
    return {file: tuple(rows) for file, rows in tables.items()}


def _lines(file: PurePosixPath, rows: Sequence[Row]) -> Iterator[list[str]]:
    for row in rows:
        values = {"run": str(file.parent), "scores": file.stem} | vars(row) | dict(row.values)
        found = {name: values[name] for name in OVERLAPS}
        if row.status != "absent" and _overlaps(values) != found:
            raise InputError(
                f"{file}: overlaps of {row.case} are not those of its voxels. Score it by coranet evaluate."
            )
        yield [_cell(values[name]) for name in COLUMNS]


def _overlaps(values: Mapping[str, Any]) -> dict[str, float]:
    """All of them, of a row that has but the first; without a mask or a label there is nothing that they share."""
    dsc, ours, theirs = values["dsc"], values["prediction_voxels"], values["label_voxels"]
    if values["status"] != "scored":
        return dict.fromkeys(OVERLAPS, dsc)
    shared = round(dsc * (ours + theirs) / 2)
    counts = Counts(tp=shared, fp=ours - shared, fn=theirs - shared)
    return {name: getattr(counts, name) for name in OVERLAPS}


def _value(kind: type, cell: str) -> Any:
    return kind(cell or "nan") if kind is float else kind(cell)


def _cell(value: str | float) -> str:
    return "" if isinstance(value, float) and isnan(value) else str(value)
