"""Counts behind every overlap score."""

from __future__ import annotations

import torch
from torch import Tensor


def overlap_counts(prediction: Tensor, label: Tensor, classes: int) -> Tensor:
    """Voxels of the prediction, of the label and of both, per class.

    Args:
        prediction: integer classes, any shape.
        label: integer classes, the same shape.
        classes: K.

    Returns:
        `(3, K)` long.
    """
    both = prediction[prediction == label]
    return torch.stack([_histogram(x, classes) for x in (prediction, label, both)])


def dice_from_counts(counts: Tensor) -> Tensor:
    """2 |P ∩ L| / (|P| + |L|) per class, NaN where both are empty: `(3, K)` to `(K)`."""
    predicted, labelled, both = counts.double()
    dice: Tensor = 2 * both / (predicted + labelled)
    return dice


def _histogram(values: Tensor, classes: int) -> Tensor:
    return torch.bincount(values.flatten().long(), minlength=classes)
