"""Geometric views of a batch, drawn on the device, of each image its own; one view for an image and all its maps.

Symmetries, mirrorings and quarter turns, move voxels onto voxels: nothing is interpolated and every one can be undone to
the bit. Turns by other angles and scales go through `ops.warp`: apply the same one to the image and to what is compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.ops.losses import at_least_fp32, in_full_precision
from coranet.ops.space.warp import Warp


@dataclass(frozen=True)
class Symmetry:
    """First mirrored along some axes, then turned by right angles in the plane of the first two."""

    mirror: Tensor
    """`(B, D)` bool: which axes of space."""
    quarters: Tensor
    """`(B,)` integer: how many right angles, 0 to 3."""

    def apply(self, x: Tensor) -> Tensor:
        """The view of `(B, *S)` or `(B, C, *S)`."""
        return _turned(_mirrored(x, self.mirror), self.quarters, self.mirror.shape[1])

    def undo(self, x: Tensor) -> Tensor:
        """Back from the view."""
        return _mirrored(_turned(x, (4 - self.quarters) % 4, self.mirror.shape[1]), self.mirror)


def draw_symmetry(image: Tensor, *, mirror: float = 0.5, quarters: bool = False) -> Symmetry:
    """A symmetry for each image of `(B, C, *S)`.

    Args:
        image: whose batch, shape and device it is for.
        mirror: how often each of the first two axes is mirrored.
        quarters: turn by none to three right angles, all alike; in a plane that is not square, by none or two.
    """
    count, dims, device = len(image), image.ndim - 2, image.device
    drawn = (torch.rand(count, dims, device=device) < mirror) & (torch.arange(dims, device=device) < 2)
    turns = torch.randint(4, (count,), device=device)
    if image.shape[2] != image.shape[3]:
        turns = turns // 2 * 2
    return Symmetry(drawn, turns if quarters else torch.zeros_like(turns))


def draw_warp(image: Tensor, *, rotate: float = 0.0, scale: tuple[float, float] = (1.0, 1.0)) -> Warp:
    """A turn and a magnification for each image of `(B, C, *S)`, about the middle, in the plane of the first two axes.

    Args:
        image: whose batch, shape and device it is for.
        rotate: degrees to either side.
        scale: smallest and largest magnification, drawn evenly on a logarithmic scale.
    """
    count, shape, device = len(image), tuple(image.shape[2:]), image.device
    turn, size = torch.rand(2, count, device=device)
    smallest, largest = (math.log(s) for s in scale)
    angle, shrink = math.radians(rotate) * (2 * turn - 1), torch.exp(-smallest - (largest - smallest) * size)
    matrix = torch.eye(len(shape), device=device).repeat(count, 1, 1)
    cos, sin = torch.cos(angle) * shrink, torch.sin(angle) * shrink
    matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1] = cos, -sin, sin, cos
    middle = torch.stack([torch.full((count,), (n - 1) / 2, device=device) for n in shape], dim=1)
    return Warp(matrix, middle, middle, shape)


def warped(x: Tensor, warp: Warp) -> Tensor:
    """`(B, C, *S)` seen through a warp, by linear interpolation; outside, the nearest border voxel is repeated."""
    return _read(at_least_fp32(x), warp, "border")


def warped_mask(mask: Tensor, warp: Warp) -> Tensor:
    """`(B, *S)` bool seen through a warp: true where all that `warped` reads is inside the image and in the mask."""
    return _read(mask.unsqueeze(1).to(torch.float32), warp, "zeros").squeeze(1) > 1 - 1e-4


def _read(x: Tensor, warp: Warp, outside: str) -> Tensor:
    with in_full_precision(x):  # half precision cannot tell neighbouring voxels apart
        points = warp.points().unbind(-1)
    # A voxel's number to where grid_sample has it: axes in reverse, the image's borders at -1 and 1.
    places = [(2 * along + 1) / n - 1 for along, n in zip(points, x.shape[2:], strict=True)]
    grid = torch.stack(places[::-1], dim=-1).to(x.dtype)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode=outside, align_corners=False)


def _mirrored(x: Tensor, mirror: Tensor) -> Tensor:
    for axis, chosen in enumerate(mirror.unbind(1), start=x.ndim - mirror.shape[1]):
        x = torch.where(_per_image(chosen, x), x.flip(axis), x)
    return x


def _turned(x: Tensor, quarters: Tensor, dims: int) -> Tensor:
    plane = (x.ndim - dims, x.ndim - dims + 1)
    x = torch.where(_per_image(quarters >= 2, x), x.flip(plane), x)
    if x.shape[plane[0]] != x.shape[plane[1]]:
        return x
    return torch.where(_per_image(quarters % 2 == 1, x), torch.rot90(x, 1, plane), x)


def _per_image(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *[1] * (x.ndim - 1))
