"""Which Dice a case without a label will have, and how far to trust that: fitted on cases whose truth is known.

    logit D = a + b logit E + c logit A,   b, c ≥ 0

E is the Dice that follows if every voxel of the object is wrong as often as its score says, A the Dice of the conservative
and the radical mask. The fit is held to D = E, so that a few cases move it a little and many move it as far as they say.
The interval is conformal: residuals of cases that were left out, patient by patient, in units of 1 - D, as bad cases spread
more (Lei et al., JASA 2018). With n patients it holds for n / (n + 1) of new ones at most, and that is what it claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, isnan

import numpy as np
from numpy.typing import NDArray

from coranet.errors import InputError
from coranet.metrics.case_facts import ClassFacts

Floats = NDArray[np.float64]

LEVEL = 0.9
"""Of new cases the share whose Dice is to lie in the interval, where there are patients enough to say so."""
FEWEST = 3
"""Patients below which nothing is fitted."""
_HELD = 2.0
"""How many cases the prior counts for."""
_EDGE = 0.02
"""Dice is taken to lie this far from 0 and 1, so that logits are finite."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An object of a case whose truth is known."""

    case: str
    patient: str
    facts: ClassFacts
    dice: float


@dataclass(frozen=True, kw_only=True)
class DiceFit:
    """From facts to an expected Dice and its interval."""

    weights: tuple[float, float, float] = (0.0, 1.0, 0.0)
    """a, b and c."""
    spread: float = 1.0
    """Half the interval of one class, in units of 1 - D."""
    spread_of_all: float = 1.0
    """Half the interval of a case's mean."""
    level: float = 0.0
    """Share of new cases that the interval is to hold."""

    def __post_init__(self) -> None:
        if not (all(abs(weight) <= 100 for weight in self.weights) and min(self.spread, self.spread_of_all) >= 0):
            raise InputError("A fit of Dice has weights between -100 and 100, and spreads that are not negative.")
        if not (max(self.spread, self.spread_of_all) <= 100 and 0 <= self.level <= 1):
            raise InputError("A fit of Dice has spreads of at most 100, and a level between 0 and 1.")

    def expect(self, facts: ClassFacts) -> float:
        """Of one object; NaN where none is expected."""
        return float("nan") if isnan(facts.expected) else float(_sigmoid(np.array(self.weights) @ _row(facts)))

    def interval(self, expected: float, *, of_all: bool = False) -> tuple[float, float]:
        """About an expected Dice, of one class or of a case's mean."""
        half = (self.spread_of_all if of_all else self.spread) * _unit(expected)
        return max(0.0, expected - half), min(1.0, expected + half)


def fit_dice(judged: Sequence[Judged]) -> DiceFit | None:
    """The fit, with an interval from patients left out; None where there are too few of them."""
    known = [one for one in judged if not isnan(one.dice) and not isnan(one.facts.expected)]
    patients = sorted({one.patient for one in known})
    if len(patients) < FEWEST:
        return None
    apart, apart_of_all = list[float](), list[float]()
    for patient in patients:
        weights = _solve([one for one in known if one.patient != patient])
        own = [one for one in known if one.patient == patient]
        guessed = [(one, DiceFit(weights=weights).expect(one.facts)) for one in own]
        apart.append(max(_distance(guess, one.dice) for one, guess in guessed))
        cases = [
            [(guess, one.dice) for one, guess in guessed if one.case == case] for case in {one.case for one in own}
        ]
        apart_of_all.append(max(_distance(*np.mean(pairs, axis=0)) for pairs in cases))
    n = len(patients)
    level = min(LEVEL, n / (n + 1))
    return DiceFit(
        weights=_solve(known),
        spread=_conformal(apart, level),
        spread_of_all=_conformal(apart_of_all, level),
        level=level,
    )


def _solve(judged: Sequence[Judged]) -> tuple[float, float, float]:
    """Least squares held to (0, 1, 0), with b and c not below 0: the best of those that set some of them to 0."""
    rows = np.array([_row(one.facts) for one in judged])
    target = np.array([_logit(one.dice) for one in judged])
    prior, best, lowest = np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.inf
    for free in product((True, False), repeat=2):
        used = np.array([True, *free])
        bend = rows[:, used].T @ rows[:, used] + np.eye(int(used.sum())) * _HELD
        pull = rows[:, used].T @ target + prior[used] * _HELD
        weights = np.zeros(3)
        weights[used] = np.linalg.solve(bend, pull)
        loss = float(((rows @ weights - target) ** 2).sum() + _HELD * ((weights - prior) ** 2).sum())
        if (weights[1:] >= 0).all() and loss < lowest:
            best, lowest = weights, loss
    a, b, c = (float(weight) for weight in best.clip(-100, 100))
    return a, b, c


def _conformal(residuals: Sequence[float], level: float) -> float:
    """The residual of a patient, its worst, that the level is not above, counting the patient that is to come."""
    ranked = sorted(residuals)
    return float(min(100.0, ranked[min(len(ranked), ceil((len(ranked) + 1) * level)) - 1]))


def _distance(expected: float, dice: float) -> float:
    return abs(dice - expected) / _unit(expected)


def _unit(expected: float) -> float:
    return 1 - expected + 0.05


def _row(facts: ClassFacts) -> Floats:
    e = _logit(facts.expected)
    return np.array([1.0, e, e if isnan(facts.agreement) else _logit(facts.agreement)])


def _logit(share: float) -> float:
    inside = min(max(share, _EDGE), 1 - _EDGE)
    return float(np.log(inside / (1 - inside)))


def _sigmoid(x: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-x))
    return result
