"""Rows of scores as a CSV file: one line a row, numbers in full, nothing where a number is NaN."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from coranet.data.problem import FileError
from coranet.evaluation.rows import Row
from coranet.files import write_atomically
from coranet.metrics import METRICS

_READERS: dict[str, Callable[[str], Any]] = {
    "case": str,
    "class_name": str,
    "value": int,
    "slice_index": int,
    "status": str,
    **dict.fromkeys(METRICS, lambda text: float(text or "nan")),
    "prediction_voxels": int,
    "label_voxels": int,
}
"""The columns in their order, each with what turns its text into a value."""


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows in one move: a reader finds the old file or the whole new one. Only slices have a `slice_index`."""
    columns = [name for name in _READERS if name != "slice_index" or any(row.slice_index is not None for row in rows)]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_as_text(getattr(row, name)) for name in columns] for row in rows)
    write_atomically(path, text.getvalue().encode())


def read_rows(path: Path) -> tuple[Row, ...]:
    """Read what `write_rows` wrote.

    Raises:
        InputError: the file is missing or is not a table of scores.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            if {*(table.fieldnames or ()), "slice_index"} != _READERS.keys():
                raise ValueError("other columns")
            return tuple(Row(**{name: _READERS[name](text) for name, text in line.items()}) for line in table)
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror})", "Check the path") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise FileError(path, "is not a table of scores", "Score the predictions again") from error


def _as_text(value: str | float) -> str:
    return "" if isinstance(value, float) and isnan(value) else str(value)
