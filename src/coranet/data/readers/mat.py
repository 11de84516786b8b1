"""MATLAB: the arrays of a `.mat` file, of version 4 to 7 by SciPy, of version 7.3 (which is HDF5) by h5py.

An image in MATLAB is `(y, x)`, `(y, x, z)` or, in time, `(y, x, z, t)`. The file states no spacing.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, content_of, unplaced

ENDINGS = (".mat",)
MARKS = ((0, b"MATLAB 5.0 MAT-file"), (0, b"MATLAB 7.3 MAT-file"))


def read(path: Path, inside: Inside) -> Volume:
    """The array named `key` in `inside`, else the only one of numbers; of one in time, its `frame`, counted from 0."""
    arrays = {name: array for name, array in load_mat(path).items() if _is_image(array)}
    key = str(inside.get("key", next(iter(arrays), "")))
    if key not in arrays or ("key" not in inside and len(arrays) > 1):
        remedy = "Save one image a file, or name the dataset that it comes from with --dataset"
        raise FileError(path, f"holds {', '.join(arrays) or 'no images'}, of which {key or 'none'} is meant", remedy)
    array = arrays[key]
    if array.ndim == 4:
        array = array[..., _frame(path, array.shape[3], inside)]
    return unplaced(path, array.swapaxes(0, 1), inside)


def load_mat(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a file by name, with MATLAB's own axes; a cell array is an array of objects, each an array."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    head = content_of(path, 128)
    try:
        if head.startswith(MARKS[1][1]):
            return _load_hdf5(path)
        loaded = loadmat(str(path))
    except (MatReadError, LookupError, OSError, RuntimeError, TypeError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise FileError(path, f"is not MATLAB, damaged or cut short ({reason})", COPY_AGAIN) from error
    return {name: array for name, array in loaded.items() if not name.startswith("__")}


def _is_image(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biuf" and array.ndim in (2, 3, 4) and min(array.shape[:2]) > 1


def _frame(path: Path, frames: int, inside: Inside) -> int:
    frame = inside.get("frame")
    if not isinstance(frame, int) or not 0 <= frame < frames:
        asked = "none" if frame is None else f"frame {frame}"
        remedy = "Save one frame a file, or name the dataset that it comes from with --dataset"
        raise FileError(path, f"has {frames} frames in time, of which {asked} is meant", remedy)
    return frame


def _load_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    """Of version 7.3: axes in reverse, cells as references; structures and what MATLAB keeps for itself are left out."""
    import h5py

    def value(item: Any) -> NDArray[Any]:
        if item.attrs.get("MATLAB_empty", 0):
            return np.zeros(tuple(int(size) for size in item[()]))
        array: NDArray[Any] = np.asarray(item[()]).T
        if array.dtype != object:
            return array
        cells = np.empty(array.shape, object)
        for place, reference in np.ndenumerate(array):
            cells[place] = value(item.file[reference])
        return cells

    with h5py.File(path, "r", locking=False) as file:
        return {name: value(item) for name, item in file.items() if isinstance(item, h5py.Dataset)}
