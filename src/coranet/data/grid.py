"""Where voxels lie: orientation, and the recorded way from a scan's own grid to the store's and back.

Indices count voxel centres: voxel `i` of an axis reaches from `i - 1/2` to `i + 1/2`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.geometry import Geometry

Axes = tuple[int, int, int]
Reals = tuple[float, float, float]
Positions = NDArray[np.floating[Any]]
"""Places along one axis, in voxels of the array that is read."""

_TOLERANCE = 0.01
"""Voxels that two grids may lie apart at the farthest corner and still be one: what single precision leaves open."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The store's grid of one scan: `turned_index = scale * store_index + offset` along each axis.

    The turned array is the scan's own with axis `i` taken from its axis `axes[i]`, then reversed where `flips[i]`, so
    that its axes point to the right, to the front and up (RAS+).
    """

    native: Geometry
    axes: Axes
    flips: tuple[bool, bool, bool]
    shape: Axes
    scale: Reals
    offset: Reals

    @property
    def turned_shape(self) -> Axes:
        """The scan's size along the turned axes."""
        x, y, z = (self.native.shape[axis] for axis in self.axes)
        return x, y, z

    @property
    def turned_spacing(self) -> Reals:
        """Millimetres between the scan's own voxels along the turned axes."""
        x, y, z = (self.native.spacing[axis] for axis in self.axes)
        return x, y, z

    @property
    def geometry(self) -> Geometry:
        """How the store's array lies in the world."""
        to_native = np.zeros((4, 4))
        to_native[3, 3] = 1
        for i, (axis, flip, size) in enumerate(zip(self.axes, self.flips, self.turned_shape, strict=True)):
            to_native[axis, i] = -self.scale[i] if flip else self.scale[i]
            to_native[axis, 3] = size - 1 - self.offset[i] if flip else self.offset[i]
        affine = np.array(self.native.affine) @ to_native
        return Geometry(shape=self.shape, affine=tuple((a, b, c, d) for a, b, c, d in affine.tolist()))

    @property
    def spacing(self) -> Reals:
        """Millimetres between the store's voxels along each axis."""
        return self.geometry.spacing

    @property
    def planes(self) -> int | None:
        """The axis along which its slices are stacked, where slices are what such a scan is trained on; else None."""
        if choose_dims(self.turned_shape, self.turned_spacing) == 3:
            return None
        return through_plane_axis(self.turned_shape, self.turned_spacing)

    @property
    def inside(self) -> tuple[slice, slice, slice]:
        """The box of store voxels whose centres lie in the scan; the rest is padding."""
        axes = zip(self.shape, self.scale, self.offset, self.turned_shape, strict=True)
        x, y, z = (_box(is_inside(scale * np.arange(count) + offset, size)) for count, scale, offset, size in axes)
        return x, y, z

    @property
    def reach(self) -> tuple[slice, slice, slice]:
        """The box of the turned scan's voxels that the store holds, wholly or in part."""
        axes = zip(self.shape, self.scale, self.offset, self.turned_shape, strict=True)
        x, y, z = (_reach(count, scale, offset, size) for count, scale, offset, size in axes)
        return x, y, z

    def turn(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of `(..., x, y, z)` in the scan's own orientation as RAS+."""
        lead = array.ndim - 3
        return self._flip(array.transpose(*range(lead), *(lead + axis for axis in self.axes)))

    def turn_back(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of a RAS+ `(..., X, Y, Z)` in the scan's own orientation."""
        lead = array.ndim - 3
        return self._flip(array).transpose(*range(lead), *(lead + self.axes.index(axis) for axis in range(3)))

    def _flip(self, turned: NDArray[Any]) -> NDArray[Any]:
        return np.flip(turned, tuple(i - 3 for i in range(3) if self.flips[i]))

    def to_json(self) -> dict[str, Any]:
        """The grid as lists of numbers, exact."""
        return {
            "native": {"shape": list(self.native.shape), "affine": [list(row) for row in self.native.affine]},
            "axes": list(self.axes),
            "flips": list(self.flips),
            "shape": list(self.shape),
            "scale": list(self.scale),
            "offset": list(self.offset),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Grid:
        """The inverse of `to_json`."""
        native = data["native"]
        geometry = Geometry(shape=tuple(native["shape"]), affine=tuple(tuple(row) for row in native["affine"]))
        return cls(native=geometry, **{name: tuple(value) for name, value in data.items() if name != "native"})


def is_inside(positions: Positions, size: int) -> NDArray[np.bool_]:
    """Which of the positions along an axis of `size` voxels lie in a voxel; half a thousandth is rounding."""
    return (positions > -0.5005) & (positions < size - 0.4995)


def _reach(count: int, scale: float, offset: float, size: int) -> slice:
    """Of an axis of `size` voxels, those that `count` voxels of the store reach into; half a thousandth is rounding."""
    first, last = offset - scale / 2 + 0.5005, offset + scale * (count - 0.5) + 0.4995
    return slice(max(0, math.floor(first)), min(size, math.ceil(last)))


def _box(inside: NDArray[np.bool_]) -> slice:
    where = np.flatnonzero(inside)
    return slice(int(where[0]), int(where[-1]) + 1) if where.size else slice(0, 0)


def orientation(geometry: Geometry) -> tuple[Axes, tuple[bool, bool, bool]]:
    """`axes` and `flips` that bring an array to RAS+: the permutation that lies nearest to the axes of the world."""
    directions = np.array(geometry.affine)[:3, :3] / geometry.spacing

    def nearness(axes: tuple[int, ...]) -> tuple[float, ...]:
        """How near the axes lie to those of the world; where that is a tie, where they point, whatever their order."""
        chosen = directions[:, axes]
        turned = chosen * np.where(np.diag(chosen) < 0, -1, 1)
        return (round(float(np.diag(turned).sum()), 6), *np.round(turned, 6).ravel().tolist())

    x, y, z = max(permutations(range(3)), key=nearness)
    right, front, up = (bool(directions[i, axis] < 0) for i, axis in enumerate((x, y, z)))
    return (x, y, z), (right, front, up)


def orientation_code(geometry: Geometry) -> str:
    """Where the array's own axes point, such as `LPS` for left, back (posterior), up (superior)."""
    axes, flips = orientation(geometry)
    towards = {axis: "RAS"[i] if not flips[i] else "LPI"[i] for i, axis in enumerate(axes)}
    return "".join(towards[axis] for axis in range(3))


def through_plane_axis(shape: Sequence[float], spacing: Sequence[float]) -> int:
    """The axis along which slices were taken: one of a single voxel, else of the widest spacing, else the last."""
    widest = max(spacing) * (1 - 1e-3)  # headers round
    return max(range(len(shape)), key=lambda axis: (shape[axis] == 1, spacing[axis] >= widest, axis))


def choose_dims(shape: Sequence[float], spacing: Sequence[float]) -> int:
    """Volumes where scans have at least 24 voxels along each axis, none more than three times as long as another."""
    return 3 if min(shape) >= 24 and max(spacing) <= 3 * min(spacing) else 2


def mismatch(first: Geometry, second: Geometry) -> str:
    """How two grids differ, in words with sizes; empty where they are one."""
    if first.shape != second.shape:
        return f"sizes differ: {first.shape} and {second.shape} voxels"
    corners = np.array(list(product(*((-0.5, size - 0.5) for size in first.shape), (1,)))).T
    apart = (np.linalg.inv(first.affine) @ second.affine @ corners - corners)[:3]
    farthest = float(np.abs(apart).max())
    if farthest <= _TOLERANCE:
        return ""
    spacings = " and ".join("x".join(f"{value:.4g}" for value in geometry.spacing) for geometry in (first, second))
    codes = f"{orientation_code(first)} and {orientation_code(second)}"
    return f"places differ by up to {farthest:.3g} voxels (spacings {spacings} mm, orientations {codes})"
