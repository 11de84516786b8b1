"""The probability that a voxel's label is wrong, fitted on cases that were not trained on.

    P(wrong) = σ(w · f),   f = (1, z, (z - 2)₊, (z - 5)₊, t, u, o, u z, o z)

z and t are the logits of the main head's confidence and of what the estimator says, u and o whether the voxel is uncertain
and whether it is an object's (`tally.py`). With w = (0, -1, 0, ...) this is softmax's own word, 1 - max p. The fit is a
logistic regression that is held to this prior, each case weighing the same: what few cases do not tell stays as it was.
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

PRIOR = (0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
KNOTS = (2.0, 5.0)
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
        """What Dice each object would have, if labels were wrong as often as is said: `(K - 1,)`, NaN where none is expected.

            2 TP / (2 TP + FP + FN),   FP = Σ P(wrong) where it is found,   FN = Σ P(wrong) of its share elsewhere
        """
        wrong, size = self.in_cells(), tally.found.sum(axis=1)
        invented, missed = tally.found @ wrong, tally.second @ wrong
        whole = 2 * size - invented + missed
        return np.divide(2 * (size - invented), whole, out=np.full(len(size), np.nan), where=whole > 0)


def fit_wrongness(cases: Sequence[Tally]) -> Wrongness:
    """Newton's steps on the log-likelihood, until none moves."""
    features = np.stack([feature.numpy() for feature in _features(Signs.of_cells())], axis=1)
    voxels, wrong = (
        sum((_WEIGHT / case.voxels.sum() * getattr(case, kind) for case in cases), np.zeros(len(features)))
        for kind in ("voxels", "wrong")
    )
    seen = voxels > 0
    features, voxels, wrong = features[seen], voxels[seen], wrong[seen]
    scale = np.sqrt(np.average(features**2, axis=0, weights=voxels)).clip(0.1)
    prior, weights = np.array(PRIOR), np.array(PRIOR)
    for _ in range(100):
        p = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (wrong - voxels * p) - scale**2 * (weights - prior)
        bend = (features.T * (voxels * p * (1 - p))) @ features + np.diag(scale**2)
        step = np.linalg.solve(bend, slope)
        weights = weights + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return Wrongness(weights=tuple(float(weight) for weight in weights.clip(-_LARGEST, _LARGEST)))


def _features(signs: Signs) -> Iterator[Tensor]:
    """f, one after the other, so that no more than two of a volume lie in memory."""
    z, u, o = signs.z, signs.uncertain, signs.object
    yield torch.ones_like(z)
    yield z
    yield from ((z - knot).clamp(min=0) for knot in KNOTS)
    yield from (signs.t, u, o, u * z, o * z)
