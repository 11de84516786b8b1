"""How large the scans of a dataset are and how far apart their voxels lie: all that a preset asks before it prepares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from coranet.data.prepare.cases import Preparation, plan
from coranet.geometry import Geometry


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The smallest, the median and the largest value along each axis: right, front, up."""

    smallest: tuple[float, ...]
    median: tuple[float, ...]
    largest: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Of the training scans, turned to RAS+."""

    shapes: Spread
    """Voxels."""
    spacings: Spread
    """Millimetres."""


def extents_of(geometries: Iterable[Geometry]) -> Extents:
    """The extents of scans that lie so; zeros where there are none."""
    grids = [plan(geometry, Preparation()) for geometry in geometries]
    return Extents(shapes=_spread([grid.shape for grid in grids]), spacings=_spread([grid.spacing for grid in grids]))


def _spread(rows: list[tuple[float, float, float]] | list[tuple[int, int, int]]) -> Spread:
    values = np.array(rows or [(0, 0, 0)], dtype=np.float64)
    smallest, median, largest = (tuple(np.quantile(values, share, axis=0).tolist()) for share in (0, 0.5, 1))
    return Spread(smallest=smallest, median=median, largest=largest)
