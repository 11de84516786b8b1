"""What many cases say together: means with their spread, and whether one method beats another.

The unit is the case: the voxels, slices and classes of one patient are not independent, so cases are what is drawn
again. NaN marks a case in which there was nothing to score; it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from coranet.errors import InputError

Floats = NDArray[np.float64]

RESAMPLES = 5_000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A mean over cases, and how far to trust it."""

    mean: float
    std: float
    """Sample standard deviation over cases (n - 1); NaN for a single one."""
    n: int
    """Cases with a value."""
    low: float
    high: float
    """Ends of the 95 % percentile bootstrap interval of the mean."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two methods on the same cases, first minus second."""

    difference: float
    low: float
    high: float
    """Ends of the 95 % percentile bootstrap interval of the mean difference."""
    p: float
    """Wilcoxon signed-rank test, two-sided; 1 where no case differs."""
    n: int
    """Cases for which both methods have a value."""


def summarise(values: Sequence[float] | Floats, *, seed: int = 0) -> Summary:
    """Mean, standard deviation and interval of one value per case `(N,)`."""
    cases = np.asarray(values, dtype=np.float64)
    present = cases[~np.isnan(cases)]
    low, high = _interval(cases, seed)
    return Summary(
        mean=float(mean_of_present(cases)),
        std=float(present.std(ddof=1)) if len(present) > 1 else float("nan"),
        n=len(present),
        low=low,
        high=high,
    )


def compare(first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0) -> Comparison:
    """Compare two methods by their value for each case.

    Raises:
        InputError: the two were not scored on the same cases.
    """
    if unshared := sorted(first.keys() ^ second.keys()):
        raise InputError(f"Only one of the two has the cases {', '.join(unshared)}. Score both on the same cases.")
    from scipy.stats import wilcoxon  # takes longer to load than all else here

    differences = np.array([first[case] - second[case] for case in sorted(first)])
    moved = differences[~np.isnan(differences) & (differences != 0)]
    summary = summarise(differences, seed=seed)
    return Comparison(
        difference=summary.mean,
        low=summary.low,
        high=summary.high,
        p=float(wilcoxon(moved).pvalue) if len(moved) else 1.0,
        n=summary.n,
    )


def by_patient(cases: Mapping[str, float], patients: Mapping[str, str]) -> dict[str, float]:
    """Each patient's mean over its cases; a case whose patient is not said is its own.

    Slices and phases of one patient are no independent witnesses: counted one by one they make any difference significant.
    """
    found: dict[str, list[float]] = {}
    for case, value in cases.items():
        found.setdefault(patients.get(case, case), []).append(value)
    return {patient: float(mean_of_present(np.array(values))) for patient, values in found.items()}


def mean_of_present(values: Floats, axis: int = 0) -> Floats:
    """Mean along an axis of what is not NaN; NaN where nothing is left."""
    present = ~np.isnan(values)
    n = present.sum(axis=axis)
    total = np.where(present, values, 0.0).sum(axis=axis)
    mean: Floats = np.divide(total, n, out=np.full(np.shape(n), np.nan), where=n > 0)
    return mean


def _interval(cases: Floats, seed: int) -> tuple[float, float]:
    """Percentiles of the means of cases drawn with replacement, as many as there are."""
    present = ~np.isnan(cases)
    if not present.any():
        return float("nan"), float("nan")
    times = _draws(len(cases), seed)
    drawn = times @ present
    means = (times @ np.where(present, cases, 0.0))[drawn > 0] / drawn[drawn > 0]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


@lru_cache(maxsize=1)
def _draws(n: int, seed: int) -> Floats:
    """How often each of n cases is drawn, `(RESAMPLES, n)`: the same for all metrics and classes of the same cases."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)
