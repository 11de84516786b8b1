"""Preparations that presets choose from what the scans are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from coranet.data.grid import through_plane_axis
from coranet.data.prepare.extents import Extents
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.recipes import RECIPES
from coranet.errors import InputError

Choose = Callable[[Extents, Sequence[str], int], Preparation]
"""From what the training scans are, the channels' names, and the axes of space."""


def auto_preparation(extents: Extents, channels: Sequence[str], dims: int) -> Preparation:
    """CT by a soft-tissue window, all else by z-score; one spacing along axes where scans differ by more than a half.

    Slices stay as they were taken: the spacing between them is left alone.
    """
    intensity = Preparation(intensity="window" if all("CT" in name.upper().split() for name in channels) else "zscore")
    stack = through_plane_axis(extents.shapes.median, extents.spacings.median) if dims == 2 else None
    spacings = extents.spacings
    differ = [high > 1.5 * low for low, high in zip(spacings.smallest, spacings.largest, strict=True)]
    x, y, z = (round(spacings.median[axis], 3) if differ[axis] and axis != stack else None for axis in range(3))
    return replace(intensity, spacing=(x, y, z))


QUICK = {2: 128**2, 3: 56**3}
"""Voxels of a typical slice, or volume, that two cores learn from in minutes."""


def quick_preparation(extents: Extents, channels: Sequence[str], dims: int) -> Preparation:
    """As `auto` has them, on a grid that is coarse enough for a CPU: the finest axes are coarsened first."""
    auto = auto_preparation(extents, channels, dims)
    shape, spacing = extents.shapes.median, extents.spacings.median
    stack = through_plane_axis(shape, spacing) if dims == 2 else None
    axes = [axis for axis in range(3) if axis != stack and spacing[axis] > 0]

    def points(least: float) -> float:
        return math.prod(shape[axis] * spacing[axis] / max(spacing[axis], least) for axis in axes)

    least = min((spacing[axis] for axis in axes), default=0.0)
    if not axes or points(least) <= QUICK[dims]:
        return auto
    while points(least) > QUICK[dims]:
        least *= 1.02
    coarse = round(least, 3)
    x, y, z = (coarse if axis in axes and spacing[axis] < coarse else auto.spacing[axis] for axis in range(3))
    return replace(auto, spacing=(x, y, z))


def paper_preparation(extents: Extents, channels: Sequence[str], dims: int) -> Preparation:
    """Slices: grey levels to [0, 1], 256 x 256. Volumes: as `auto` has them."""
    if dims == 3:
        return auto_preparation(extents, channels, dims)
    stack = through_plane_axis(extents.shapes.median, extents.spacings.median)
    x, y, z = (None if axis == stack else 256 for axis in range(3))
    return Preparation(intensity="minmax", size=(x, y, z), fit="resize")


def pancreas_preparation(extents: Extents, channels: Sequence[str], dims: int) -> Preparation:
    """The paper's window and crops of CT, which mean nothing in other grey levels."""
    if list(channels) != ["CT"]:
        raise InputError(
            f"--preset pancreas: is for scans of one channel CT, in Hounsfield units, and these have {', '.join(channels)}. "
            "Give the scans as they were downloaded, or take --preset paper."
        )
    return RECIPES[f"pancreas-{dims}d"]


CHOICES: dict[str, Choose] = {"auto": auto_preparation, "quick": quick_preparation, "paper": paper_preparation}
"""By the preset's name."""
