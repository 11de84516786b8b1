"""What every reader gives: voxels, where they lie in the world, and what is needed to write beside them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from coranet.data.problem import FileError, Problem
from coranet.file_names import special_kind
from coranet.geometry import Geometry

COPY_AGAIN = "Copy or export the file again"
"""What helps against a damaged file."""

Inside = Mapping[str, str | int]
"""What of a file is meant, by name: a dataset's key, a frame, a series."""


@dataclass(frozen=True)
class Volume:
    """Three axes of voxels in the file's own orientation and type, grey levels rescaled as the file says."""

    array: NDArray[Any]
    geometry: Geometry
    path: Path | None = None
    """Where it was read, so that messages can name it."""
    flat: bool = False
    """Whether the file has two axes only, and what is written for it should have no more."""
    placed: bool = True
    """Whether the file says where its voxels lie; if not, each is taken for a cube of 1 mm."""
    warnings: tuple[Problem, ...] = ()
    """What is wrong with the file but could be dealt with, and how it was."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file, open for reading; what is no file, such as a named pipe, is never opened.

    Raises:
        InputError: the file is missing, empty, no file or may not be read.
    """
    try:
        if kind := special_kind(path):
            raise FileError(path, f"is {kind}, not a file", "Put a file in its place, or move it away")
        file = path.open("rb")
    except FileNotFoundError as error:
        raise FileError(path, "does not exist", "Check the path") from error
    except OSError as error:
        remedy = "Make it a file that you may read"
        raise FileError(path, f"cannot be opened ({error.strerror})", remedy) from error
    with file:
        if not os.fstat(file.fileno()).st_size:
            raise FileError(path, "is empty", COPY_AGAIN)
        yield file


def check_file(path: Path) -> int:
    """The size of a file that is there and may be read, before a library opens it.

    Raises:
        InputError: as `opened`.
    """
    with opened(path) as file:
        return os.fstat(file.fileno()).st_size


def checked_geometry(path: Path, affine: NDArray[np.float64], shape: tuple[int, ...]) -> Geometry:
    """The geometry of an array `shape` by a `(4, 4)` matrix from indices to millimetres.

    Raises:
        InputError: a spacing is zero or not finite, or two axes point the same way.
    """
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    known = np.isfinite(affine).all() and spacing.all()
    if not known or abs(np.linalg.det(affine[:3, :3] / spacing)) < 1e-6:
        remedy = "Export it again with its true spacing and orientation"
        raise FileError(path, f"has no valid spacing (affine {affine.tolist()})", remedy)
    x, y, z = shape
    return Geometry(shape=(x, y, z), affine=tuple((a, b, c, d) for a, b, c, d in affine.tolist()))


def in_order(path: Path, array: NDArray[Any], inside: Inside) -> NDArray[Any]:
    """An array as `(x, y)` or `(x, y, z)`; `axes` in `inside`, such as "zyx", names its axes as they are in the file.

    Without, two are taken for `yx`, and three for `zyx` where the first is by far the shortest, else for `xyz`.
    """
    slices_first = array.ndim == 3 and 2 * array.shape[0] < min(array.shape[1:])
    usual = {2: "yx", 3: "zyx" if slices_first else "xyz"}
    axes = str(inside.get("axes", usual.get(array.ndim, "")))
    if len(axes) != array.ndim:
        message = f"has {array.ndim} axes {array.shape}, a scan has {len(axes) or '2 or 3'}"
        raise FileError(path, message, "Save one scan a file")
    return array.transpose([axes.index(axis) for axis in sorted(axes)])


def unplaced(path: Path, array: NDArray[Any], inside: Inside, warnings: tuple[Problem, ...] = ()) -> Volume:
    """A volume of an array `(x, y)` or `(x, y, z)` whose file states no geometry.

    The first axis points to the left and the second to the back, as a picture of a patient is shown. `spacing` in
    `inside`, such as "0.625 0.625 0.625", says what the file does not.
    """
    if array.ndim not in (2, 3) or not array.size:
        raise FileError(
            path, f"has {array.ndim} axes {array.shape}, a scan has 2 or 3", "Split it into files of one scan"
        )
    if array.dtype.kind not in "biuf":
        raise FileError(path, f"holds {array.dtype}, not grey levels", "Convert it to one number a voxel")
    flat, stated = array.ndim == 2, inside.get("spacing")
    array = array[..., None] if flat else array
    array = array.astype(np.uint8 if array.dtype.kind == "b" else array.dtype.newbyteorder("="), copy=False)
    x, y, z = map(float, str(stated).split()) if stated is not None else (1.0, 1.0, 1.0)
    geometry = checked_geometry(path, np.diag([-x, -y, z, 1.0]), array.shape)
    return Volume(array, geometry, path, flat, placed=stated is not None, warnings=warnings)
