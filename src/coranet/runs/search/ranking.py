"""Which rows of a search do best, by validation cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from statistics import mean


def ranked(dice: Mapping[str, Sequence[float]]) -> list[str]:
    """Rows, best first; of equals the one that was named first."""
    return sorted(dice, key=lambda row: -worth(dice[row]))


def worth(values: Sequence[float]) -> float:
    """The mean over seeds; one that cannot be said counts as the worst."""
    return found if values and not isnan(found := mean(values)) else -1.0
