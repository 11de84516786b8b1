"""Whether the cases that were expected to be bad are bad: `cases.csv` of predictions against their scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, isnan
from pathlib import Path
from typing import Any

import numpy as np

from coranet.evaluation.quality import CASES, Quality, read_qualities
from coranet.evaluation.scores import Scores

FAILED = 0.5
"""A case fails if its Dice is below this, or if an object is missed altogether."""
_FIRST = 0.1
"""Of the list, what a person would look at."""


@dataclass(frozen=True, kw_only=True)
class Foresight:
    """What a list of cases, worst first, knew of their Dice."""

    cases: int
    rank_correlation: float
    """Spearman's, of expected and true Dice; NaN without a fit, or of fewer than three cases."""
    off: float
    """How far expected Dice lies from the true one, in the mean of absolute differences."""
    covered: float
    """Share of cases whose Dice lies in its interval."""
    failures: int
    failures_first: int
    """Failures in the first tenth of the list, or in its first case where that is fewer."""
    first: int
    """Cases in that tenth."""

    def to_json(self) -> dict[str, Any]:
        """As plain values, None for NaN."""
        return {name: None if isinstance(v, float) and isnan(v) else v for name, v in asdict(self).items()}

    def in_words(self) -> str:
        """For a person."""
        among = f", {self.failures_first} of them among the first {self.first} of {CASES}" if self.failures else ""
        if not self.cases:
            return f"{CASES} says nothing of these cases."
        said = [f"Poor (Dice below {FAILED}, or an object missed): {self.failures} of {self.cases} cases{among}."]
        if not isnan(self.rank_correlation):
            said.insert(0, f"Expected Dice ranks {self.cases} cases with a correlation of {self.rank_correlation:.2f}.")
        if not isnan(self.off):
            held = f"its interval holds {100 * self.covered:.0f} % of them"
            said.append(f"It is {100 * self.off:.1f} points off in the mean, and {held}.")
        return " ".join(said)


def foresee(predictions: Path, scores: Scores) -> Foresight | None:
    """Hold the table of cases beside predictions against their scores; None where there is none.

    Raises:
        InputError: the table is broken.
    """
    if not (predictions / CASES).is_file():
        return None
    dice = {case: value for case, value in scores.by_case("dsc").items() if not isnan(value)}
    listed = [row for row in read_qualities(predictions) if row.whole and row.case in dice]
    missed = {row.case for row in scores.rows if row.status == "missed"}
    failed = [row.case in missed or dice[row.case] < FAILED for row in listed]
    first = min(len(listed), max(1, ceil(_FIRST * len(listed))))
    known = [row for row in listed if not isnan(row.expected)]
    return Foresight(
        cases=len(listed),
        rank_correlation=_ranked(known, dice),
        off=float(np.mean([abs(row.expected - dice[row.case]) for row in known])) if known else float("nan"),
        covered=float(np.mean([row.low <= dice[row.case] <= row.high for row in known])) if known else float("nan"),
        failures=sum(failed),
        failures_first=sum(failed[:first]),
        first=first,
    )


def _ranked(rows: list[Quality], dice: dict[str, float]) -> float:
    expected, true = [row.expected for row in rows], [dice[row.case] for row in rows]
    if len(rows) < 3 or len(set(expected)) == 1 or len(set(true)) == 1:
        return float("nan")
    from scipy.stats import spearmanr  # takes longer to load than all else here

    return float(spearmanr(expected, true).statistic)
