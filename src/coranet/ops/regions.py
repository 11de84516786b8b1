"""Certain and uncertain regions: where labels agree or probabilities are high, and the losses that keep to them."""

from __future__ import annotations

from torch import Tensor

from coranet.ops.losses import Normalise, cross_entropy, masked_mean, squared_difference


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """M_c = 1 - (Y₁ xor Y₂), true where every class's pair agrees: `(B, K, *S)` bool to `(B, *S)` bool."""
    return ~(first ^ second).any(dim=1)


def confident(probabilities: Tensor, threshold: float) -> Tensor:
    """True where the largest probability exceeds the threshold: `(B, K, *S)` to `(B, *S)` bool."""
    return probabilities.amax(dim=1) > threshold


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


def share(region: Tensor, valid: Tensor) -> Tensor:
    """How much of each image a region `(B, *S)` covers, averaged over images."""
    return masked_mean(region.float(), valid)
