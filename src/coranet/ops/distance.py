"""Exact distances on the device, in any dimension: to the nearest of some voxels, and to the boundary of an object.

The square of a Euclidean distance is a sum over axes, so that its minimum is found axis after axis (Felzenszwalb &
Huttenlocher, 2012):

    d²(i) ← min_j d²(j) + (i - j)²        along each axis in turn, from 0 on the voxels themselves and ∞ elsewhere

Every pair i, j of a line is looked at, all i for some j at a time; that is more work than the lower envelope of parabolas,
and all of it in parallel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coranet.ops.losses import at_least_fp32, masked_mean, one_hot

PAIRS = 2**22
"""About how many are looked at together, or as many as there are voxels: what a processor's cache and a GPU both like."""


@torch.no_grad()
def distance_to(voxels: Tensor) -> Tensor:
    """Distance of every voxel to the nearest true one, in voxels; ∞ where there is none: `(B, C, *S)` bool to float."""
    squared = torch.where(voxels, 0.0, torch.inf)
    for axis in range(2, voxels.ndim):
        squared = _along_first(squared.movedim(axis, 0)).movedim(0, axis)
    return squared.sqrt()


def _along_first(squared: Tensor) -> Tensor:
    """The minimum along the first axis."""
    length, together = len(squared), max(PAIRS // squared.numel(), 1)
    at = torch.arange(length, device=squared.device, dtype=squared.dtype)
    steps = (at.unsqueeze(1) - at).square().unsqueeze(2)
    lines = squared.reshape(length, 1, -1)
    least = torch.full_like(lines[:, 0], torch.inf)
    for some, there in zip(torch.split(lines, together), torch.split(steps, together), strict=True):
        least = torch.minimum(least, (some + there).amin(dim=0))
    return least.view(squared.shape)


@torch.no_grad()
def signed_distance(objects: Tensor, valid: Tensor) -> Tensor:
    """Signed distance maps between -1, deepest in the object, and 1, farthest from it, as SASSNet and DTC have them.

    Inside it is minus the distance to the nearest voxel outside, over the largest of them; outside it is the distance to
    the object, over the largest. On the object's own outermost voxels it is 0, and everywhere in an image where there is
    either no object or nothing else.

    Args:
        objects: `(B, M, *S)` bool, one mask for each object.
        valid: `(B, *S)` bool; voxels outside the image are of neither side, and 0.

    Returns:
        `(B, M, *S)` float.
    """
    known = valid.unsqueeze(1)
    inside, outside = objects & known, ~objects & known
    depth = torch.where(inside, distance_to(outside), 0.0)
    gap = torch.where(outside, distance_to(inside), 0.0)
    axes = tuple(range(2, objects.ndim))
    signed = gap / gap.amax(axes, keepdim=True).clamp(min=1) - depth / depth.amax(axes, keepdim=True).clamp(min=1)
    both = inside.any(dim=axes, keepdim=True) & outside.any(dim=axes, keepdim=True)
    # A voxel has a neighbour on the other side exactly where its distance is 1.
    return torch.where(both & (depth != 1), signed, 0.0)


def distance_maps(logits: Tensor) -> Tensor:
    """What a head says as signed distance maps, by tanh: `(B, M, *S)`."""
    return torch.tanh(at_least_fp32(logits))


def distance_error(maps: Tensor, label: Tensor, valid: Tensor) -> Tensor:
    """Mean over images, objects and valid voxels of the squared difference to the label's signed distance maps.

    Args:
        maps: `(B, K - 1, *S)`.
        label: `(B, *S)`, integer classes.
        valid: `(B, *S)` bool.
    """
    truth = signed_distance(one_hot(label, maps.shape[1] + 1)[:, 1:].bool(), valid)
    return masked_mean((maps - truth).square().mean(dim=1), valid)
