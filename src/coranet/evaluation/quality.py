"""`cases.csv` beside predictions: for each case and class the Dice to expect, and what stands out; the worst case first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path

import numpy as np

from coranet.data.problem import FileError
from coranet.evaluation.oddities import FLAGS, Usual, class_flags, scan_flags
from coranet.files import write_atomically
from coranet.metrics import mean_of_present
from coranet.metrics.case_facts import CaseFacts
from coranet.metrics.expectation import DiceFit

CASES = "cases.csv"
ALL = "all"
"""The class of a case's own row."""
COLUMNS = ("case", "class", "expected_dice", "low", "high", "millilitres", "flags")
NOT_PREDICTED = "not predicted"
"""The flag of a scan that could not be: the first of all, and all there is in its row."""
_BETWEEN = "; "


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What to expect of one class of a case, or of all."""

    case: str
    class_name: str
    expected: float = nan
    """Dice; NaN where the run has no fit, or the class is not expected."""
    low: float = nan
    high: float = nan
    millilitres: float = nan
    """Of what was found; NaN where the scan was not predicted."""
    flags: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether it is the row of the whole case."""
        return self.class_name == ALL


def judge(
    cases: Mapping[str, CaseFacts], usual: Usual, fit: DiceFit | None, refused: Iterable[str] = ()
) -> tuple[Quality, ...]:
    """The rows of all cases, worst first: by expected Dice or, without a fit, by flags and then by uncertain volume.

    Those that were `refused`, because they could not be predicted, come before all others.
    """
    usual = usual.or_of(list(cases.values()))
    rows = {case: _rows_of(case, facts, usual, fit) for case, facts in cases.items()}
    worst = sorted(rows, key=lambda case: (_rank(rows[case][-1]), -cases[case].doubt, case))
    nothing = [Quality(case=case, class_name=ALL, flags=(NOT_PREDICTED,)) for case in refused]
    return (*nothing, *(row for case in worst for row in (rows[case][-1], *rows[case][:-1])))


def write_qualities(folder: Path, rows: Sequence[Quality]) -> Path:
    """Write `cases.csv`; returns it."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for row in rows:
        numbers = ("" if isnan(value) else f"{value:.4f}" for value in (row.expected, row.low, row.high))
        volume = "" if isnan(row.millilitres) else f"{row.millilitres:.6g}"
        lines.writerow((row.case, row.class_name, *numbers, volume, _BETWEEN.join(row.flags)))
    write_atomically(folder / CASES, text.getvalue().encode())
    return folder / CASES


def read_qualities(folder: Path) -> tuple[Quality, ...]:
    """What `write_qualities` wrote, in its order.

    Raises:
        InputError: it is missing, or is no such table.
    """
    file = folder / CASES
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            table = csv.DictReader(lines)
            if lacking := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
                raise ValueError(f"no column {', '.join(lacking)}")
            return tuple(_row_of(line) for line in table)
    except OSError as error:
        remedy = "Make it with coranet predict RUN SCANS --out DIR"
        raise FileError(file, f"cannot be read ({error.strerror})", remedy) from error
    except (TypeError, ValueError, AttributeError, csv.Error) as error:
        raise FileError(file, f"is not a table of cases ({error})", "Predict the scans again") from error


def why(row: Quality, of_class: Sequence[Quality]) -> str:
    """What to say of a case in a line: the Dice to expect, and what stands out where; nothing where neither is known."""
    said = [] if isnan(row.expected) else [f"expected Dice {row.expected:.2f} ({row.low:.2f} to {row.high:.2f})"]
    for flag in row.flags:
        names = [one.class_name for one in of_class if flag in one.flags]
        said.append(f"{flag}: {', '.join(names)}" if names else flag)
    return _BETWEEN.join(said)


def _rows_of(case: str, facts: CaseFacts, usual: Usual, fit: DiceFit | None) -> list[Quality]:
    """Its classes, and itself last."""
    rows = []
    for name, of in facts.classes.items():
        row = Quality(case=case, class_name=name, millilitres=of.millilitres, flags=class_flags(name, of, usual))
        wanted = of.millilitres > 0 or row.flags or usual.expects(name)
        expected = fit.expect(of) if fit and wanted else nan
        if fit and not isnan(expected):
            low, high = fit.interval(expected)
            row = replace(row, expected=expected, low=low, high=high)
        rows.append(row)
    expected = float(mean_of_present(np.array([row.expected for row in rows])))
    low, high = fit.interval(expected, of_all=True) if fit and not isnan(expected) else (nan, nan)
    found = {*scan_flags(facts, usual), *(flag for row in rows for flag in row.flags)}
    flags = tuple(flag for flag in FLAGS if flag in found)
    whole = Quality(
        case=case,
        class_name=ALL,
        expected=expected,
        low=low,
        high=high,
        millilitres=sum(facts.sizes.values()),
        flags=flags,
    )
    return [*rows, whole]


def _rank(row: Quality) -> tuple[float, float]:
    """Small where a case is bad: by expected Dice where that is known, else by the gravest flag and their number."""
    if not isnan(row.expected):
        return row.expected, 0.0
    first = min((FLAGS.index(flag) for flag in row.flags), default=len(FLAGS))
    return float(first), -float(len(row.flags))


def _row_of(line: Mapping[str, str]) -> Quality:
    flags = tuple(flag for flag in line["flags"].split(_BETWEEN) if flag)
    if unknown := [flag for flag in flags if flag not in (NOT_PREDICTED, *FLAGS)]:
        raise ValueError(f"no flag is called {unknown[0]!r}")
    numbers = ("expected_dice", "low", "high", "millilitres")
    expected, low, high, millilitres = (float(line[name] or "nan") for name in numbers)
    return Quality(
        case=line["case"],
        class_name=line["class"],
        expected=expected,
        low=low,
        high=high,
        millilitres=millilitres,
        flags=flags,
    )
