"""The probability that a voxel's label is wrong, fitted on cases that were not trained on.

    P(wrong) = σ(w · f),   f = (1, z, (z - 2)₊, t)

z and t are the logits of the main head's confidence and of what the estimator says (`tally.py`). With w = (0, -1, 0, 0)
this is softmax's own word, 1 - max p. The fit is a logistic regression that is held to this prior, each case weighing the
same: what few cases do not tell stays as it was. t is used only where it helps to find errors. Further signs, the region
and whether an object is predicted, were tried and left out: what networks of the folds say of them does not carry over to
the run itself (docs/uncertainty.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.types import Prediction
from coranet.uncertainty.tally import Counts, Signs, Tally

PRIOR = (0.0, -1.0, 0.0, 0.0)
KNOT = 2.0
_WEIGHT = 2000.0
"""What a case counts for, in voxels that would be independent; the prior counts for one of them in each direction."""
_LARGEST = 100.0
"""Of a weight that may be read from a file."""


@dataclass(frozen=True, kw_only=True)
class Wrongness:
    """From signs of doubt to a probability."""

    weights: tuple[float, ...] = PRIOR

    def __post_init__(self) -> None:
        if len(self.weights) != len(PRIOR) or not max(map(abs, self.weights)) <= _LARGEST:
            raise InputError(f"A fit of the score has {len(PRIOR)} weights between -{_LARGEST:g} and {_LARGEST:g}.")

    def of(self, signs: Signs) -> Tensor:
        """P(wrong) of each voxel."""
        total = torch.zeros_like(signs.z)
        for weight, feature in zip(self.weights, _features(signs), strict=True):
            total += weight * feature
        return total.sigmoid_()

    def __call__(self, prediction: Prediction) -> Tensor:
        """P(wrong) of images `(B, *S)`."""
        return self.of(Signs.of(prediction))

    def in_cells(self) -> Counts:
        """P(wrong) at the middle of each cell."""
        middle: Counts = self.of(Signs.of_cells()).numpy()
        return middle

    def expected_dice(self, tally: Tally) -> Counts:
        """The Dice of each object, were labels wrong as often as is said: `(K - 1,)`, 0 where nothing is found.

        2 TP / (2 TP + FP + FN) = 1 - FP / found  where FN = FP,   FP = Σ P(wrong) where it is found

        As much is taken to be missed as is invented. What is said of voxels that are not found was tried for FN. It ranks
        cases as well and no better, and small doubts of a whole background add up (docs/uncertainty.md).
        """
        size = tally.found.sum(axis=1)
        dice: Counts = np.where(size > 0, 1 - (tally.found @ self.in_cells()) / size.clip(1), 0.0)
        return dice


def fit_wrongness(cases: Sequence[Tally]) -> Wrongness:
    """By both signs, if in the region's volume this finds more errors of these cases than confidence alone; else by that."""
    both, alone = (Wrongness(weights=_newton(cases, used)) for used in (4, 3))
    found = [np.mean([tally.errors_held(one.in_cells()) for tally in cases]) for one in (both, alone)]
    return both if both.weights[-1] > 0 and found[0] > found[1] else alone


def _newton(cases: Sequence[Tally], used: int) -> tuple[float, ...]:
    """The weights that are most likely, of which so many are used and the others 0: Newton's steps, until none moves."""
    features = np.stack([feature.numpy() for feature in _features(Signs.of_cells())], axis=1)[:, :used]
    voxels, wrong = (
        sum((_WEIGHT / case.voxels.sum() * getattr(case, kind) for case in cases), np.zeros(len(features)))
        for kind in ("voxels", "wrong")
    )
    held = np.average(features**2, axis=0, weights=voxels).clip(0.01)
    prior, weights = np.array(PRIOR[:used]), np.array(PRIOR[:used])
    for _ in range(100):
        p = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (wrong - voxels * p) - held * (weights - prior)
        bend = (features.T * (voxels * p * (1 - p))) @ features + np.diag(held)
        step = np.linalg.solve(bend, slope)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return (*weights.clip(-_LARGEST, _LARGEST).tolist(), *[0.0] * (len(PRIOR) - used))


def _features(signs: Signs) -> Iterator[Tensor]:
    """f, one after the other, so that no more than two of a volume lie in memory."""
    yield torch.ones_like(signs.z)
    yield signs.z
    yield (signs.z - KNOT).clamp(min=0)
    yield signs.t
