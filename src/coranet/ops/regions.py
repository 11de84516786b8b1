"""Masks of certain voxels, from labels that agree or from probabilities that are high."""

from __future__ import annotations

from torch import Tensor


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """M_c = 1 - (Y₁ xor Y₂), true where every class's pair agrees: `(B, K, *S)` bool to `(B, *S)` bool."""
    return ~(first ^ second).any(dim=1)


def confident(probabilities: Tensor, threshold: float) -> Tensor:
    """True where the largest probability exceeds the threshold: `(B, K, *S)` to `(B, *S)` bool."""
    return probabilities.amax(dim=1) > threshold
