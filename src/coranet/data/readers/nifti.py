"""NIfTI: a scan or a label map as an array in its own orientation, with its place in the world."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import nibabel as nib
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError, Problem, warning
from coranet.data.readers.unpacking import gather
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, checked_geometry, opened
from coranet.files import write_atomically
from coranet.geometry import Geometry

ENDINGS = (".nii.gz", ".nii")
"""What a NIfTI file's name may end in."""

_STEPS = 2**16 - 1
"""Into which probabilities are divided: more than anyone can tell apart, in half the room of float32."""

_GZIP = b"\x1f\x8b"
_LONGEST = 540
"""Bytes of the longer of the two headers."""
_NOT_AS_ANNOUNCED = (ImageFileError, HeaderDataError, WrapStructError, ValueError, OverflowError)
_DAMAGED = (EOFError, OSError, zlib.error, *_NOT_AS_ANNOUNCED)
_KINDS: tuple[Any, ...] = (nib.Nifti1Image, nib.Nifti2Image)


def read(path: Path, inside: Inside | None = None) -> Volume:
    """The scan in a `.nii` or `.nii.gz` file; a 2D image becomes `(X, Y, 1)`.

    Of a fourth axis `frame` or `channel` in `inside` takes one, counted from 0.

    Raises:
        InputError: the file is missing, damaged, not NIfTI, in colour, of more than three axes or without a spacing.
    """
    _check_name(path)
    try:
        with opened(path) as file:
            packed = _check_packed(path, file)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            kind, start = _start(stream)
            size = _claim(path, kind.header_class(start), packed)
            stream.seek(0)
            image: Any = kind.from_stream(gather(path, stream, size))
        array = _scaled(image.dataobj)
    except StopIteration:
        raise FileError(path, "is not NIfTI", "Convert it to NIfTI") from None
    except FileError:
        raise
    except _DAMAGED as error:
        reason = " ".join(str(error).split())
        raise FileError(path, f"is damaged or cut short ({reason})", COPY_AGAIN) from error
    stated = kind.header_class(start, check=False)
    return _volume(path, array, image.affine, stated, inside or {})


def from_nibabel(image: Any, inside: Inside | None = None) -> Volume:
    """The scan in an image that nibabel has loaded or made: the same that `read` gives of its file.

    Raises:
        InputError: it has no place in the world, is in colour, or has more than three axes.
    """
    path = Path(image.get_filename() or "The image")
    if image.affine is None:
        raise FileError(path, "has no affine", "Make it with the affine of its scan")
    stated = image.header if isinstance(image, _KINDS) else None
    return _volume(path, _scaled(image.dataobj), np.asarray(image.affine, np.float64), stated, inside or {})


def _volume(path: Path, scaled: NDArray[Any], affine: NDArray[np.float64], stated: Any, inside: Inside) -> Volume:
    array = _three_axes(path, scaled, _frame(inside))
    geometry, warnings = _geometry(path, affine, array.shape, stated)
    return Volume(array, geometry, path, scaled.ndim == 2, warnings=warnings)


def look(path: Path, inside: Inside) -> Geometry:
    """The geometry of such a file, of which no more than the header is unpacked.

    Raises:
        InputError: the header is not there or not NIfTI's, or says that the file holds no scan.
    """
    try:
        with opened(path) as file:
            kind, start = _start(gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file)
        header, stated = kind.header_class(start), kind.header_class(start, check=False)
        affine, shape = header.get_best_affine(), _shape(header)
    except FileError:
        raise
    except (StopIteration, *_DAMAGED) as error:
        raise FileError(path, "has no header of NIfTI", COPY_AGAIN) from error
    array = _three_axes(path, np.broadcast_to(np.uint8(0), shape), _frame(inside))  # its shape, and no voxels
    return _geometry(path, affine, array.shape, stated)[0]


def write(
    path: Path, array: NDArray[Any], geometry: Geometry, *, flat: bool = False, probabilities: bool = False
) -> None:
    """Write `array` to `path` in one move: a reader finds the old file or the whole new one, never a part.

    Integers are stored as uint8 (int16 or int32 where they need it), other numbers as float32, and `probabilities` in steps
    of 1/65535 as uint16, which the header's slope scales back. A fourth axis, such as classes, may follow the three of
    `geometry`; a `flat` one is written with two. Equal arrays give equal bytes.
    """
    assert array.shape[:3] == geometry.shape, f"array {array.shape} does not lie on a grid of {geometry.shape}"
    affine, array = np.array(geometry.affine), array[..., 0] if flat else array
    image: Any = nib.Nifti1Image(_in_steps(array) if probabilities else _as_stored(array), affine)
    if probabilities:
        image.header.set_slope_inter(1 / _STEPS, 0)
    image.set_sform(affine, code=1)
    image.set_qform(affine, code=1)
    content: bytes = image.to_bytes()
    if path.name.endswith(".gz"):
        content = gzip.compress(content, compresslevel=3, mtime=0)
    write_atomically(path, content)


def _check_name(path: Path) -> None:
    if not path.name.lower().endswith(ENDINGS):
        raise FileError(path, "is not named .nii or .nii.gz", "Convert it to NIfTI")


def _check_packed(path: Path, file: BinaryIO) -> int:
    """The bytes of a packed file, 0 of one that is not; refused where it is not what its name says."""
    named, packed = path.name.lower().endswith(".gz"), file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if named and not packed:
        raise FileError(path, "is named .gz but is not gzip-compressed", "Rename it to .nii or compress it with gzip")
    if packed and not named:
        raise FileError(path, "is gzip-compressed but not named .gz", "Rename it to .nii.gz")
    return os.fstat(file.fileno()).st_size if packed else 0


def _start(stream: BinaryIO | gzip.GzipFile) -> tuple[Any, bytes]:
    """Which NIfTI it is, and the bytes of its header."""
    start = stream.read(_LONGEST)
    kind = next(kind for kind in _KINDS if kind.header_class.may_contain_header(start))
    return kind, start[: kind.header_class.template_dtype.itemsize]


def _shape(header: Any) -> tuple[int, ...]:
    shape = tuple(map(int, header.get_data_shape()))
    if min(shape, default=0) < 0:
        raise HeaderDataError(f"size {shape}")
    return shape


def _claim(path: Path, header: Any, packed: int) -> int:
    """How many bytes there are to read, once there is room for them and for what they become."""
    voxels, each, start = (
        math.prod(_shape(header)),
        int(header.get_data_dtype().itemsize),
        int(header.get_data_offset()),
    )
    scaled = header.get_slope_inter() not in ((1, 0), (None, None))
    size = max(start, 0) + voxels * each
    claim(path, max(size, voxels * (4 if each <= 2 else 8)) if scaled else size, packed or None)
    return size


def _scaled(stored: Any) -> NDArray[Any]:
    """The voxels as the header scales them. What takes at most 16 bits needs no double precision on the way."""
    slope, offset = getattr(stored, "slope", 1), getattr(stored, "inter", 0)  # an array of its own has none
    if (slope, offset) == (1, 0):
        return np.asanyarray(stored)
    array: NDArray[Any] = stored.get_unscaled()
    if array.dtype.itemsize > 2 or array.dtype.kind not in "iu":
        return np.asanyarray(stored)
    scaled = array.astype(np.float32)
    scaled *= np.float32(slope)
    scaled += np.float32(offset)
    return scaled


def _frame(inside: Inside) -> int | None:
    chosen = inside.get("frame", inside.get("channel"))
    return chosen if isinstance(chosen, int) else None


def _three_axes(path: Path, array: NDArray[Any], frame: int | None) -> NDArray[Any]:
    """`array` with exactly three axes and this machine's byte order."""
    if frame is not None:
        array = array.reshape(*array.shape, *(1,) * (4 - array.ndim))
        if not 0 <= frame < array.shape[3]:
            raise FileError(
                path, f"has {array.shape[3]} frames, not frame {frame} from 0", "Check that it is the right file"
            )
        array = array[..., frame]
    while array.ndim > 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim > 3:
        remedy = "Split channels into files <case>_0000, <case>_0001 ..., and frames into cases of their own"
        raise FileError(path, f"has {array.ndim} axes {array.shape}, a scan has 3", remedy)
    if array.ndim < 2 or not array.size:
        raise FileError(path, f"holds no image (shape {array.shape})", COPY_AGAIN)
    if array.dtype.kind not in "iuf":
        raise FileError(path, f"holds {array.dtype}, not grey levels", "Convert it to one number a voxel")
    array = array.reshape(*array.shape, 1) if array.ndim == 2 else array
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _geometry(
    path: Path, affine: NDArray[np.float64], shape: tuple[int, ...], stated: Any
) -> tuple[Geometry, tuple[Problem, ...]]:
    """The geometry, refused where it gives no spacing; `stated` is the header before nibabel makes zeros ones, if any.

    Some converters, ACDC's among them, write an affine with voxels of 1 mm beside the true spacing.
    """
    if stated is None:
        return checked_geometry(path, affine, shape), ()
    zooms = stated["pixdim"][1 : 1 + min(3, int(stated["dim"][0]))].astype(np.float64)
    valid = bool(np.isfinite(zooms).all() and (zooms > 0).all())
    if not valid and stated["sform_code"] <= 0:
        affine = np.full((4, 4), np.nan)
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    if not valid or not (lengths == 1).all() or (zooms == 1).all():
        return checked_geometry(path, affine, shape), ()
    scaled = affine.copy()
    scaled[:3, : len(zooms)] *= zooms
    message = (
        f"says that voxels measure {' x '.join(f'{zoom:.6g}' for zoom in zooms)} mm, but its affine makes them 1 mm"
    )
    remedy = "Nothing to do if the first is true: it was taken; else correct the header"
    return checked_geometry(path, scaled, shape), (warning(path, message, remedy),)


def _as_stored(array: NDArray[Any]) -> NDArray[Any]:
    """The smallest type that viewers read: uint8, int16 or int32 for integers, float32 for the rest."""
    if array.dtype.kind not in "biu":
        return array.astype(np.float32)
    low, high = int(array.min()), int(array.max())
    fits = (kind for kind in (np.uint8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return array.astype(next(fits))


def _in_steps(probabilities: NDArray[Any]) -> NDArray[np.uint16]:
    return np.rint(probabilities.clip(0, 1) * np.float32(_STEPS)).astype(np.uint16)
