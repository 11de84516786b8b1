"""All that is said of one predicted mask, and what an empty one costs.

To add a metric, write a function of a `Pairing` and give it a row in `METRICS`. Scores, tables of scores, JSON and the
output of `coranet evaluate` then have it. `report/numbers.py` says which metrics a report shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from coranet.metrics.overlap import Counts, Mask, count
from coranet.metrics.surface import Distances, distances

Status = Literal["scored", "missed", "invented", "absent"]


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A mask and its label, both `(*S)`. What several metrics need is computed once."""

    prediction: Mask
    label: Mask
    spacing: Sequence[float]
    """Millimetres along each axis."""

    @cached_property
    def counts(self) -> Counts:
        """Voxels that are right, invented and missed."""
        return count(self.prediction, self.label)

    @cached_property
    def in_voxels(self) -> Distances:
        """Between the surfaces; neither mask is empty."""
        return self._distances[0]

    @cached_property
    def in_mm(self) -> Distances:
        """Between the surfaces; neither mask is empty."""
        return self._distances[1]

    @cached_property
    def _distances(self) -> tuple[Distances, Distances]:
        return distances(self.prediction, self.label, self.spacing)


def nothing(pairing: Pairing) -> float:
    """The worst share."""
    return 0.0


def diagonal(pairing: Pairing) -> float:
    """Of the image in voxels, from edge to edge: no distance between voxels reaches it."""
    return float(np.linalg.norm(pairing.label.shape))


def diagonal_mm(pairing: Pairing) -> float:
    """The same in millimetres."""
    return float(np.linalg.norm([n * step for n, step in zip(pairing.label.shape, pairing.spacing, strict=True)]))


class Metric(NamedTuple):
    """One number of a score."""

    title: str
    unit: Literal["%", "vox", "mm"]
    """In which it is shown; values of `%` are kept as shares of one."""
    of: Callable[[Pairing], float]
    """Its value where neither mask is empty."""
    worst: Callable[[Pairing], float] = nothing
    """Its value where one of the two is empty."""


METRICS: dict[str, Metric] = {
    "dsc": Metric("Dice", "%", lambda pairing: pairing.counts.dsc),
    "jaccard": Metric("Jaccard", "%", lambda pairing: pairing.counts.jaccard),
    "ppv": Metric("Precision", "%", lambda pairing: pairing.counts.ppv),
    "tpr": Metric("Recall", "%", lambda pairing: pairing.counts.tpr),
    "hd": Metric("HD", "vox", lambda pairing: pairing.in_voxels.hd, diagonal),
    "hd95": Metric("HD95", "vox", lambda pairing: pairing.in_voxels.hd95, diagonal),
    "asd": Metric("ASD", "vox", lambda pairing: pairing.in_voxels.asd, diagonal),
    "assd": Metric("ASSD", "vox", lambda pairing: pairing.in_voxels.assd, diagonal),
    "hd_mm": Metric("HD", "mm", lambda pairing: pairing.in_mm.hd, diagonal_mm),
    "hd95_mm": Metric("HD95", "mm", lambda pairing: pairing.in_mm.hd95, diagonal_mm),
    "asd_mm": Metric("ASD", "mm", lambda pairing: pairing.in_mm.asd, diagonal_mm),
    "assd_mm": Metric("ASSD", "mm", lambda pairing: pairing.in_mm.assd, diagonal_mm),
}
"""The numbers of a score by name. The definitions are those of `Counts` and `Distances`."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One mask against its label. Each metric is an attribute too: `score.dsc`.

    A mask that is missed or invented has the worst value of every metric: 0, or the diagonal of the image. Where both are
    empty there is nothing to score, and every metric is NaN.
    """

    status: Status
    values: Mapping[str, float]
    """By the name of the metric, all of `METRICS`."""
    prediction_voxels: int
    label_voxels: int

    def __getattr__(self, name: str) -> float:
        values: Mapping[str, float] = self.__dict__.get("values", {})  # there are none while a copy is being made
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no {name}")


def score(prediction: Mask, label: Mask, spacing: Sequence[float]) -> Score:
    """Score a mask against its label, both `(*S)`, with the spacing of each axis in millimetres."""
    pairing = Pairing(prediction=prediction, label=label, spacing=spacing)
    counts = pairing.counts
    status = status_of(counts)
    return Score(
        status=status,
        values={name: _value(metric, pairing, status) for name, metric in METRICS.items()},
        prediction_voxels=counts.tp + counts.fp,
        label_voxels=counts.tp + counts.fn,
    )


def status_of(counts: Counts) -> Status:
    """Which of the two masks has voxels: both, the label alone, the prediction alone, none."""
    if counts.tp + counts.fn == 0:
        return "invented" if counts.fp else "absent"
    return "scored" if counts.tp + counts.fp else "missed"


def _value(metric: Metric, pairing: Pairing, status: Status) -> float:
    if status == "absent":
        return float("nan")
    return metric.of(pairing) if status == "scored" else metric.worst(pairing)
