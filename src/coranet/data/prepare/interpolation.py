"""How a voxel between others is read along one axis: weights `(m, n)` whose rows sum to one.

From `m` positions, uniformly `scale` apart, on an axis of `n` voxels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Positions

Matrix = NDArray[np.floating[Any]]
Weights = Callable[[Positions, int, float], Matrix]


def linear(positions: Positions, size: int, scale: float) -> Matrix:
    """Between the two nearest voxels, however far the positions lie apart."""
    del scale
    return average(positions, size, 1.0)


def average(positions: Positions, size: int, scale: float) -> Matrix:
    """Linear interpolation; where voxels grow, the triangle grows with them, so that none is skipped."""
    distance = np.abs(positions[:, None] - np.arange(size))
    triangle = np.maximum(0, 1 - distance / max(1, scale))
    return np.asarray(triangle / triangle.sum(axis=1, keepdims=True))


def share(positions: Positions, size: int, scale: float) -> Matrix:
    """How much of a voxel of the new size each of the old ones fills."""
    voxels = np.arange(size)
    first = np.maximum(positions[:, None] - scale / 2, voxels - 0.5)
    overlap = np.maximum(0, np.minimum(positions[:, None] + scale / 2, voxels + 0.5) - first)
    return np.asarray(overlap / overlap.sum(axis=1, keepdims=True))


def spline(positions: Positions, size: int, scale: float) -> Matrix:
    """The interpolating cubic spline whose coefficients go on past the border with their last value."""
    del scale
    # Positions between a border voxel's centre and its edge take its value.
    solved = _b_splines(positions.clip(0, size - 1), size).T
    # The splines at the voxels themselves are a matrix of three diagonals; solved so, nothing depends on threads.
    pivots = np.full(size, 2 / 3)
    pivots[0] += 1 / 6
    pivots[-1] += 1 / 6
    for i in range(1, size):
        factor = 1 / (6 * pivots[i - 1])
        pivots[i] -= factor / 6
        solved[i] -= factor * solved[i - 1]
    solved[-1] /= pivots[-1]
    for i in reversed(range(size - 1)):
        solved[i] = (solved[i] - solved[i + 1] / 6) / pivots[i]
    return solved.T


def nearest(positions: Positions, size: int, scale: float) -> Matrix:
    """The nearest voxel; both where two are equally near, so that nothing moves to one side."""
    del scale
    distance = np.abs(positions[:, None] - np.arange(size))
    near = distance <= distance.min(axis=1, keepdims=True) + 1e-6
    return np.asarray(near / near.sum(axis=1, keepdims=True))


def nearest_or_share(positions: Positions, size: int, scale: float) -> Matrix:
    """Of labels: the nearest voxel where they shrink, the share of the new voxel where they grow."""
    return nearest(positions, size, scale) if scale <= 1 else share(positions, size, scale)


def nearest_or_linear(positions: Positions, size: int, scale: float) -> Matrix:
    """Of labels on their way back: the nearest voxel where the store's are smaller, else between the two nearest.

    A voxel of the scan lies less than half a voxel from the nearest of a store at least as fine, which was read from it: so
    from such a store every label comes back as it was.
    """
    return nearest(positions, size, scale) if scale >= 1 else linear(positions, size, scale)


def spline_or_average(positions: Positions, size: int, scale: float) -> Matrix:
    """Of images: a spline, but averages along axes that lose more than half of their voxels."""
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
