"""A case as it is trained on: RAS+, on one recorded grid with its label, with grey levels of one scale.

    scan -> turned to RAS+ -> grey levels -> spacing -> crop -> size

Grey levels come before the grid, so that their statistics are those of the whole scan, whatever is cropped or padded later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Grid, mismatch, orientation
from coranet.data.prepare.crop import Box, around, box_of, foreground_box
from coranet.data.prepare.intensity import background_threshold, normalise, normalise_in_place
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.resampling import (
    forward_image,
    forward_label,
    forward_turned,
    image_slabs,
    restore_labels,
    restore_probabilities,
)
from coranet.data.problem import FileError, Problem
from coranet.data.readers import Volume
from coranet.errors import InputError
from coranet.geometry import Geometry

__all__ = [
    "OTHER_GRID",
    "Grid",
    "Opened",
    "Preparation",
    "Prepared",
    "forward_image",
    "forward_label",
    "label_values",
    "normalise",
    "open_case",
    "plan",
    "prepare_case",
    "restore_labels",
    "restore_probabilities",
    "restore_score",
]

OTHER_GRID = "Resample it to the grid of the other, or copy the header if only that is wrong"
"""What to do about a channel or label that does not lie on its image's grid."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A case on the store's grid."""

    image: NDArray[np.float32]
    """`(C, X, Y, Z)`."""
    label: NDArray[np.uint8] | None
    """`(X, Y, Z)`; None for an unlabelled case."""
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A case whose grid is known and whose channels are still to be read: what needs little memory."""

    grid: Grid
    truth: NDArray[np.uint8] | None
    """The label on the scan's own grid, turned to RAS+."""
    slabs: Iterator[NDArray[np.float32]]
    """Of the image `(C, X, Y, Z)`, some planes `(n, Y, Z)` at a time; each channel is read when its turn comes."""
    warnings: list[Problem]
    """What readers had to say, complete once the channels are read."""

    def place_label(self, ignore: int | None = None) -> NDArray[np.uint8] | None:
        """The label `(X, Y, Z)` on the store's grid; best when the channels are out of memory again."""
        return None if self.truth is None else forward_turned(self.truth, self.grid, ignore)


def plan(geometry: Geometry, settings: Preparation, box: Box | None = None) -> Grid:
    """The store's grid for a scan that lies so; `box` is what is to be kept, in its own voxels along RAS+."""
    axes, flips = orientation(geometry)
    per_axis = [_plan_axis(axis, geometry, axes, settings, box) for axis in range(3)]
    shape, scale, offset = ((x, y, z) for x, y, z in zip(*per_axis, strict=True))
    _check_voxels(geometry, shape, settings)
    return Grid(native=geometry, axes=axes, flips=flips, shape=shape, scale=scale, offset=offset)


def _check_voxels(geometry: Geometry, shape: tuple[int, int, int], settings: Preparation) -> None:
    """A grid that is finer beyond all use would fill memory; a small scan may be made far finer than a large one."""
    scan, voxels = prod(geometry.shape), prod(shape)
    if voxels > max(2**24, min(512 * scan, 2**29), 8 * scan):
        raise InputError(
            f"spacing {settings.spacing}, crop_box {settings.crop_box} and size {settings.size} make {voxels:.2g} voxels "
            f"of a scan of {' x '.join(map(str, geometry.shape))}. Choose a coarser spacing, or a smaller box or size."
        )


def _plan_axis(
    axis: int, geometry: Geometry, axes: tuple[int, int, int], settings: Preparation, box: Box | None
) -> tuple[int, float, float]:
    """Size, scale and offset of one axis. n voxels resized to m are read at `(i + 1/2) n/m - 1/2`."""
    voxels, target, size = geometry.shape[axes[axis]], settings.spacing[axis], settings.size[axis]
    taken_for = axes[0] if axis == 2 and settings.slice_spacing == "in_plane" else axes[axis]
    resized = voxels if target is None else max(1, round(voxels * geometry.spacing[taken_for] / target))
    first, last = 0, resized
    if given := settings.crop_box[axis]:
        first, last = given
    elif box is not None:
        first, last = around(
            box[axis], voxels / resized, resized, settings.crop_margin[axis], settings.crop_least[axis]
        )
    if size is not None and settings.fit == "resize":
        if (first, last) == (0, resized):
            resized = last = size
        scale = voxels / resized * ((last - first) / size)
    else:
        size = size or last - first
        first, scale = first + (last - first - size) // 2, voxels / resized
    return size, scale, voxels / resized * first + (scale - 1) / 2


def prepare_case(volumes: Sequence[Volume], label: Volume | None, settings: Preparation) -> Prepared:
    """One case's channels, and its label where it has one, on one grid.

    Raises:
        InputError: channels or label do not lie on one grid, a voxel is not finite, a label is no whole number.
    """
    opened = open_case(volumes, [label] if label else [], settings)
    image = np.empty((len(volumes), *opened.grid.shape), np.float32)
    planes, done = image.reshape(-1, *image.shape[2:]), 0
    for slab in opened.slabs:
        planes[done : done + len(slab)] = slab
        done += len(slab)
    return Prepared(image=image, label=opened.place_label(), grid=opened.grid)


def open_case(volumes: Iterable[Volume], labels: Iterable[Volume], settings: Preparation) -> Opened:
    """A case's label and its first channel, on one grid; the channels after it are read later, one at a time.

    Args:
        volumes: the channels; of a generator no two are in memory at a time.
        labels: one label or none.
        settings: how it is prepared.

    Raises:
        InputError: what `prepare_case` raises, or there is no label to crop to.
    """
    images = iter(volumes)
    first = _take(images)
    assert first is not None, "a case has a channel"
    truth = _take_label(iter(labels), first)
    grid = plan(first.geometry, settings, _box(first, truth, settings))
    warnings = [*(truth.warnings if truth else ()), *first.warnings]
    return Opened(
        grid=grid,
        truth=truth.array if truth else None,
        slabs=_slabs([first], images, grid, settings, warnings),
        warnings=warnings,
    )


@dataclass(frozen=True)
class _Taken:
    """What is kept of a volume once it was read."""

    array: NDArray[Any]
    """Along RAS+; of an image float32, of a label uint8."""
    geometry: Geometry
    name: Path | str
    warnings: tuple[Problem, ...]


def _take(volumes: Iterator[Volume], first: _Taken | None = None) -> _Taken | None:
    """The next channel, which lies where the first does."""
    volume = next(volumes, None)
    if volume is None:
        return None
    if first is not None:
        _check_place(volume, first)
    array = np.array(plan(volume.geometry, Preparation()).turn(volume.array), np.float32, order="C")
    if not (np.isfinite(array.min()) and np.isfinite(array.max())):
        raise FileError(_name(volume), "has voxels that are not finite", "Replace them, or leave the case out")
    return _Taken(array, volume.geometry, _name(volume), volume.warnings)


def _take_label(labels: Iterator[Volume], first: _Taken) -> _Taken | None:
    volume = next(labels, None)
    if volume is None:
        return None
    _check_place(volume, first)
    array = np.ascontiguousarray(plan(volume.geometry, Preparation()).turn(label_values(volume)))
    return _Taken(array, volume.geometry, _name(volume), volume.warnings)


def _check_place(other: Volume, first: _Taken) -> None:
    if difference := mismatch(first.geometry, other.geometry):
        raise FileError(_name(other), f"does not lie on the grid of {first.name}: {difference}", OTHER_GRID)


def _box(first: _Taken, truth: _Taken | None, settings: Preparation) -> Box | None:
    """What is to be kept of a scan, in its own voxels along RAS+; None is all of it, or what the settings say."""
    if settings.crop == "foreground":
        return foreground_box(first.array, background_threshold(first.array))
    if settings.crop != "label":
        return None
    if truth is None:
        remedy = "Leave it out, or crop to something else than the ground truth"
        raise FileError(first.name, "has no label, and crop=label asks for one", remedy)
    found = box_of(truth.array)
    if found is None:
        raise FileError(truth.name, "is all background, so there is nothing to crop to", "Leave the case out")
    return found


def _slabs(
    held: list[_Taken], images: Iterator[Volume], grid: Grid, settings: Preparation, warnings: list[Problem]
) -> Iterator[NDArray[np.float32]]:
    """The channels on the store's grid, the one that is `held` first; each leaves memory before the next is read."""
    first = _Taken(np.empty(0), held[0].geometry, held[0].name, ())
    scan: _Taken | None = held.pop()
    channel = 0
    while scan is not None:
        normalise_in_place(scan.array, settings, channel, grid.reach)
        yield from image_slabs(scan.array, grid, settings.interpolation)
        scan = None
        channel += 1
        if scan := _take(images, first):
            warnings += scan.warnings


def restore_score(score: NDArray[Any], grid: Grid) -> NDArray[np.float32]:
    """A score `(X, Y, Z)` of the store on the scan's own grid, linear between voxels; what the store never held is 0."""
    beside_background = np.broadcast_to(score, (2, *score.shape))  # only background is filled up to a sum of one
    _, restored = restore_probabilities(beside_background, grid)
    return np.array(restored)


def label_values(volume: Volume) -> NDArray[np.uint8]:
    """The classes of a label map, 0 to 255; a rounding error of the file's scaling is forgiven."""
    values = np.empty_like(volume.array, np.uint8)
    low, high = np.inf, -np.inf
    # Plane by plane, as they lie in memory: numbers with decimals take eight bytes a voxel, and every step a copy.
    planes = (volume.array, values) if volume.array.flags.c_contiguous else (volume.array.T, values.T)
    for plane, target in zip(*planes, strict=True):
        rounded: NDArray[Any] = np.rint(plane) if plane.dtype.kind == "f" else plane
        if rounded is not plane and not np.abs(plane - rounded).max() < 1e-3:
            remedy = "Save it as integers, unsmoothed"
            raise FileError(_name(volume), "has label values that are not whole numbers", remedy)
        low, high = min(low, float(rounded.min())), max(high, float(rounded.max()))
        target[...] = rounded.clip(0, 255)
    if low < 0 or high > 255:
        remedy = "Number the classes from 0 to 255 at most"
        raise FileError(_name(volume), f"has label values from {low:g} to {high:g}", remedy)
    return values


def _name(volume: Volume) -> Path | str:
    return volume.path or "volume"
