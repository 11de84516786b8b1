"""Outlines drawn by hand, as text or in a MATLAB cell array, filled to masks.

Points are `(x, y)` in pixels of the image, x along a row. A pixel belongs to the mask where its centre lies inside.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.data.readers.mat import load_mat
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, check_file, unplaced

YORK = "manual_seg_32points"
"""The array in which the York set keeps its outlines."""
_LONGEST = 16 * 2**20
"""Bytes of a text file of points."""


def fill(points: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Whether the centre of each pixel `(x, y)` lies inside a closed outline `(N, 2)`, by the even-odd rule."""
    x, y = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
    inside = np.zeros(shape, bool)
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0), strict=True):
        if y0 != y1:
            inside ^= ((y0 <= y) != (y1 <= y)) & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return inside


def read_text(path: Path, image: Volume) -> Volume:
    """The mask of an outline in a text file, one `x y` a line, counted from 0, on its image of one slice."""
    if check_file(path) > _LONGEST:
        raise FileError(path, "is too long for an outline", COPY_AGAIN)
    try:
        with warnings.catch_warnings(action="ignore"):  # an empty file is said below
            points = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise FileError(path, f"is no list of points ({' '.join(str(error).split())})", COPY_AGAIN) from error
    if points.shape[1:] != (2,) or len(points) < 3:
        raise FileError(path, f"holds {points.shape} numbers, an outline has 3 points x y at least", COPY_AGAIN)
    x, y, _ = image.geometry.shape
    return Volume(fill(points, (x, y))[..., None].astype(np.uint8), image.geometry, path, image.flat, image.placed)


def read_york(path: Path, inside: Inside, shape: tuple[int, int, int]) -> Volume:
    """The endocardium of one `frame` of a York file, `(x, y, z)`; 0 too in slices that nobody outlined."""
    mask = np.zeros(shape, np.uint8)
    for (place, frame), points in york_outlines(path).items():
        if frame == inside["frame"] and place < shape[2]:
            mask[..., place] = fill(points, shape[:2])
    return unplaced(path, mask, inside)


def york_outlines(path: Path) -> dict[tuple[int, int], NDArray[np.float64]]:
    """The endocardium's points, counted from 0, by slice and frame; those that nobody outlined are not there.

    A cell holds the endocardium's points, a row that parts them, and as many of the epicardium (Andreopoulos and Tsotsos,
    Medical Image Analysis 2008); or -99999. MATLAB counts from 1.
    """
    cells = load_mat(path).get(YORK)
    if cells is None or cells.dtype != object or cells.ndim != 2:
        raise FileError(path, f"has no cell array {YORK}", "Check that it is a file of the York set")
    outlines = {}
    for (place, frame), cell in np.ndenumerate(cells):
        points = np.asarray(cell, np.float64)
        if points.size <= 1:
            continue
        if points.ndim != 2 or points.shape[1] != 2 or len(points) < 7 or not np.isfinite(points).all():
            raise FileError(
                path, f"has {points.shape} numbers in slice {place} of frame {frame}, not 65 x 2", COPY_AGAIN
            )
        outlines[place, frame] = points[: len(points) // 2] - 1
    return outlines
