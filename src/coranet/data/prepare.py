"""A case as it is trained on: RAS+, on one recorded grid with its label, with grey levels of one scale.

    scan -> grey levels -> turned to RAS+ -> spacing -> size

Grey levels come first, so that their statistics are those of the whole scan, whatever is cropped or padded later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Grid, mismatch, orientation
from coranet.data.problem import FileError
from coranet.data.readers.nifti import Volume
from coranet.data.resample import forward_image, forward_label, restore_labels, restore_probabilities
from coranet.errors import InputError
from coranet.types import Geometry

__all__ = [
    "OTHER_GRID",
    "Grid",
    "Preparation",
    "Prepared",
    "forward_image",
    "forward_label",
    "label_values",
    "normalise",
    "plan",
    "prepare_case",
    "restore_labels",
    "restore_probabilities",
]

OTHER_GRID = "Resample it to the grid of the other, or copy the header if only that is wrong"
"""What to do about a channel or label that does not lie on its image's grid."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How scans are brought to one form. Axes are right, front and up; None leaves an axis as it is."""

    intensity: Literal["zscore", "window", "minmax", "percentile"] = "zscore"
    """Grey levels of a scan: mean 0 and deviation 1, a fixed window to -1..1, lowest to highest or the 0.5th to the
    99.5th percentile to 0..1."""
    window: tuple[float, float] = (-125.0, 275.0)
    """The grey levels that `intensity=window` keeps, in the scan's units."""
    spacing: tuple[float | None, float | None, float | None] = (None, None, None)
    """Millimetres between voxels to resample to; the field of view is kept, so a scan may come out slightly off."""
    size: tuple[int | None, int | None, int | None] = (None, None, None)
    """Voxels along each axis, after resampling."""
    fit: Literal["resize", "crop"] = "crop"
    """How a scan gets that size: stretched, or cropped and padded about its centre."""

    def __post_init__(self) -> None:
        if any(value is not None and not value > 0 for value in (*self.spacing, *self.size)):
            raise InputError(f"spacing {self.spacing} and size {self.size} must be positive, or None to leave an axis")
        if not self.window[0] < self.window[1]:
            raise InputError(f"window {self.window} is empty: give the lower grey level first")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A case on the store's grid."""

    image: NDArray[np.float32]
    """`(C, X, Y, Z)`."""
    label: NDArray[np.uint8] | None
    """`(X, Y, Z)`; None for an unlabelled case."""
    grid: Grid


def plan(geometry: Geometry, settings: Preparation) -> Grid:
    """The store's grid for a scan that lies so."""
    axes, flips = orientation(geometry)
    per_axis = [
        _plan_axis(geometry.shape[axis], geometry.spacing[axis], spacing, size, settings.fit)
        for axis, spacing, size in zip(axes, settings.spacing, settings.size, strict=True)
    ]
    shape, scale, offset = ((x, y, z) for x, y, z in zip(*per_axis, strict=True))
    return Grid(native=geometry, axes=axes, flips=flips, shape=shape, scale=scale, offset=offset)


def _plan_axis(
    voxels: int, spacing: float, target: float | None, size: int | None, fit: Literal["resize", "crop"]
) -> tuple[int, float, float]:
    """Size, scale and offset of one axis. n voxels resized to m are read at `(i + 1/2) n/m - 1/2`."""
    resized = voxels if target is None else max(1, round(voxels * spacing / target))
    if size is not None and fit == "resize":
        resized = size
    scale = voxels / resized
    size = resized if size is None else size
    start = (resized - size) // 2
    return size, scale, scale * start + (scale - 1) / 2


def normalise(image: NDArray[Any], settings: Preparation) -> NDArray[np.float32]:
    """Grey levels of a whole scan on one scale; a constant scan becomes 0."""
    image = image.astype(np.float32)
    low, high = image.min(), image.max()
    if low == high:
        return np.zeros_like(image)
    match settings.intensity:
        case "zscore":
            return (image - np.float32(image.mean(dtype=np.float64))) / np.float32(image.std(dtype=np.float64))
        case "window":
            return 2 * _to_unit(image, *settings.window) - 1
        case "minmax":
            return _to_unit(image, low, high)
        case "percentile":
            return _to_unit(image, *np.percentile(image, (0.5, 99.5)))


def _to_unit(image: NDArray[np.float32], low: float, high: float) -> NDArray[np.float32]:
    """`low..high` to 0..1, clipped."""
    if not high > low:
        return np.zeros_like(image)
    return ((image - np.float32(low)) / np.float32(high - low)).clip(0, 1)


def prepare_case(volumes: Sequence[Volume], label: Volume | None, settings: Preparation) -> Prepared:
    """One case's channels, and its label where it has one, on one grid.

    Raises:
        InputError: channels or label do not lie on one grid, a voxel is not finite, a label is no whole number.
    """
    first = volumes[0]
    for other in (*volumes[1:], *([label] if label else [])):
        if difference := mismatch(first.geometry, other.geometry):
            raise FileError(_name(other), f"does not lie on the grid of {_name(first)}: {difference}", OTHER_GRID)
    for volume in volumes:
        if not np.isfinite(volume.array).all():
            raise FileError(_name(volume), "has voxels that are not finite", "Replace them, or leave the case out")
    grid = plan(first.geometry, settings)
    image = np.stack([forward_image(normalise(volume.array, settings), grid) for volume in volumes])
    return Prepared(image=image, label=forward_label(label_values(label), grid) if label else None, grid=grid)


def label_values(volume: Volume) -> NDArray[np.uint8]:
    """The classes of a label map, 0 to 255; a rounding error of the file's scaling is forgiven."""
    rounded: NDArray[Any] = np.rint(volume.array) if volume.array.dtype.kind == "f" else volume.array
    if rounded is not volume.array and not np.abs(volume.array - rounded).max() < 1e-3:
        raise FileError(_name(volume), "has label values that are not whole numbers", "Save it as integers, unsmoothed")
    if rounded.min() < 0 or rounded.max() > 255:
        values = f"{rounded.min():g} to {rounded.max():g}"
        raise FileError(_name(volume), f"has label values from {values}", "Number the classes from 0 to 255 at most")
    return rounded.astype(np.uint8)


def _name(volume: Volume) -> Path | str:
    return volume.path or "volume"
