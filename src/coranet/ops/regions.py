"""Certain and uncertain regions: where labels agree or probabilities are high, and the losses that keep to them."""

from __future__ import annotations

import torch
from torch import Tensor

from coranet.ops.losses import Normalise, cross_entropy, masked_mean, squared_difference


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """M_c = 1 - (Y₁ xor Y₂), true where every class's pair agrees: `(B, K, *S)` bool to `(B, *S)` bool."""
    return ~(first ^ second).any(dim=1)


def confident(probabilities: Tensor, threshold: float) -> Tensor:
    """True where the largest probability exceeds the threshold: `(B, K, *S)` to `(B, *S)` bool."""
    return probabilities.amax(dim=1) > threshold


def narrowest_margins(con: Tensor, rad: Tensor, valid: Tensor, count: Tensor) -> Tensor:
    """False at so many voxels as two heads are nearest to disagreeing on, or disagree on most: `(B, *S)` bool.

    With l the smaller and h the larger logit of an object, max(l, -h) is how far both would have to be moved apart for
    the heads to disagree; a voxel's margin is the least of its objects'. Ties may leave out some.

    Args:
        con: what the conservative head gives each object, `(B, K - 1, *S)`.
        rad: the radical one.
        valid: `(B, *S)` bool; other voxels are never counted.
        count: how many of the whole batch, a scalar on the device.
    """
    low, high = (torch.logit(pick(con, rad), 1e-6) for pick in (torch.minimum, torch.maximum))
    margin = torch.where(valid, torch.maximum(low, -high).amin(dim=1), torch.inf)
    place = count.long().clamp(0, margin.numel() - 1).view(1)
    return margin >= margin.flatten().sort().values.gather(0, place)


def pseudo_label_loss(
    logits: Tensor, label: Tensor, valid: Tensor, certain: Tensor | None, normalise: Normalise = "image"
) -> Tensor:
    """L_c-sn = 1/n Σ_j -Σ_z M_c q log p: cross-entropy against pseudo-labels where they are certain (CoraNet, Eq. 7).

    Args:
        logits: `(B, K, *S)`.
        label: `(B, *S)`, integer classes.
        valid: `(B, *S)` bool, the voxels that belong to the image at all.
        certain: `(B, *S)` bool, M_c; everywhere where it is None.
        normalise: what sums over voxels are divided by, as in `masked_mean`.
    """
    return masked_mean(cross_entropy(logits, label), valid, region=certain, normalise=normalise)


def consistency_loss(
    p: Tensor, teacher: Tensor, valid: Tensor, uncertain: Tensor | None, normalise: Normalise = "image"
) -> Tensor:
    """L_cnt = 1/n Σ_j ‖M_uc ⊗ (F(x) - F'(x))‖²: the teacher's word where nothing is certain (CoraNet, Eq. 8).

    Args:
        p: the student's probabilities, `(B, K, *S)`.
        teacher: the teacher's.
        valid: `(B, *S)` bool, the voxels that belong to the image at all.
        uncertain: `(B, *S)` bool, M_uc; everywhere where it is None.
        normalise: what sums over voxels are divided by, as in `masked_mean`.
    """
    return masked_mean(squared_difference(p, teacher), valid, region=uncertain, normalise=normalise)


def object_shares(label: Tensor, valid: Tensor, classes: int) -> Tensor:
    """How much of the valid voxels of a batch each object holds: twice `(B, *S)` to `(K - 1)`."""
    return torch.stack([((label == k) & valid).sum() / valid.sum() for k in range(1, classes)])


def share(region: Tensor, valid: Tensor) -> Tensor:
    """How much of each image a region `(B, *S)` covers, averaged over images."""
    return masked_mean(region.float(), valid)
