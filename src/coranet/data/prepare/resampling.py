"""Arrays from a scan's grid to the store's and back: one recorded grid for the image and all its maps.

An axis that is only turned, cropped or padded is copied to the bit. No path rounds an index: a nearest neighbour that breaks
its ties to one side moves labels against images by up to half a voxel. Labels are put to the vote instead, in which voxels
that are equally near have equal shares. From a store at least as fine as the scan every label comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Grid, is_inside
from coranet.data.prepare.crop import box_of
from coranet.data.prepare.interpolation import (
    Weights,
    average,
    linear,
    nearest_or_linear,
    nearest_or_share,
    spline_or_average,
)
from coranet.data.prepare.separable import Step, Steps, lines_of, parts_of, resample_part

Floats = NDArray[np.float32]
Labels = NDArray[np.uint8]

_ROUNDING = np.float32(1e-5)
"""Shares that differ by less are equal: the order of a sum must not decide a vote."""


def forward_image(image: NDArray[Any], grid: Grid, interpolation: Literal["spline", "linear"] = "spline") -> Floats:
    """A channel `(x, y, z)` on the store's grid, within the range it had; padding takes its lowest value."""
    turned = np.array(grid.turn(image), np.float32, order="C")
    return np.concatenate(list(image_slabs(turned, grid, interpolation)))


def image_slabs(turned: Floats, grid: Grid, interpolation: Literal["spline", "linear"] = "spline") -> Iterator[Floats]:
    """`forward_image` of what is turned already, some planes `(n, Y, Z)` at a time.

    Cubic splines, or lines; averages over the new voxel along axes that lose more than half of their voxels.
    """
    low, high = turned.min(), turned.max()
    weights = spline_or_average if interpolation == "spline" else average
    lines = lines_of(turned.shape, _there(grid), weights)
    for rows in parts_of(lines, turned.shape):
        slab = resample_part(turned, lines, rows, lambda cut: cut, float(low))
        yield np.clip(slab, low, high, out=slab)


def forward_label(label: NDArray[Any], grid: Grid) -> Labels:
    """A label map `(x, y, z)` on the store's grid; padding is background."""
    return forward_turned(np.ascontiguousarray(grid.turn(label), np.uint8), grid)


def forward_turned(turned: Labels, grid: Grid, ignore: int | None = None) -> Labels:
    """`forward_label` of what is turned already.

    A class too small to win any voxel of a coarser grid takes those it has most of, as many as its volume. Where some
    voxels are not drawn, those that are vote alone, and padding is not drawn either.
    """
    steps = _there(grid)
    if ignore is not None and ignore in turned:
        winner = _vote_of_drawn(turned, steps, ignore)
    else:
        winner = _vote(turned, steps, nearest_or_share)
    if max(grid.scale) > 1:
        counts = class_counts(turned)
        counts[ignore or 0] = 0
        for value in np.flatnonzero(counts.astype(bool) & ~class_counts(winner).astype(bool)):
            voxels = max(1, round(int(counts[value]) / float(np.prod(grid.scale))))
            _keep(winner, turned, steps, int(value), voxels)
    return winner


def restore_probabilities(probabilities: NDArray[Any], grid: Grid) -> Floats:
    """`(K, X, Y, Z)` of the store on the scan's own grid, summing to one; what the store never held is background."""
    restored = np.empty((len(probabilities), *grid.turned_shape), np.float32)
    lines = lines_of(probabilities.shape[1:], _back(grid), linear)
    for rows in parts_of(lines, probabilities.shape[1:]):
        for source, target in zip(probabilities, restored, strict=True):
            target[rows] = resample_part(source, lines, rows, _as_floats, 0.0)
        restored[0, rows] += 1 - restored[:, rows].sum(axis=0)
        np.maximum(restored[0, rows], 0, out=restored[0, rows])
    return np.ascontiguousarray(grid.turn_back(restored))


def restore_labels(labels: NDArray[Any], grid: Grid) -> Labels:
    """A label map or mask `(X, Y, Z)` of the store on the scan's own grid; what the store never held is 0."""
    return np.ascontiguousarray(grid.turn_back(restore_turned(labels.astype(np.uint8, copy=False), grid)))


def restore_turned(labels: Labels, grid: Grid) -> Labels:
    """`restore_labels` before it is turned back."""
    return _vote(labels, _back(grid), nearest_or_linear)


def _there(grid: Grid) -> Steps:
    x, y, z = map(Step, grid.shape, grid.scale, grid.offset)
    return x, y, z


def _back(grid: Grid) -> Steps:
    axes = zip(grid.turned_shape, grid.scale, grid.offset, strict=True)
    x, y, z = (Step(size, 1 / scale, -offset / scale) for size, scale, offset in axes)
    return x, y, z


def _as_floats(cut: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(cut, np.float32)


def _vote(labels: Labels, steps: Steps, weights: Weights) -> Labels:
    """Each voxel takes the class with the largest share of it; a tie with background is background."""
    if all(step.copies for step in steps):
        lines = lines_of(labels.shape, steps, weights)
        parts = parts_of(lines, labels.shape)
        return np.concatenate([resample_part(labels, lines, rows, lambda cut: cut, 0) for rows in parts])
    winner = np.zeros([step.size for step in steps], np.uint8)
    if (near := _near_objects(labels, steps)) is None:
        return winner
    labels, steps, place = near
    lines, target = lines_of(labels.shape, steps, weights), winner[place]
    values = [int(value) for value in np.flatnonzero(class_counts(labels)) if value]
    for rows in parts_of(lines, labels.shape):
        largest = np.zeros(target[rows].shape, np.float32)
        background = np.ones_like(largest)
        for value in values:
            found = resample_part(labels, lines, rows, _is(value), 0.0)
            background -= found
            larger = found > largest + _ROUNDING
            target[rows][larger] = value
            largest[larger] = found[larger]
        target[rows][largest <= background + _ROUNDING] = 0
    return winner


def _vote_of_drawn(labels: Labels, steps: Steps, ignore: int) -> Labels:
    """Each voxel takes the drawn class with the largest share of it, and none where less is drawn than half a voxel.

    Of a grid that is coarser than the drawing, one slice or line of it must not be outvoted by what lies beside it.
    """
    least = 0.5 / float(np.prod([max(step.scale, 1) for step in steps]))
    winner = np.full([step.size for step in steps], ignore, np.uint8)
    lines = lines_of(labels.shape, steps, nearest_or_share)
    values = [int(value) for value in np.flatnonzero(class_counts(labels)) if value != ignore]
    for rows in parts_of(lines, labels.shape):
        largest, drawn = np.zeros((2, *winner[rows].shape), np.float32)
        for value in values:
            found = resample_part(labels, lines, rows, _is(value), 0.0)
            drawn += found
            larger = found > largest + _ROUNDING
            winner[rows][larger] = value
            largest[larger] = found[larger]
        winner[rows][drawn < least - _ROUNDING] = ignore
    return winner


def _keep(winner: Labels, labels: Labels, steps: Steps, value: int, voxels: int) -> None:
    """Give a class the voxels of which it has the largest shares."""
    if (near := _near_objects(labels, steps, value)) is None:
        return
    labels, steps, place = near
    lines, target = lines_of(labels.shape, steps, nearest_or_share), winner[place]
    shares = np.concatenate(
        [resample_part(labels, lines, rows, _is(value), 0.0) for rows in parts_of(lines, labels.shape)]
    )
    best = np.argsort(shares, axis=None, kind="stable")[::-1][:voxels]
    chosen = np.unravel_index(best[shares.ravel()[best] > _ROUNDING], shares.shape)
    target[chosen] = value


def _near_objects(
    labels: Labels, steps: Steps, value: int | None = None
) -> tuple[Labels, Steps, tuple[slice, ...]] | None:
    """The part of a label map with all its objects, or those of one class, the steps from there, and where they lead."""
    if (box := box_of(labels if value is None else labels == value)) is None:
        return None
    cuts, inner, place = [], [], []
    for (first, last), step, size in zip(box, steps, labels.shape, strict=True):
        reach = int(np.ceil(max(2, step.scale + 1))) + 1
        cut = slice(max(0, first - reach), min(size, last + reach))
        where = np.flatnonzero(
            is_inside(step.scale * np.arange(step.size) + step.offset - cut.start, cut.stop - cut.start)
        )
        if not where.size:
            return None
        cuts.append(cut)
        inner.append(Step(len(where), step.scale, step.offset + step.scale * int(where[0]) - cut.start))
        place.append(slice(int(where[0]), int(where[-1]) + 1))
    x, y, z = inner
    return labels[tuple(cuts)], (x, y, z), tuple(place)


def _is(value: int) -> Callable[[NDArray[Any]], Floats]:
    return lambda cut: np.asarray(cut == value, np.float32, order="C")


def class_counts(labels: Labels) -> NDArray[np.int64]:
    """Voxels of each value, plane by plane: counting takes eight bytes a voxel."""
    counts = np.zeros(256, np.int64)
    for plane in labels:
        counts += np.bincount(plane.ravel(), minlength=256)
    return counts
