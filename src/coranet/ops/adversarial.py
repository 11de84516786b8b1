"""Perturbations that change an answer most, and what a critic is told."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.ops.losses import at_least_fp32


def unit(direction: Tensor) -> Tensor:
    """Each image's direction at length 1, `(B, C, *S)`; nothing where there is no direction."""
    flat = direction.flatten(1)
    smallest = torch.finfo(flat.dtype).tiny
    # By the largest value first: squares of small gradients are 0.
    flat = flat / flat.abs().amax(dim=1, keepdim=True).clamp(min=smallest)
    length = flat.square().sum(dim=1, keepdim=True).sqrt()
    return (flat / length.clamp(min=smallest)).view_as(direction)


def adversarial_direction(
    distance: Callable[[Tensor], Tensor], start: Tensor, xi: float, *, iterations: int = 1
) -> Tensor:
    """The direction in which an answer changes fastest, by power iteration (Miyato et al., TPAMI 2018).

        d ← g / ‖g‖,  g = ∇_r D(r) at r = ξ d

    Args:
        distance: D, from a perturbation `(B, C, *S)` to a scalar, by how much it changes the answer.
        start: `(B, C, *S)`, random directions.
        xi: ξ, how far to look along them.
        iterations: each is one pass through a network and back.

    Returns:
        `(B, C, *S)`, each image's of length 1.
    """
    direction = unit(start)
    for _ in range(iterations):
        direction = unit(_gradient(lambda r: distance(xi * r), direction))
    return direction


def fgsm(loss: Callable[[Tensor], Tensor], image: Tensor, epsilon: float) -> Tensor:
    """The fast gradient sign example x + ε sign(∇_x loss(x)) (Goodfellow et al., ICLR 2015), which carries no gradient."""
    return image.detach() + epsilon * _gradient(loss, image).sign()


def _gradient(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Of a scalar by its argument; no parameter is given one."""
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(function(at), at)
    return gradient


def belief(logits: Tensor, truth: float) -> Tensor:
    """Binary cross-entropy of a critic's logits `(B,)` against one answer for all, averaged."""
    logits = at_least_fp32(logits)
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, truth))
