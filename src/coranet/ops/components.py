"""Connected components on the device, in a fixed number of rounds: nothing is counted on the host."""

from __future__ import annotations

import torch
from torch import Tensor

from coranet.ops.losses import one_hot


def largest_components(label: Tensor, classes: int, rounds: int = 12) -> Tensor:
    """Of each object in each image its largest component, touching corners included; the rest becomes background.

    Where the rounds do not suffice, a component is taken for several, and what is kept is a part of it.

    Args:
        label: `(B, *S)`, integer classes; 0 is background.
        classes: K.
        rounds: of `component_numbers`.
    """
    objects = one_hot(label, classes)[:, 1:].bool()
    numbers = component_numbers(objects.flatten(0, 1), rounds).view_as(objects)
    flat = numbers.flatten(2)
    counts = torch.zeros_like(flat[..., :1]).expand(*flat.shape[:2], flat.shape[2] + 1).contiguous()
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    largest = counts[..., 1:].argmax(dim=2) + 1
    kept = objects & (numbers == largest.view(*largest.shape, *[1] * (label.ndim - 1)))
    return torch.where(kept.any(dim=1), label, 0)


def component_numbers(masks: Tensor, rounds: int = 12) -> Tensor:
    """One number for each component of a mask, 0 outside: `(B, *S)` bool to long.

    Every voxel points at a voxel of its own component, at first at itself. In a round all voxels that point at one make
    it point at the largest that any of their neighbours reaches, and paths are halved; so the rounds grow with the
    logarithm of a component's length (Zhang, Azad & Hu, FastSV, 2020).
    """
    count, shape = len(masks), masks.shape[1:]
    own = torch.arange(1, masks[0].numel() + 1, device=masks.device).view(1, *shape)
    points = with_outside(torch.where(masks, own, 0))
    for _ in range(rounds):
        reached = points.gather(1, points)
        around = torch.where(masks, neighbours_largest(reached[:, 1:].view(count, *shape)), 0)
        offered = with_outside(around)
        points = points.scatter_reduce(1, points, offered, "amax").maximum(offered)
        points = points.gather(1, points)
    return points[:, 1:].view(count, *shape)


def with_outside(numbers: Tensor) -> Tensor:
    """`(B, *S)` to `(B, 1 + voxels)`: number 0, which stands for all that is outside, points at itself."""
    flat = numbers.flatten(1)
    return torch.cat([torch.zeros_like(flat[:, :1]), flat], dim=1)


def neighbours_largest(values: Tensor) -> Tensor:
    """The largest value among a voxel and all that touch it, `(B, *S)`."""
    for axis in range(1, values.ndim):
        length = values.shape[axis] - 1
        first, last = values.narrow(axis, 0, length), values.narrow(axis, 1, length)
        before = torch.cat([values.narrow(axis, 0, 1), first], axis)
        after = torch.cat([last, values.narrow(axis, length, 1)], axis)
        values = values.maximum(before).maximum(after)
    return values
