"""MATLAB: the arrays of a `.mat` file, of version 4 to 7 by SciPy, of version 7.3 (which is HDF5) by h5py.

An image in MATLAB is `(y, x)`, `(y, x, z)` or, in time, `(y, x, z, t)`. The file states no spacing.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.hdf5 import array_of, opened_hdf5
from coranet.data.readers.mat_elements import check_elements
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, check_file, opened, unplaced
from coranet.errors import InputError

ENDINGS = (".mat",)
MARKS = ((0, b"MATLAB 5.0 MAT-file"), (0, b"MATLAB 7.3 MAT-file"))

_WIDTHS = {
    **dict.fromkeys(("int8", "uint8", "logical"), 1),
    **dict.fromkeys(("int16", "uint16"), 2),
    **dict.fromkeys(("int32", "uint32", "single"), 4),
    **dict.fromkeys(("int64", "uint64", "double", "cell"), 8),
}
"""Bytes of a value, by the classes that are read; others, such as sparse matrices, are no images."""


def read(path: Path, inside: Inside) -> Volume:
    """The array named `key` in `inside`, else the only one of numbers; of one in time, its `frame`, counted from 0."""
    arrays = {name: array for name, array in load_mat(path).items() if _is_image(array)}
    key = str(inside.get("key", next(iter(arrays), "")))
    if key not in arrays or ("key" not in inside and len(arrays) > 1):
        remedy = "Save one image a file, or name the dataset that it comes from with --dataset"
        listed = ", ".join(arrays) or "none"
        called = f"no image called {key}, of these: {listed}" if "key" in inside else f"several images: {listed}"
        raise FileError(path, f"holds {called if arrays else 'no image'}", remedy)
    array = arrays[key]
    if array.ndim == 4:
        array = array[..., _frame(path, array.shape[3], inside)]
    return unplaced(path, array.swapaxes(0, 1), inside)


def load_mat(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of numbers of a file by name, with MATLAB's own axes, and cell arrays as arrays of arrays.

    Raises:
        InputError: the file is missing, damaged, or holds more than there is room for.
    """
    with opened(path) as file:
        head = file.read(128)
    try:
        return _load_hdf5(path) if head.startswith(MARKS[1][1]) else _load(path, head)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # SciPy raises whatever the parts that it calls do
        reason = " ".join(str(error).split())
        raise FileError(path, f"is not MATLAB, damaged or cut short ({reason})", COPY_AGAIN) from error


def _load(path: Path, head: bytes) -> dict[str, NDArray[Any]]:
    """Of version 4 to 7."""
    from scipy.io import loadmat, whosmat

    size = check_file(path)
    with warnings.catch_warnings(action="ignore"):  # of variables that cannot be read
        if head.startswith(MARKS[0][1][:6]):
            with opened(path) as file:
                check_elements(path, file, size)
        found = [(name, shape, _WIDTHS[kind]) for name, shape, kind in whosmat(str(path)) if kind in _WIDTHS]
        if odd := next((shape for _, shape, _ in found if min(shape, default=0) < 0), None):
            raise FileError(path, f"has an array of the sizes {odd}, which no array has", COPY_AGAIN)
        wanted = {name: width * math.prod(shape) for name, shape, width in found}
        claim(path, sum(wanted.values()), size)
        loaded = loadmat(str(path), variable_names=list(wanted))
    return {name: array for name, array in loaded.items() if name in wanted and isinstance(array, np.ndarray)}


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

    total, size = 0, check_file(path)

    def numbers(item: Any) -> NDArray[Any]:
        nonlocal total
        if item.attrs.get("MATLAB_empty", 0):
            return np.zeros((0, 0))
        array = array_of(path, item).T
        total += array.nbytes
        claim(path, total, size)  # many cells may refer to one array
        return array

    def value(item: Any) -> NDArray[Any]:
        array = numbers(item)
        if array.dtype != object:
            return array
        cells = np.empty(array.shape, object)
        for place, reference in np.ndenumerate(array):
            cells[place] = numbers(item.file[reference])
        return cells

    with opened_hdf5(path) as file:
        return {name: value(item) for name, item in file.items() if isinstance(item, h5py.Dataset)}
