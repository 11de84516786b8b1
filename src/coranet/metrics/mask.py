"""All that is said of one predicted mask, and what an empty one costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from coranet.metrics.overlap import Counts, Mask, count
from coranet.metrics.surface import Distances, distances

Status = Literal["scored", "missed", "invented", "absent"]

OVERLAPS = ("dsc", "jaccard", "ppv", "tpr")
METRICS = (*OVERLAPS, "hd", "hd95", "asd", "assd", "hd_mm", "hd95_mm", "asd_mm", "assd_mm")
"""The numbers of a score by name: shares of one, distances in voxels, distances in millimetres."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One mask against its label; the definitions are those of `Counts` and `Distances`.

    A mask that is missed or invented has the worst value of every metric: 0, or the diagonal of the image. Where both are
    empty there is nothing to score, and every metric is NaN.
    """

    status: Status
    dsc: float
    jaccard: float
    ppv: float
    tpr: float
    hd: float
    hd95: float
    asd: float
    assd: float
    hd_mm: float
    hd95_mm: float
    asd_mm: float
    assd_mm: float
    prediction_voxels: int
    label_voxels: int


def score(prediction: Mask, label: Mask, spacing: Sequence[float]) -> Score:
    """Score a mask against its label, both `(*S)`, with the spacing of each axis in millimetres."""
    counts = count(prediction, label)
    status = status_of(counts)
    if status == "scored":
        shares = {name: getattr(counts, name) for name in OVERLAPS}
        in_voxels, in_mm = distances(prediction, label, spacing)
    else:
        shares = dict.fromkeys(OVERLAPS, float("nan") if status == "absent" else 0.0)
        in_voxels = _without_surface(status, label.shape)
        in_mm = _without_surface(status, [n * step for n, step in zip(label.shape, spacing, strict=True)])
    return Score(
        status=status,
        prediction_voxels=counts.tp + counts.fp,
        label_voxels=counts.tp + counts.fn,
        **shares,
        **asdict(in_voxels),
        **{f"{name}_mm": value for name, value in asdict(in_mm).items()},
    )


def status_of(counts: Counts) -> Status:
    """Which of the two masks has voxels: both, the label alone, the prediction alone, none."""
    if counts.tp + counts.fn == 0:
        return "invented" if counts.fp else "absent"
    return "scored" if counts.tp + counts.fp else "missed"


def _without_surface(status: Status, extent: Sequence[float]) -> Distances:
    """The diagonal of the image from edge to edge, which no distance between voxels reaches; NaN where all is absent."""
    worst = float("nan") if status == "absent" else float(np.linalg.norm(extent))
    return Distances(hd=worst, hd95=worst, asd=worst, assd=worst)
