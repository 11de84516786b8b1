"""Predicting an image larger than the network's window: where the windows lie, and how their answers are blended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Blend = Literal["constant", "gaussian"]


def starts(size: int, window: int, stride: int) -> list[int]:
    """Where windows begin along one axis: every `stride`, the last one flush with the end."""
    last = max(size - window, 0)
    return [*range(0, last, stride), last]


def blend_weights(window: tuple[int, ...], blend: Blend) -> Tensor:
    """How much each voxel of a window counts, `(*W)`: all alike, or less towards the border."""
    weights = torch.ones(window)
    if blend == "gaussian":
        for axis, n in enumerate(window):
            at = (torch.arange(n) - (n - 1) / 2) / (n / 8)
            shape = [1] * len(window)
            shape[axis] = n
            weights = weights * torch.exp(-0.5 * at.square()).clamp(min=1e-3).view(shape)
    return weights


def predict_windows(
    predict: Callable[[Tensor], Mapping[str, Tensor]],
    image: Tensor,
    window: tuple[int, ...],
    *,
    stride: tuple[int, ...] | None = None,
    blend: Blend = "gaussian",
) -> dict[str, Tensor]:
    """Blend what a network says of each window into maps of the whole image.

    Args:
        predict: `(B, C, *W)` to named maps `(B, M, *W)` that may be averaged.
        image: `(B, C, *S)`; where it is smaller than a window its border is repeated.
        window: W.
        stride: voxels between windows; half a window where none is given.
        blend: how windows that overlap are weighed.

    Returns:
        Named maps `(B, M, *S)`.
    """
    size = image.shape[2:]
    padded = pad_to(image, window)
    stride = stride or tuple(max(n // 2, 1) for n in window)
    places = [starts(n, w, s) for n, w, s in zip(padded.shape[2:], window, stride, strict=True)]
    if all(len(axis) == 1 for axis in places):
        return {name: crop_to(maps, size) for name, maps in predict(padded).items()}
    weights = blend_weights(window, blend).to(image.device)
    total = torch.zeros(padded.shape[2:], device=image.device)
    sums: dict[str, Tensor] = {}
    for corner in product(*places):
        cut = tuple(slice(a, a + w) for a, w in zip(corner, window, strict=True))
        everywhere = (slice(None), slice(None), *cut)
        total[cut] += weights
        for name, maps in predict(padded[everywhere]).items():
            if name not in sums:
                sums[name] = torch.zeros(*maps.shape[:2], *padded.shape[2:], device=image.device)
            sums[name][everywhere] += maps.float() * weights
    return {name: crop_to(maps / total, size) for name, maps in sums.items()}


def pad_to(image: Tensor, window: tuple[int, ...]) -> Tensor:
    """Repeat the border at the far ends until `(B, C, *S)` is at least a window large."""
    missing = [max(w - n, 0) for n, w in zip(image.shape[2:], window, strict=True)]
    if not any(missing):
        return image
    return F.pad(image, [amount for axis in reversed(missing) for amount in (0, axis)], mode="replicate")


def crop_to(maps: Tensor, size: tuple[int, ...]) -> Tensor:
    """Undo `pad_to`."""
    return maps[(slice(None), slice(None), *(slice(0, n) for n in size))]
