"""Arrays from a scan's grid to the store's and back: one recorded grid for the image and all its maps.

Resampling is separable, one small matrix of weights an axis, so it runs as matrix products. An axis that is only turned,
cropped or padded is copied to the bit. No path rounds an index: a nearest neighbour breaks its ties to one side, which
moves labels against images by up to half a voxel. Labels are put to the vote instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Grid, Positions, is_inside

T = TypeVar("T", bound=np.generic)
Floats = NDArray[np.float32]
Labels = NDArray[np.uint8]
Matrix = NDArray[np.floating[Any]]
Weights = Callable[[Positions, int, float], Matrix]
"""From `m` positions, uniformly `scale` apart on an axis of `n` voxels, to weights `(m, n)` whose rows sum to one."""

_ROUNDING = np.float32(1e-5)
"""Shares that differ by less are equal: the order of a sum must not decide a vote."""


class Step(NamedTuple):
    """What one axis becomes: `size` voxels, the i-th read at `scale * i + offset`."""

    size: int
    scale: float
    offset: float


Steps = tuple[Step, ...]


def forward_image(image: NDArray[Any], grid: Grid) -> Floats:
    """A channel `(x, y, z)` on the store's grid, within the range it had; padding takes its lowest value.

    Cubic splines; linear averages over the new voxel along axes that lose more than half of their voxels.
    """
    image = image.astype(np.float32, copy=False)
    low, high = image.min(), image.max()
    resampled = _resample(grid.turn(image), _there(grid), _spline_or_average, fill=float(low))
    return resampled.clip(low, high)


def forward_label(label: NDArray[Any], grid: Grid) -> Labels:
    """A label map `(x, y, z)` on the store's grid; padding is background."""
    return _vote(grid.turn(label), _there(grid))


def restore_probabilities(probabilities: NDArray[Any], grid: Grid) -> Floats:
    """`(K, X, Y, Z)` of the store on the scan's own grid, summing to one; what the store never held is background."""
    restored = _resample(probabilities.astype(np.float32, copy=False), _back(grid), average, fill=0.0)
    restored[0] = np.maximum(restored[0] + 1 - restored.sum(axis=0), 0)
    return np.ascontiguousarray(grid.turn_back(restored))


def restore_labels(labels: NDArray[Any], grid: Grid) -> Labels:
    """A label map or mask `(X, Y, Z)` of the store on the scan's own grid; what the store never held is 0."""
    return np.ascontiguousarray(grid.turn_back(_vote(labels, _back(grid))))


def average(positions: Positions, size: int, scale: float) -> Matrix:
    """Linear interpolation; where voxels grow, the triangle grows with them, so that none is skipped."""
    distance = np.abs(positions[:, None] - np.arange(size))
    triangle = np.maximum(0, 1 - distance / max(1, scale))
    return np.asarray(triangle / triangle.sum(axis=1, keepdims=True))


def spline(positions: Positions, size: int, scale: float) -> Matrix:
    """The interpolating cubic spline whose coefficients go on past the border with their last value."""
    del scale
    at_voxels = _b_splines(np.arange(size, dtype=np.float64), size)
    # Positions between a border voxel's centre and its edge take its value.
    return _b_splines(positions.clip(0, size - 1), size) @ np.linalg.inv(at_voxels)


def _spline_or_average(positions: Positions, size: int, scale: float) -> Matrix:
    return spline(positions, size, scale) if scale <= 2 else average(positions, size, scale)


def _b_splines(positions: Positions, size: int) -> Matrix:
    """Cubic B-splines at the voxels, read at `positions`: `(m, n)`."""
    basis = np.zeros((len(positions), size))
    first = np.floor(positions).astype(int) - 1
    for knot in (first, first + 1, first + 2, first + 3):
        distance = np.abs(positions - knot)
        near = 2 / 3 - distance**2 + distance**3 / 2
        far = np.maximum(0, 2 - distance) ** 3 / 6
        basis[np.arange(len(positions)), knot.clip(0, size - 1)] += np.where(distance < 1, near, far)
    return basis


def _there(grid: Grid) -> Steps:
    return tuple(map(Step, grid.shape, grid.scale, grid.offset))


def _back(grid: Grid) -> Steps:
    axes = zip(grid.turned_shape, grid.scale, grid.offset, strict=True)
    return tuple(Step(size, 1 / scale, -offset / scale) for size, scale, offset in axes)


def _resample(array: NDArray[T], steps: Steps, weights: Weights, fill: float) -> NDArray[T]:
    """`(..., X, Y, Z)` through one step along each of its last three axes; `fill` outside. Always a copy."""
    for axis, step in enumerate(steps, start=array.ndim - 3):
        array = _resample_axis(array, axis, step, weights, fill)
    return np.array(array, order="C")


def _resample_axis(array: NDArray[T], axis: int, step: Step, weights: Weights, fill: float) -> NDArray[T]:
    source = np.moveaxis(array, axis, 0)
    if step == Step(len(source), 1, 0):
        return array
    positions = step.scale * np.arange(step.size) + step.offset
    inside = is_inside(positions, len(source))
    result = np.full((step.size, *source.shape[1:]), fill, array.dtype)
    if step.scale == 1:
        result[inside] = source[positions[inside].astype(int)]
    else:
        matrix = weights(positions[inside], len(source), step.scale).astype(array.dtype)
        result[inside] = np.tensordot(matrix, source, axes=1)
    return np.moveaxis(result, 0, axis)


def _vote(labels: NDArray[Any], steps: Steps) -> Labels:
    """Each voxel takes the class with the largest share of it; a tie with background is background."""
    labels = labels.astype(np.uint8, copy=False)
    if all(step.scale == 1 for step in steps):
        return _resample(labels, steps, average, fill=0)
    winner = np.zeros([step.size for step in steps], np.uint8)
    largest = np.zeros(winner.shape, np.float32)
    background = np.ones(winner.shape, np.float32)
    present = np.flatnonzero(np.bincount(labels.ravel()))
    for value in present[present > 0]:
        share = _resample((labels == value).astype(np.float32), steps, average, fill=0.0)
        background -= share
        larger = share > largest + _ROUNDING
        winner[larger] = value
        largest[larger] = share[larger]
    winner[largest <= background + _ROUNDING] = 0
    return winner
