"""Rows of scores as a CSV file: one line a row, numbers in full, nothing where a number is NaN."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import cast, get_args

from coranet.data.problem import FileError
from coranet.evaluation.rows import Row
from coranet.file_names import special_kind
from coranet.files import write_atomically
from coranet.metrics import METRICS, Status

_BEFORE = ("case", "class_name", "value", "slice_index", "status")
_AFTER = ("prediction_voxels", "label_voxels")
"""Columns on either side of the metrics. All but `slice_index` are in every table."""


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows in one move: a reader finds the old file or the whole new one. Only slices have a `slice_index`."""
    sliced = any(row.slice_index is not None for row in rows)
    columns = [name for name in (*_BEFORE, *METRICS, *_AFTER) if name != "slice_index" or sliced]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_as_text(getattr(row, name)) for name in columns] for row in rows)
    write_atomically(path, text.getvalue().encode())


def read_rows(path: Path) -> tuple[Row, ...]:
    """Read what this or another version of `write_rows` wrote.

    A metric that the file does not have is NaN. A column that is not known is passed over.

    Raises:
        InputError: the file is missing or is not a table of scores.
    """
    try:
        if kind := special_kind(path):
            raise FileError(path, f"is {kind}, not a file", "Score the predictions again")
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            _check_columns(table.fieldnames or ())
            return tuple(_row_of(line) for line in table)
    except FileError:
        raise
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror})", "Check the path") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise FileError(path, f"is not a table of scores ({error})", "Score the predictions again") from error


def _check_columns(columns: Collection[str]) -> None:
    needed = [name for name in (*_BEFORE, *_AFTER) if name != "slice_index"]
    if lacking := [name for name in needed if name not in columns]:
        raise ValueError(f"no column {', '.join(lacking)}")
    if not METRICS.keys() & columns:
        raise ValueError("no column of a metric")


def _row_of(line: Mapping[str | None, str]) -> Row:
    if None in line:
        raise ValueError("a line is longer than the first")
    status = line["status"]
    if status not in get_args(Status):
        raise ValueError(f"no status is called {status}")
    return Row(
        case=line["case"],
        class_name=line["class_name"],
        value=int(line["value"]),
        slice_index=int(line["slice_index"]) if "slice_index" in line else None,
        status=cast(Status, status),
        values={name: float(line.get(name) or "nan") for name in METRICS},
        prediction_voxels=int(line["prediction_voxels"]),
        label_voxels=int(line["label_voxels"]),
    )


def _as_text(value: str | float) -> str:
    return "" if isinstance(value, float) and isnan(value) else str(value)
