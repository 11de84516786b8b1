"""Distances between the surfaces of two masks, exact, for flat images and for volumes.

The surface of a mask is its voxels that share a face with background (connectivity 1, the mask minus its erosion);
what lies outside the array is background. Distances run between the centres of surface voxels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coranet.metrics.overlap import Mask

Points = NDArray[np.int64]
"""`(N, dims)` voxel indices."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """What is said of two surfaces P and L, with d(p, L) the distance from p to the nearest point of L."""

    hd: float
    """Hausdorff distance: the largest d(p, L) or d(l, P)."""
    hd95: float
    """The 95th percentile of all d(p, L) and d(l, P), pooled."""
    asd: float
    """Average surface distance, in one direction: the mean of d(p, L)."""
    assd: float
    """Average symmetric surface distance: the mean of all d(p, L) and d(l, P), pooled."""


def distances(prediction: Mask, label: Mask, spacing: Sequence[float]) -> tuple[Distances, Distances]:
    """Distances between two masks, neither of them empty: in voxels, and in the unit of the spacing."""
    here, there = surface(prediction), surface(label)
    voxels = (1.0,) * label.ndim
    outward, back = nearest(here, there, voxels), nearest(there, here, voxels)
    in_voxels = _describe(outward, back)
    if len(set(spacing)) == 1:
        return in_voxels, _describe(outward * spacing[0], back * spacing[0])
    return in_voxels, _describe(nearest(here, there, spacing), nearest(there, here, spacing))


def surface(mask: Mask) -> Points:
    """Where the surface of a mask lies."""
    start, inside = _crop(mask)
    core = inside.copy(order="K")
    for axis in range(mask.ndim):
        kept, whole = np.moveaxis(core, axis, 0), np.moveaxis(inside, axis, 0)
        kept[1:] &= whole[:-1]
        kept[:-1] &= whole[1:]
        kept[[0, -1]] = False
    return np.argwhere(inside & ~core) + start


def nearest(points: Points, others: Points, spacing: Sequence[float]) -> NDArray[np.float64]:
    """Distance `(N,)` from each point to the nearest of the others.

    The squared distance separates by axis: d²(x, y, z) = min over z' of d²(x, y | plane z') + (z - z')². Each plane that
    holds others is transformed once and read at the points alone, so that memory is that of a plane, not of a volume.
    """
    from scipy.ndimage import distance_transform_edt  # whoever only reads scores need not wait for it

    if len(spacing) < 3:  # a flat image is one plane
        points, others = (np.pad(p, ((0, 0), (0, 1))) for p in (points, others))
        spacing = (*spacing, 1.0)
    low = np.minimum(points.min(axis=0), others.min(axis=0))
    size = np.maximum(points.max(axis=0), others.max(axis=0)) - low + 1
    *at, depth = (points - low).T
    *sources, source_depth = (others - low).T

    squared = np.full(len(points), np.inf)
    for z in np.unique(source_depth):
        plane = np.ones(size[:-1], dtype=bool)
        plane[tuple(axis[source_depth == z] for axis in sources)] = False
        across = distance_transform_edt(plane, sampling=spacing[:-1])
        np.minimum(squared, across[tuple(at)] ** 2 + ((depth - z) * spacing[-1]) ** 2, out=squared)
    found: NDArray[np.float64] = np.sqrt(squared)
    return found


def _crop(mask: Mask) -> tuple[Points, Mask]:
    """The smallest box around a mask: where it starts, and what is in it."""
    axes = range(mask.ndim)
    hits = [np.flatnonzero(mask.any(axis=tuple(other for other in axes if other != axis))) for axis in axes]
    start = np.array([hit[0] for hit in hits])
    return start, mask[tuple(slice(hit[0], hit[-1] + 1) for hit in hits)]


def _describe(outward: NDArray[np.float64], back: NDArray[np.float64]) -> Distances:
    pooled = np.concatenate([outward, back])
    return Distances(
        hd=float(pooled.max()),
        hd95=float(np.percentile(pooled, 95)),
        asd=float(outward.mean()),
        assd=float(pooled.mean()),
    )
