"""The scores of a set of predictions: a row for each case and class, and what they say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from coranet.evaluation.rows import Row
from coranet.evaluation.table import read_rows, write_rows
from coranet.metrics import METRICS, Status, Summary, mean_of_present, summarise

Json = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Rows in the order of cases and classes, the same for slices where they were asked for, and remarks on the whole."""

    rows: tuple[Row, ...]
    slices: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()

    def by_case(self, metric: str) -> dict[str, float]:
        """Each case's mean over the classes present in it, NaN where there is none: what is averaged and compared."""
        return {case: _mean(rows, metric) for case, rows in _grouped(self.rows, lambda row: row.case).items()}

    def mean_of(self, metric: str, class_name: str | None = None) -> float:
        """What `mean` or `per_class` say of one metric, without its interval, which takes far longer than the mean."""
        if class_name is None:
            return float(mean_of_present(np.array(list(self.by_case(metric).values()))))
        return _mean((row for row in self.rows if row.class_name == class_name), metric)

    def mean(self) -> dict[str, Summary]:
        """Each metric over cases, a case being worth the mean of its classes."""
        return {metric: summarise(list(self.by_case(metric).values())) for metric in METRICS}

    def per_class(self) -> dict[str, dict[str, Summary]]:
        """Each metric over the cases that have the class, in prediction or label."""
        return {
            name: {metric: summarise([getattr(row, metric) for row in rows]) for metric in METRICS}
            for name, rows in _by_class(self.rows).items()
        }

    def to_json(self) -> Json:
        """All of it as plain values, None for NaN; `std` and `intervals` have the form of `mean` and `per_class`."""
        mean, per_class = self.mean(), self.per_class()

        def of_each(get: Callable[[Summary], object]) -> Json:
            return {"mean": _each(mean, get), "per_class": _each(per_class, lambda metrics: _each(metrics, get))}

        content = {
            **of_each(lambda summary: summary.mean),
            "per_case": _per_case(self.rows),
            "std": of_each(lambda summary: summary.std),
            "intervals": of_each(lambda summary: [summary.low, summary.high]),
            "counts": _counts(self.rows),
            "notes": list(self.notes),
        }
        if self.slices:
            content["per_slice"] = _over_slices(self.slices)
        plain: Json = _without_nan(content)
        return plain

    def write_csv(self, path: Path) -> None:
        """Write the rows to `path`, and those of slices beside it as `<name>_slices.csv`; notes are not kept.

        Raises:
            InputError: a file cannot be written.
        """
        write_rows(path, self.rows)
        if self.slices:
            write_rows(_slices_beside(path), self.slices)
        else:
            _slices_beside(path).unlink(missing_ok=True)

    @classmethod
    def read_csv(cls, path: Path) -> Scores:
        """Read what `write_csv` wrote.

        Raises:
            InputError: a file is missing or is not a table of scores.
        """
        slices = _slices_beside(path)
        return cls(rows=read_rows(path), slices=read_rows(slices) if slices.exists() else ())


def _slices_beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}_slices{path.suffix}")


def _per_case(rows: Iterable[Row]) -> Json:
    return {
        case: {
            row.class_name: {metric: getattr(row, metric) for metric in METRICS} | {"status": row.status} for row in of
        }
        for case, of in _grouped(rows, lambda row: row.case).items()
    }


def _over_slices(rows: Iterable[Row]) -> Json:
    """Means over the slices of all cases together. They are not independent, so they have no interval."""
    slices = _grouped(rows, lambda row: (row.case, row.slice_index)).values()
    by_slice = {metric: np.array([_mean(of, metric) for of in slices]) for metric in METRICS}
    return {
        "mean": _each(by_slice, lambda values: float(mean_of_present(values))),
        "per_class": {name: {metric: _mean(of, metric) for metric in METRICS} for name, of in _by_class(rows).items()},
        "counts": _counts(rows),
    }


def _counts(rows: Iterable[Row]) -> Json:
    """How many rows of each class have which status."""
    found = {name: Counter(row.status for row in of) for name, of in _by_class(rows).items()}
    return _each(found, lambda counter: {status: counter[status] for status in get_args(Status)})


def _mean(rows: Iterable[Row], metric: str) -> float:
    return float(mean_of_present(np.array([getattr(row, metric) for row in rows])))


def _by_class(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return _grouped(rows, lambda row: row.class_name)


def _grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _each(values: Mapping[str, T], get: Callable[[T], object]) -> Json:
    return {name: get(value) for name, value in values.items()}


def _without_nan(value: Any) -> Any:
    """The same structure with None for NaN, which JSON has no word for."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and isnan(value) else value
