"""Mixing images and what is known of them: boxes of one in another, means of two. All draws are the device's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Gamma

from coranet.ops.losses import at_least_fp32
from coranet.types import Sample


def cutmix_boxes(
    count: int,
    shape: Sequence[int],
    device: torch.device,
    chance: float = 0.5,
    volume: tuple[float, float] = (0.02, 0.4),
) -> Tensor:
    """A random box in each of `count` images, or none: `(B, *S)` bool (CutMix, Yun et al., 2019).

    The box holds a share U(volume) of the image, less where a side would be longer than the image. Two sides of it, as
    shares of the image's, differ by at most 0.3 : 1, as in UniMatch (Yang et al., 2023).
    """
    low, high = volume
    share = low + (high - low) * torch.rand(count, 1, device=device)
    stretch = math.log(1 / 0.3) * (torch.rand(count, len(shape), device=device) - 0.5)
    sides = share ** (1 / len(shape)) * torch.exp(stretch - stretch.mean(dim=1, keepdim=True))
    boxes = placed_boxes(sides, shape)
    there = torch.rand(count, device=device) < chance
    return boxes & there.view(-1, *[1] * len(shape))


def placed_boxes(sides: Tensor, shape: Sequence[int]) -> Tensor:
    """Boxes with these sides, somewhere inside the image: `(B, D)` shares of its axes to `(B, *S)` bool.

    A side is rounded to whole voxels, at least one; every place is equally likely.
    """
    inside = torch.ones(len(sides), *[1] * len(shape), dtype=torch.bool, device=sides.device)
    for axis, n in enumerate(shape):
        length = (sides[:, axis, None] * n).round().clamp(1, n)
        first = (torch.rand_like(length) * (n - length + 1)).floor().clamp(max=n - length)
        place = torch.arange(n, device=sides.device)
        along = (place >= first) & (place < first + length)
        inside = inside & along.view(-1, *[n if other == axis else 1 for other in range(len(shape))])
    return inside


def pasted(onto: Tensor, piece: Tensor, boxes: Tensor) -> Tensor:
    """The one image, and in the box the other: `(B, *S)` or `(B, C, *S)`, boxes `(B, *S)` or one for all."""
    return torch.where(boxes if onto.ndim == boxes.ndim else boxes.unsqueeze(1), piece, onto)


def cutmixed(values: Tensor, boxes: Tensor) -> Tensor:
    """In each image's box the image before it in the batch: `(B, *S)` or `(B, C, *S)`."""
    return pasted(values, values.roll(1, 0), boxes)


def copy_paste(onto: Sample, piece: Sample, box: Tensor) -> Sample:
    """The one sample, and in the box `(1, *S)` the other; where one has fewer images they come again."""
    assert onto.label is not None
    assert piece.label is not None
    number = torch.arange(max(len(onto.image), len(piece.image)), device=box.device)

    def mixed(outside: Tensor, inside: Tensor) -> Tensor:
        return pasted(outside[number % len(outside)], inside[number % len(inside)], box)

    return Sample(
        image=mixed(onto.image, piece.image),
        valid=mixed(onto.valid, piece.valid),
        label=mixed(onto.label, piece.label),
        unit=onto.unit,
    )


def halves(sample: Sample) -> tuple[Sample, Sample]:
    """The first and the last half of a batch with labels; of an odd number the one in the middle is in both."""
    assert sample.label is not None
    half, label = (len(sample.image) + 1) // 2, sample.label

    def part(which: slice) -> Sample:
        return Sample(image=sample.image[which], valid=sample.valid[which], label=label[which], unit=sample.unit)

    return part(slice(half)), part(slice(-half, None))


def mixup_shares(count: int, alpha: float, device: torch.device) -> Tensor:
    """max(λ, 1 - λ) with λ from Beta(α, α), `(B,)`: how much of a mixture is the first image's."""
    parameter = torch.full((2, count), alpha, device=device)
    first, second = Gamma(parameter, torch.ones_like(parameter), validate_args=False).sample()
    share: Tensor = first / (first + second)
    return share.maximum(1 - share)


def mixed_up(first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
    """λ a + (1 - λ) b (mixup, Zhang et al., 2018): `(B, C, *S)` twice and `(B,)`."""
    share = shares.view(-1, *[1] * (first.ndim - 1))
    return share * first + (1 - share) * second


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """p_k^(1/T) / Σ_j p_j^(1/T): `(B, K, *S)`, closer to one-hot the smaller T is."""
    powers = at_least_fp32(p) ** (1 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def soft_cross_entropy(logits: Tensor, q: Tensor) -> Tensor:
    """-Σ_k q_k log p_k at every voxel, for a label that is itself a mixture: twice `(B, K, *S)` to `(B, *S)`."""
    return -(q * torch.log_softmax(at_least_fp32(logits), dim=1)).sum(dim=1)


def mixed_dice(p: Tensor, q: Tensor, mask: Tensor) -> Tensor:
    """1 - mean over classes of 2 Σ p q / (Σ p² + Σ q²), as `soft_dice`, for labels that are mixtures `(B, K, *S)`."""
    inside = mask.unsqueeze(1)
    p, q = torch.where(inside, at_least_fp32(p), 0.0), torch.where(inside, q, 0.0)
    axes = (0, *range(2, p.ndim))
    overlap, size = (p * q).sum(axes), (p.square() + q.square()).sum(axes)
    smooth = 1e-5
    return 1 - ((2 * overlap + smooth) / (size + smooth)).mean()
