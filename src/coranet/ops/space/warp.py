"""One warp for an image and all its maps, drawn elsewhere, applied here, and invertible.

A window's voxel o lies at s = A (o - c) + d in the source, in voxel indices: A turns, scales and mirrors, c is the window's
centre and d the point of the source that it looks at. A window that is bent looks at o + u(o) instead (`ops.elastic`). With
A = 1, u = 0 and integer d - c every voxel is met exactly, so that cropping interpolates nothing; image (linear) and maps
(nearest) are always read at the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.ops.space.elastic import displacement, settled


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
    knots: Tensor | None = None
    """How far knots over the window are moved, in its voxels, `(B, D, 7, ..)`; None where it is not bent."""

    def rows(self, some: slice) -> Warp:
        """Some of the warps."""
        knots = None if self.knots is None else self.knots[some]
        return Warp(self.matrix[some], self.centre[some], self.target[some], self.shape, knots)

    def one(self, number: int) -> Warp:
        """One of the warps."""
        return self.rows(slice(number, number + 1))

    def shifted(self, lows: Tensor) -> Warp:
        """For boxes of the sources that begin at these voxels."""
        return replace(self, target=self.target - lows)

    @property
    def upright(self) -> bool:
        """Whether windows are only cut, neither turned, scaled nor mirrored. For warps on the CPU."""
        corner = self.target - self.centre
        straight = self.knots is None or not self.knots.any()
        return bool(straight and (self.matrix == torch.eye(len(self.shape))).all() and (corner == corner.round()).all())

    def corners(self) -> tuple[Tensor, tuple[int, ...]]:
        """Of upright windows: the source's voxel `(B, D)` that the first of each window is, and their shape."""
        return (self.target - self.centre).round().long(), self.shape

    def reach(self, sizes: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """Boxes of one shape that hold all that the windows read of sources of these sizes: first voxels and shape."""
        last = torch.tensor(self.shape) - 1
        offsets = torch.maximum(self.centre, last - self.centre)
        if self.knots is not None:  # no voxel moves farther than the farthest knot
            offsets = offsets + self.knots.abs().flatten(2).amax(dim=2)
        extent = (self.matrix.abs() @ offsets.unsqueeze(-1)).squeeze(-1)
        low = torch.minimum((self.target - extent).floor().long().clamp(min=0), sizes - 1)
        high = torch.maximum(torch.minimum((self.target + extent).ceil().long(), sizes - 1), low)
        shape = (high - low + 1).amax(dim=0)
        return torch.minimum(low, (sizes - shape).clamp(min=0)), tuple(shape.tolist())

    def inverse(self, shape: tuple[int, ...]) -> Warp:
        """From a source of that shape back into the window, if that is not bent."""
        return Warp(torch.linalg.inv(self.matrix), self.target, self.centre, shape)

    def back(self, shape: tuple[int, ...]) -> Tensor:
        """Where each voxel of a source of that shape lies in the window, bent or not: `(B, *shape, D)`."""
        straight = self.inverse(shape).points()
        return straight if self.knots is None else settled(straight, displacement(self.knots, self.shape))

    def points(self) -> Tensor:
        """Where each voxel of the window lies in the source, `(B, *S, D)`."""
        device = self.matrix.device
        axes = [torch.arange(n, device=device, dtype=torch.float32) for n in self.shape]
        grid = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
        if self.knots is not None:
            grid = grid + displacement(self.knots, self.shape).flatten(2).transpose(1, 2)
        offset = grid - self.centre.unsqueeze(1)
        points = offset @ self.matrix.transpose(1, 2) + self.target.unsqueeze(1)
        return points.view(len(points), *self.shape, -1)


def inside(points: Tensor, sizes: Tensor) -> Tensor:
    """True where a point falls on a voxel of its source: `(B, *S, D)` and `(B, D)` to `(B, *S)`."""
    last = _over_space(sizes, points) - 0.5
    return ((points >= -0.5 - 1e-4) & (points <= last + 1e-4)).all(dim=-1)


def cut(source: Tensor, low: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """A box of `(C, *S)` that begins at a voxel, inside or not; outside, the nearest border voxel is repeated."""
    for axis, (start, length) in enumerate(zip(low, shape, strict=True), start=1):
        size = source.shape[axis]
        if start >= 0 and start + length <= size:
            source = source.narrow(axis, start, length)
        else:
            place = torch.arange(start, start + length, device=source.device).clamp(0, size - 1)
            source = source.index_select(axis, place)
    return source


def sample_image(boxes: Tensor, points: Tensor, sizes: Tensor, lows: Tensor) -> Tensor:
    """Read boxes `(B, C, *N)` of sources at points by linear interpolation.

    Points are counted in the sources, whose sizes are given, as is where the boxes begin in them. Outside a source its
    nearest border voxel is repeated.
    """
    return _sample(boxes, points, sizes, lows, "bilinear")


def sample_maps(boxes: Tensor, points: Tensor, sizes: Tensor, lows: Tensor) -> Tensor:
    """Read boxes of integer maps `(B, M, *N)` at points by nearest neighbour, else like `sample_image`."""
    return _sample(boxes.to(torch.float32), points, sizes, lows, "nearest").to(boxes.dtype)


def _sample(boxes: Tensor, points: Tensor, sizes: Tensor, lows: Tensor, mode: str) -> Tensor:
    held = torch.minimum(points.clamp(min=0), _over_space(sizes, points) - 1) - _over_space(lows, points)
    along = zip(held.unbind(-1), boxes.shape[2:], strict=True)
    grid = torch.stack([(2 * place + 1) / length - 1 for place, length in along][::-1], dim=-1)
    return F.grid_sample(boxes, grid, mode=mode, padding_mode="border", align_corners=False)


def _over_space(numbers: Tensor, points: Tensor) -> Tensor:
    return numbers.to(torch.float32).view(len(numbers), *[1] * (points.ndim - 2), -1)
