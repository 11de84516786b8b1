"""Whether uncertainty lies where the mistakes are: retention curves, calibration, and what a region holds.

Everything is per voxel, over arrays of any one shape: a case, or many joined. A share of nothing is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.metrics.overlap import Mask

Floats = NDArray[np.float64]
BINS = 15


@dataclass(frozen=True, kw_only=True)
class Retention:
    """The error-retention curve: which errors are left when the most uncertain voxels are set aside.

    Set aside means corrected, by a person say: what is left are the errors among the voxels that are kept.
    """

    kept: Floats
    """Share of voxels that are kept, the most certain ones, from 0 to 1."""
    errors: Floats
    """Errors among them, as a share of all voxels."""

    @property
    def area(self) -> float:
        """Under the curve, straight between its points. Smaller is better; e is the share of errors in all voxels."""
        return float(np.diff(self.kept) @ (self.errors[1:] + self.errors[:-1]) / 2)

    def held(self, share: float) -> float:
        """Of all errors, those in so large a share of voxels, the most uncertain ones; NaN without an error."""
        left = float(np.interp(1 - share, self.kept, self.errors))
        return 1 - left / float(self.errors[-1]) if self.errors[-1] else float("nan")

    @property
    def area_at_random(self) -> float:
        """Of a score that knows nothing: e / 2."""
        return float(self.errors[-1] / 2)

    @property
    def area_at_best(self) -> float:
        """Of a score that sets every error aside first: e² / 2."""
        return float(self.errors[-1] ** 2 / 2)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How well a certain region and its score tell right from wrong."""

    error_share: float
    """Of all voxels, those predicted wrongly."""
    uncertain_share: float
    """Of all voxels, those that are uncertain."""
    errors_held: float
    """Of all errors, those that lie in the uncertain region."""
    certain_error_share: float
    """Of the certain voxels, those predicted wrongly."""
    certain_ece: float
    """Expected calibration error of the certain voxels."""
    retention_area: float
    """Under the error-retention curve of the score."""
    score_held: float
    """Of all errors, those in as many voxels as are uncertain, of the highest score."""
    softmax_held: float
    """The same of the lowest probability of the class that is predicted."""
    score_ece: float
    """Expected calibration error of the score as a probability of being wrong; all voxels."""
    softmax_ece: float
    """That of the probability; all voxels."""


def calibrate(
    prediction: NDArray[Any], label: NDArray[Any], confidence: NDArray[Any], certain: Mask, score: NDArray[Any]
) -> Calibration:
    """Compare classes, their probability, regions and scores with the truth, all `(*S)`."""
    wrong = prediction != label
    by_score, by_softmax = error_retention(score, wrong), error_retention(-confidence, wrong)
    uncertain = _share(~certain)
    return Calibration(
        error_share=_share(wrong),
        uncertain_share=uncertain,
        errors_held=_share(~certain[wrong]),
        certain_error_share=_share(wrong[certain]),
        certain_ece=expected_calibration_error(confidence[certain], ~wrong[certain]),
        retention_area=by_score.area,
        score_held=by_score.held(uncertain),
        softmax_held=by_softmax.held(uncertain),
        score_ece=expected_calibration_error(1 - score.clip(0, 1), ~wrong),
        softmax_ece=expected_calibration_error(confidence, ~wrong),
    )


def error_retention(score: NDArray[Any], wrong: Mask) -> Retention:
    """The curve of a score that is larger where less certain.

    Voxels of one score are set aside together; between such points the curve is straight, as it would be on average if
    they were taken in random order.
    """
    assert score.shape == wrong.shape, (score.shape, wrong.shape)
    order = np.argsort(score, axis=None, kind="stable")
    ranked, errors = score.ravel()[order], np.cumsum(wrong.ravel()[order])
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.array([], np.int64)
    n = max(len(ranked), 1)
    return Retention(kept=np.append(0.0, (last + 1) / n), errors=np.append(0.0, errors[last] / n))


def expected_calibration_error(confidence: NDArray[Any], right: Mask, bins: int = BINS) -> float:
    """Σ_b n_b / N |share right in b - mean confidence in b|, bins of one width over [0, 1] (Guo et al., ICML 2017)."""
    if not confidence.size:
        return float("nan")
    sure = confidence.ravel().astype(np.float64)
    which = np.minimum((sure * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(which, weights=right.ravel() - sure, minlength=bins)
    return float(np.abs(gaps).sum() / sure.size)


def _share(mask: Mask) -> float:
    return float(mask.mean()) if mask.size else float("nan")
