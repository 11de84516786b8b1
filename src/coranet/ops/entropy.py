"""Entropies and divergences of probabilities at every voxel, in nats: `(B, K, *S)` to `(B, *S)`, with 0 log 0 = 0."""

from __future__ import annotations

import torch
from torch import Tensor

from coranet.ops.losses import at_least_fp32


def entropy(p: Tensor) -> Tensor:
    """H(p) = -Σ_k p_k log p_k, at most log K."""
    return -(p * log(p)).sum(dim=1)


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ_k p_k log(p_k / q_k): what it costs to take q for p."""
    return (p * (log(p) - log(q))).sum(dim=1)


def js_divergence(*distributions: Tensor) -> Tensor:
    """H(mean of the distributions) - mean of their H: 0 where all agree, at most the logarithm of their number."""
    stacked = torch.stack(distributions)
    return entropy(stacked.mean(dim=0)) - torch.stack([entropy(p) for p in stacked]).mean(dim=0)


def log(p: Tensor) -> Tensor:
    """The logarithm of probabilities, with a finite value and gradient at 0."""
    p = at_least_fp32(p)
    return p.clamp(min=torch.finfo(p.dtype).tiny).log()
