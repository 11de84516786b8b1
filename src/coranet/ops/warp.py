"""One affine warp for an image and all its maps, drawn elsewhere, applied here, and invertible.

A window's voxel o lies at s = A (o - c) + d in the source, in voxel indices: A turns, scales and mirrors, c is the window's
centre and d the point of the source that it looks at. With A = 1 and integer d - c every voxel is met exactly, so that
cropping interpolates nothing; image (linear) and maps (nearest) are always read at the same points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Warp:
    """`B` affine warps into windows of one shape; `D` is 2 or 3."""

    matrix: Tensor
    """A, `(B, D, D)`."""
    centre: Tensor
    """c, `(B, D)`: a point of the window."""
    target: Tensor
    """d, `(B, D)`: the point of the source it looks at."""
    shape: tuple[int, ...]
    """Of the window."""

    def to(self, device: torch.device) -> Warp:
        """The same warp on a device."""
        move = [x.to(device, non_blocking=True) for x in (self.matrix, self.centre, self.target)]
        return Warp(move[0], move[1], move[2], self.shape)

    def inverse(self, shape: tuple[int, ...]) -> Warp:
        """From a source of that shape back into the window."""
        return Warp(torch.linalg.inv(self.matrix), self.target, self.centre, shape)

    def points(self) -> Tensor:
        """Where each voxel of the window lies in the source, `(B, *S, D)`."""
        device = self.matrix.device
        axes = [torch.arange(n, device=device, dtype=torch.float32) for n in self.shape]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
        offset = grid - self.centre.unsqueeze(1)
        points = offset @ self.matrix.transpose(1, 2) + self.target.unsqueeze(1)
        return points.view(len(points), *self.shape, -1)


def inside(points: Tensor, sizes: Tensor) -> Tensor:
    """True where a point falls on a voxel of its source: `(B, *S, D)` and `(B, D)` to `(B, *S)`."""
    last = _over_space(sizes, points) - 0.5
    return ((points >= -0.5 - 1e-4) & (points <= last + 1e-4)).all(dim=-1)


def sample_image(source: Tensor, points: Tensor, sizes: Tensor) -> Tensor:
    """Read `(B, C, *N)` at points by linear interpolation; outside, the nearest border voxel is repeated."""
    # On an image's last voxel the one beyond weighs zero, give or take rounding: it has to be a copy, not the canvas.
    return _sample(repeat_border(source, sizes, source.shape[2:]), points, sizes, "bilinear")


def sample_maps(source: Tensor, points: Tensor, sizes: Tensor) -> Tensor:
    """Read integer maps `(B, M, *N)` at points by nearest neighbour; outside, the nearest border voxel is repeated."""
    return _sample(source.to(torch.float32), points, sizes, "nearest").to(source.dtype)


def repeat_border(source: Tensor, sizes: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Images on a canvas `(B, C, *N)` as `(B, C, *shape)`, each with its own border repeated from where it ends."""
    for axis, length in enumerate(shape, start=2):
        place = torch.minimum(torch.arange(length, device=source.device), sizes[:, axis - 2, None] - 1)
        place = place.view(len(source), *[1] * (axis - 1), length, *[1] * (source.ndim - axis - 1))
        source = source.gather(axis, place.expand(*source.shape[:axis], length, *source.shape[axis + 1 :]))
    return source


def _sample(source: Tensor, points: Tensor, sizes: Tensor, mode: str) -> Tensor:
    # The source may be a canvas larger than the image on it: sizes say where the image ends.
    points = torch.minimum(points.clamp(min=0), _over_space(sizes, points) - 1)
    canvas = torch.tensor(source.shape[2:], device=source.device, dtype=torch.float32)
    grid = ((2 * points + 1) / canvas - 1).flip(-1)
    return F.grid_sample(source, grid, mode=mode, padding_mode="border", align_corners=False)


def _over_space(sizes: Tensor, points: Tensor) -> Tensor:
    return sizes.to(torch.float32).view(len(sizes), *[1] * (points.ndim - 2), -1)
