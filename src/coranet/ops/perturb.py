"""Perturbations of an input image."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_noise(image: Tensor, sigma: float, limit: float = 2.0) -> Tensor:
    """Add n, drawn from N(0, sigma²) and clipped at `limit` sigmas."""
    return image + (torch.randn_like(image) * sigma).clamp(-limit * sigma, limit * sigma)


def intensity_view(image: Tensor, strength: float) -> Tensor:
    """Another contrast, brightness and noise level for each image: c x + b + n.

    With s the strength: c = exp(U(-s, s)), b = U(-s, s), n from N(0, (s U(0, 0.3))²), for intensities of unit variance.
    """
    shape = (len(image), *[1] * (image.ndim - 1))
    contrast, brightness, sigma = torch.rand(3, *shape, device=image.device)
    changed = image * torch.exp(strength * (2 * contrast - 1)) + strength * (2 * brightness - 1)
    noisy: Tensor = changed + torch.randn_like(image) * (0.3 * strength * sigma)
    return noisy
