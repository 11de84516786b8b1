"""What of a scan is kept: boxes of voxels `((first, after the last), ...)` of an array `(x, y, z)`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]
Box = tuple[Range, Range, Range]

_SHARE = 0.001
"""Of a plane's voxels, that must be bright for it to belong to a body: specks of noise do not."""


def box_of(mask: NDArray[Any], least: float = 0.0) -> Box | None:
    """The box of what is not zero, without outer planes of which it fills no more than a share; None where all is zero."""
    ranges = []
    for axis in range(3):
        across = tuple(other for other in range(3) if other != axis)
        counts = np.count_nonzero(mask, axis=across)
        where = np.flatnonzero(counts > least * mask.size / mask.shape[axis])
        if not where.size:
            return None
        ranges.append((int(where[0]), int(where[-1]) + 1))
    x, y, z = ranges
    return x, y, z


def foreground_box(image: NDArray[Any], threshold: float) -> Box | None:
    """The box of what is brighter than a threshold."""
    return box_of(image > threshold, _SHARE)


def around(found: Range, scale: float, size: int, margin: int | None, least: int) -> Range:
    """A range of a scan's voxels in voxels `scale` times as large, of which there are `size`, with a margin around it.

    It is at least so long, and inside the scan as far as that is long enough.
    """
    if margin is None:
        return 0, size
    rounding = 1e-6
    first = max(0, int(np.floor(found[0] / scale + rounding)) - margin)
    last = min(size, int(np.ceil(found[1] / scale - rounding)) + margin)
    length = max(last - first, min(least, size))
    first = min(max(0, first - (length - (last - first)) // 2), size - length)
    return first, first + length
