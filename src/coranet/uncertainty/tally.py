"""How often each sign of doubt occurs in a case: counts in small cells, from which any fit is made and any sum is read.

A voxel has two signs. z is the logit of the largest probability. t is the logit of what the estimator says; for the
conservative-radical module that is how far its two heads lie apart. A cell is a small range of each. A case of any size
has the same 1,792 cells, so that a fit over many cases is quick and needs no second pass over voxels.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.types import Prediction

Counts = NDArray[np.float64]

Z = (-2.0, 14.0, 64)
T = (-7.0, 7.0, 28)
"""From, to and how many cells, of the two signs."""
CELLS = Z[2] * T[2]


@dataclass(frozen=True, kw_only=True)
class Signs:
    """The two signs of voxels, both of one shape."""

    z: Tensor
    t: Tensor

    @classmethod
    def of(cls, prediction: Prediction) -> Signs:
        """Of every voxel, `(B, *S)`."""
        assert prediction.regions is not None
        highest = prediction.probabilities.float().amax(dim=1)
        return cls(z=torch.logit(highest, eps=1e-6), t=torch.logit(prediction.regions.score.float(), eps=1e-3))

    @classmethod
    def of_cells(cls) -> Signs:
        """At the middle of every cell, `(CELLS,)`."""
        middles = (torch.linspace(low, high, 2 * n + 1, dtype=torch.float64)[1::2] for low, high, n in (Z, T))
        z, t = torch.meshgrid(*middles, indexing="ij")
        return cls(z=z.flatten(), t=t.flatten())

    def cells(self) -> Tensor:
        """The number of each voxel's cell."""
        z, t = (
            ((sign - low) * (n / (high - low))).int().clamp(0, n - 1)
            for sign, (low, high, n) in ((self.z, Z), (self.t, T))
        )
        return z * T[2] + t


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Voxels of a case by cell, its region and the masks of each object, all of which add up over parts of the case."""

    voxels: Counts
    """`(CELLS,)`."""
    wrong: Counts
    """`(CELLS,)`: those of them whose label is wrong; all 0 where the truth is not known."""
    found: Counts
    """`(K - 1, CELLS)`: those that are predicted to be each object."""
    masks: Counts
    """`(K - 1, 3)`: voxels of the conservative mask, of the radical one and of both; all 0 where there are none."""
    uncertain: float
    """Voxels of the uncertain region."""

    @classmethod
    def of(cls, prediction: Prediction, label: Tensor | None = None) -> Tally:
        """Of images `(B, *S)`, with the truth `(B, *S)` where it is known."""
        assert prediction.regions is not None
        cells, guess = Signs.of(prediction).cells().flatten(), prediction.probabilities.argmax(dim=1)
        objects = range(1, prediction.probabilities.shape[1])

        def count(some: Tensor) -> Counts:
            counted: Counts = torch.bincount(some, minlength=CELLS).double().cpu().numpy()
            return counted

        return cls(
            voxels=count(cells),
            wrong=np.zeros(CELLS) if label is None else count(cells[(guess != label).flatten()]),
            found=np.stack([count(cells[(guess == k).flatten()]) for k in objects]),
            masks=np.array([_overlap(prediction, k) for k in objects]),
            uncertain=float(prediction.regions.uncertain.sum()),
        )

    def errors_held(self, score: Counts) -> float:
        """The share of errors in the voxels of the highest score, as many as the uncertain region has; 0 without errors."""
        order = np.argsort(-score, kind="stable")
        voxels, wrong = (np.append(0.0, np.cumsum(counts[order])) for counts in (self.voxels, self.wrong))
        return float(np.interp(self.uncertain, voxels, wrong) / max(wrong[-1], 1.0))

    def __add__(self, other: Self) -> Tally:
        return Tally(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})


def _overlap(prediction: Prediction, k: int) -> tuple[float, float, float]:
    """Voxels of object k in the conservative mask, in the radical one and in both."""
    maps = prediction.regions.maps if prediction.regions is not None else {}
    if not {"conservative", "radical"} <= maps.keys():
        return 0.0, 0.0, 0.0
    low, high = maps["conservative"] == k, maps["radical"] == k
    return float(low.sum()), float(high.sum()), float((low & high).sum())
