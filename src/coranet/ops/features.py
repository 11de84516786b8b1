"""Perturbations of features, means weighted voxel by voxel, and how alike two maps are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.ops.losses import at_least_fp32, in_full_precision, one_hot

Perturbation = Literal["noise", "activation", "dropout", "cutout", "objects", "context"]

# Perturbations (Ouali et al., CVPR 2020)


def scale_noise(x: Tensor, limit: float = 0.3) -> Tensor:
    """Returns x (1 + n), n drawn from U(-limit, limit) for each value of one image and used for all."""
    return x * (1 + limit * (2 * torch.rand_like(x[:1]) - 1))


def drop_active(x: Tensor, low: float = 0.6, high: float = 0.9) -> Tensor:
    """Zero where the mean over channels is at least γ of its largest in the image; γ from U(low, high), one an image."""
    attention = x.mean(dim=1, keepdim=True)
    largest = attention.flatten(1).amax(dim=1).view(-1, *[1] * (x.ndim - 1))
    share = low + (high - low) * torch.rand_like(largest)
    return x * (attention < largest * share).to(x.dtype)


def drop_channels(x: Tensor, rate: float = 0.5) -> Tensor:
    """Zero whole channels at that rate and scale the others up."""
    kept = torch.rand(*x.shape[:2], *[1] * (x.ndim - 2), device=x.device) >= rate
    return x * kept.to(x.dtype) / (1 - rate)


def cut_box(objects: Tensor, erase: float = 0.4) -> Tensor:
    """A box somewhere within the objects' bounding box, `erase` of its length along each axis.

    Args:
        objects: `(B, *S)` bool.
        erase: between 0 and 1.

    Returns:
        `(B, *S)` bool, true in the box; nowhere where an image has no object.
    """
    box = objects.flatten(1).any(dim=1).view(-1, *[1] * (objects.ndim - 1)).expand_as(objects)
    for axis in range(1, objects.ndim):
        length = objects.shape[axis]
        along = objects.transpose(1, axis).flatten(2).any(dim=2).to(torch.float32)
        first = along.argmax(dim=1, keepdim=True)
        extent = length - along.flip(1).argmax(dim=1, keepdim=True) - first
        start = first + torch.rand_like(along[:, :1]) * (1 - erase) * extent
        at = torch.arange(length, device=objects.device)
        inside = (at >= start) & (at < start + erase * extent)
        box = box & inside.view(-1, *(length if a == axis else 1 for a in range(1, objects.ndim)))
    return box


VALUES: dict[Perturbation, Callable[[Tensor], Tensor]] = {
    "noise": scale_noise,
    "activation": drop_active,
    "dropout": drop_channels,
}
KEPT: dict[Perturbation, Callable[[Tensor], Tensor]] = {
    "cutout": lambda objects: ~cut_box(objects),
    "objects": lambda objects: ~objects,
    "context": lambda objects: objects,
}
"""From `(B, *S)` bool, where objects are, to where features stay; elsewhere they are hidden."""


def perturb_levels(levels: list[Tensor], kind: Perturbation, objects: Tensor) -> list[Tensor]:
    """Levels of features, each `(B, C, *s)`, as one kind of perturbation leaves them.

    Args:
        levels: of an encoder.
        kind: `noise`, `activation` (the most active places off) and `dropout` (of channels) draw anew for each level;
            `cutout` (of a box), `objects` and `context` hide the same place in all of them.
        objects: `(B, *S)` bool, where the network sees objects.
    """
    if kind in VALUES:
        return [VALUES[kind](x) for x in levels]
    kept = KEPT[kind](objects).unsqueeze(1).to(torch.float32)
    return [x * F.interpolate(kept, size=x.shape[2:], mode="nearest").to(x.dtype) for x in levels]


# Means and similarities


def weighted_mean(values: Tensor, weights: Tensor, valid: Tensor) -> Tensor:
    """Σ_z w_z v_z / Σ_z w_z over the batch's valid voxels, three `(B, *S)`; 0 where no voxel weighs anything."""
    weights = torch.where(valid, weights, 0.0)
    total = weights.sum()
    return (weights * torch.where(valid, values, 0.0)).sum() / torch.where(total > 0, total, 1.0)


def surest(looks: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Σ_j m_j / v_j over Σ_j 1 / v_j: the mean of means `(B, K, *S)`, weighted by variances `(B, 1, *S)`."""
    # Passes that agree to the last bit would weigh infinitely much.
    weights = torch.stack([1 / (variance + 1e-6) for _, variance in looks])
    return (weights * torch.stack([mean for mean, _ in looks])).sum(dim=0) / weights.sum(dim=0)


def class_means(features: Tensor, label: Tensor, valid: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The mean feature of each class over the batch's valid voxels, and whether it has any.

    Args:
        features: `(B, F, *S)`.
        label: `(B, *S)`, integer classes.
        valid: `(B, *S)` bool.
        classes: K.

    Returns:
        `(K, F)`, zero where a class has no voxel, and `(K, 1)` bool.
    """
    members = (one_hot(label, classes) * valid.unsqueeze(1)).transpose(0, 1).flatten(1)
    rows = at_least_fp32(features).transpose(0, 1).flatten(1)
    count = members.sum(dim=1, keepdim=True)
    with in_full_precision(features):  # sums over voxels, not to be made in half precision
        sums = members.to(rows.dtype) @ rows.T
    return sums / count.clamp(min=1), count > 0


def similarities(features: Tensor, centres: Tensor) -> Tensor:
    """The product of each feature with each centre, made of length one: `(B, F, *S)` and `(K, F)` to `(B, K, *S)`."""
    features, centres = at_least_fp32(features), F.normalize(at_least_fp32(centres), dim=1)
    with in_full_precision(features):
        return torch.einsum("bf...,kf->bk...", features, centres.to(features.dtype))
