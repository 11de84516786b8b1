"""The York set's files: a subject's slices over time, and outlines drawn on them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.data.readers import contours
from coranet.data.readers.mat import load_mat
from coranet.data.readers.volume import Inside, Volume, unplaced


def read_scan(path: Path, inside: Inside) -> Volume:
    """One `frame` of a York file, counted from 0."""
    scan = york_scan(path)
    return unplaced(path, scan[..., int(inside["frame"])].swapaxes(0, 1), inside)


def read_outlines(path: Path, inside: Inside) -> Volume:
    """The mask of a York file's outlines at one `frame`, on its `image`, the file of the same subject."""
    y, x, z, _ = york_scan(Path(str(inside["image"]))).shape
    return contours.read_york(path, inside, (x, y, z))


def york_scan(path: Path) -> NDArray[Any]:
    """A subject of the York set, `(y, x, z, t)`. The last one is kept: its moments are cases of their own."""
    return _york_scan(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=1)
def _york_scan(path: Path, changed: int) -> NDArray[Any]:
    scan = load_mat(path).get("sol_yxzt")
    if scan is None or scan.ndim not in (3, 4):
        remedy = "Check that it is a file of the York set"
        raise FileError(path, "has no image sol_yxzt of y, x, slices and time", remedy)
    return scan[..., None] if scan.ndim == 3 else scan
