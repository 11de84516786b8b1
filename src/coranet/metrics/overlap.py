"""How much of two masks is shared, from three counts: tp, fp, fn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Voxels that are right, invented and missed. A ratio over no voxel at all is NaN."""

    tp: int
    fp: int
    fn: int

    @property
    def dsc(self) -> float:
        """Dice similarity coefficient: 2 tp / (2 tp + fp + fn)."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def jaccard(self) -> float:
        """Jaccard index, by another name critical success index (CSI): tp / (tp + fp + fn)."""
        return _ratio(self.tp, self.tp + self.fp + self.fn)

    @property
    def ppv(self) -> float:
        """Positive predictive value, precision: tp / (tp + fp)."""
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def tpr(self) -> float:
        """True positive rate, recall: tp / (tp + fn)."""
        return _ratio(self.tp, self.tp + self.fn)


def count(prediction: Mask, label: Mask) -> Counts:
    """Compare two masks of one shape, voxel by voxel."""
    assert prediction.shape == label.shape, (prediction.shape, label.shape)
    tp = int(np.count_nonzero(prediction & label))
    return Counts(tp=tp, fp=int(np.count_nonzero(prediction)) - tp, fn=int(np.count_nonzero(label)) - tp)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
