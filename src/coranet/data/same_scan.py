"""Whether two files hold one and the same scan, wherever they lie."""

from __future__ import annotations

from filecmp import cmp
from hashlib import sha256
from os import SEEK_END

import numpy as np

from coranet.data.grid import mismatch
from coranet.data.readers import Source

_PART = 2**16


def mark_of(scan: Source) -> str | None:
    """What tells a file from others at a glance, its size and both of its ends; of a scan that is a folder, nothing."""
    if not scan.path.is_file():
        return None
    with scan.path.open("rb") as file:
        first = file.read(_PART)
        size = file.seek(0, SEEK_END)
        file.seek(max(size - _PART, 0))
        return sha256(f"{size} ".encode() + first + file.read()).hexdigest()[:16]


def is_same_scan(noted: Source, mark: str | None, scan: Source) -> bool:
    """Whether a scan is the one that was noted; also where nothing says otherwise.

    Files that were packed anew, or brought to another format, are compared by their voxels and how these lie, where both
    are there.

    Args:
        noted: where it lay.
        mark: of the file that lay there.
        scan: where one of its name lies now.
    """
    one, other = noted.path, scan.path
    if not one.exists() or (one.resolve() == other.resolve() and noted.inside == scan.inside):
        return mark is None or mark_of(scan) in (None, mark)
    if one.is_file() and other.is_file() and noted.inside == scan.inside and cmp(one, other, shallow=False):
        return True
    here, there = noted.read(), scan.read()
    return not mismatch(here.geometry, there.geometry) and np.array_equal(here.array, there.array, equal_nan=True)
