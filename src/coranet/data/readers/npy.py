"""NumPy's own files, `.npy`: one array, which states no spacing."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, check_file, in_order, unplaced

ENDINGS = (".npy",)
MARKS = ((0, b"\x93NUMPY"),)


def read(path: Path, inside: Inside) -> Volume:
    """The array, its axes as in `in_order`."""
    check_file(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # a header that is no Python is refused anyway
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # which refuses what the file is too short for
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        reason = " ".join(str(error).split())
        raise FileError(path, f"is not NumPy's, damaged or cut short ({reason})", COPY_AGAIN) from error
    if not isinstance(mapped, np.memmap):
        raise FileError(path, "holds several arrays, not one", "Save one scan a file, as .npy")
    claim(path, mapped.nbytes)
    return unplaced(path, in_order(path, np.array(mapped), inside), inside)
