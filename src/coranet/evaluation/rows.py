"""A prediction against its label: one row of scores for each class, of the whole case or of each of its slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import through_plane_axis
from coranet.metrics import Score, score

Classes = Mapping[int, str]
"""Names of the foreground classes by value."""


@dataclass(frozen=True, kw_only=True)
class Row(Score):
    """The score of one class in one case, or in one slice of it."""

    case: str
    class_name: str
    value: int
    slice_index: int | None = None


def score_pair(
    prediction: NDArray[Any],
    label: NDArray[Any],
    classes: Classes,
    spacing: Sequence[float],
    *,
    case: str = "",
    slice_index: int | None = None,
) -> tuple[Row, ...]:
    """Score integer maps `(*S)`, class by class.

    Axes of one voxel are dropped: a flat image has no surface towards the viewer.
    """
    here, there = (np.atleast_1d(array.squeeze()) for array in (prediction, label))
    steps = [step for step, size in zip(spacing, label.shape, strict=True) if size > 1] or spacing[:1]
    return tuple(
        Row(
            case=case,
            class_name=name,
            value=value,
            slice_index=slice_index,
            **vars(score(here == value, there == value, steps)),
        )
        for value, name in sorted(classes.items())
    )


def score_slices(
    prediction: NDArray[Any],
    label: NDArray[Any],
    classes: Classes,
    spacing: Sequence[float],
    *,
    case: str = "",
    drawn: NDArray[np.bool_] | None = None,
) -> tuple[Row, ...]:
    """Score each slice across the through-plane axis by itself, in its own plane, where some of it is `drawn`."""
    axis = through_plane_axis(label.shape, spacing)
    in_plane = [step for other, step in enumerate(spacing) if other != axis]
    slices = zip(np.moveaxis(prediction, axis, 0), np.moveaxis(label, axis, 0), strict=True)
    shown = np.ones(label.shape[axis], np.bool_) if drawn is None else _shown(drawn, axis)
    return tuple(
        row
        for index, pair in enumerate(slices)
        if shown[index]
        for row in score_pair(*pair, classes, in_plane, case=case, slice_index=index)
    )


def _shown(drawn: NDArray[np.bool_], axis: int) -> NDArray[np.bool_]:
    """Which planes of an axis have a voxel that is drawn."""
    return np.array(np.moveaxis(drawn, axis, 0).any(axis=(1, 2)))
