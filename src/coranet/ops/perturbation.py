"""Perturbations of an input image."""

from __future__ import annotations

import torch
from torch import Tensor

from coranet.ops.appearance import along
from coranet.ops.losses import in_full_precision


def gaussian_noise(image: Tensor, sigma: float, limit: float = 2.0) -> Tensor:
    """Add n, drawn from N(0, sigma²) and clipped at `limit` sigmas."""
    return image + (torch.randn_like(image) * sigma).clamp(-limit * sigma, limit * sigma)


def intensity_view(image: Tensor, strength: float, unit: float = 1.0) -> Tensor:
    """Another contrast, brightness and noise level for each image: c x + (b + n) unit.

    With s the strength: c = exp(U(-s, s)), b = U(-s, s), n from N(0, (s U(0, 0.3))²).
    """
    shape = (len(image), *[1] * (image.ndim - 1))
    contrast, brightness, sigma = torch.rand(3, *shape, device=image.device)
    changed = image * torch.exp(strength * (2 * contrast - 1)) + strength * unit * (2 * brightness - 1)
    noisy: Tensor = changed + torch.randn_like(image) * (0.3 * strength * unit * sigma)
    return noisy


def strong_view(image: Tensor, strength: float = 0.5, unit: float = 1.0) -> Tensor:
    """Some images at another contrast, brightness and noise level, some blurred, some both, some neither.

    The chances, 0.8 and 0.5, and a blur of U(0.1, 2) voxels are those of UniMatch on cardiac slices (Yang et al., 2023).
    """
    changes, blurs, sigma = torch.rand(3, len(image), *[1] * (image.ndim - 1), device=image.device)
    changed = torch.where(changes < 0.8, intensity_view(image, strength, unit), image)
    return torch.where(blurs < 0.5, gaussian_blur(changed, 0.1 + 1.9 * sigma.flatten()), changed)


def gaussian_blur(image: Tensor, sigma: Tensor, radius: int = 6) -> Tensor:
    """Smooth each image by its own Gaussian, cut off at a radius in voxels; outside, the border is repeated.

    Args:
        image: `(B, C, *S)`.
        sigma: `(B,)`, in voxels.
        radius: the same for all, so that the device decides about sigma alone.
    """
    offsets = torch.arange(-radius, radius + 1, device=image.device)
    weights = torch.exp(-0.5 * (offsets / sigma.unsqueeze(1)).square())
    weights = weights / weights.sum(dim=1, keepdim=True)
    with in_full_precision(image):  # a product would fall to half precision
        for axis in range(2, image.ndim):
            place = torch.arange(image.shape[axis], device=image.device)
            seen = (place[:, None] + offsets).clamp(0, len(place) - 1)
            shifts = (seen.unsqueeze(2) == place).to(weights.dtype)  # (N, offsets, N)
            image = along(image, torch.einsum("bo,iok->bik", weights, shifts), axis)
    return image
