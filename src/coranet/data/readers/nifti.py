"""NIfTI: a scan or a label map as an array in its own orientation, with its place in the world."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError
from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.files import write_atomically
from coranet.types import Geometry

ENDINGS = (".nii.gz", ".nii")
"""What a NIfTI file's name may end in."""

_GZIP = b"\x1f\x8b"
_NOT_AS_ANNOUNCED = (ImageFileError, HeaderDataError, WrapStructError, ValueError, OverflowError)
_DAMAGED = (EOFError, OSError, zlib.error, *_NOT_AS_ANNOUNCED)
_KINDS: tuple[Any, ...] = (nib.Nifti1Image, nib.Nifti2Image)
_COPY_AGAIN = "Copy or export the file again"


@dataclass(frozen=True)
class Volume:
    """Three axes of voxels in the file's own orientation and type, grey levels rescaled as the file says."""

    array: NDArray[Any]
    geometry: Geometry
    path: Path | None = None
    """Where it was read, so that messages can name it."""
    flat: bool = False
    """Whether the file has two axes only, and what is written for it should have no more."""


def read(path: Path) -> Volume:
    """The scan in a `.nii` or `.nii.gz` file; a 2D image becomes `(X, Y, 1)`.

    Raises:
        InputError: the file is missing, damaged, not NIfTI, in colour, of more than three axes or without a spacing.
    """
    content = _content(path)
    try:
        # Whole and in memory: read piece by piece, damage inside a compressed file would go unnoticed.
        content = gzip.decompress(content) if path.name.endswith(".gz") else content
        kind = next(kind for kind in _KINDS if kind.header_class.may_contain_header(content[:540]))
        image: Any = kind.from_bytes(content)
        array = np.asanyarray(image.dataobj)
    except StopIteration:
        raise FileError(path, "is not NIfTI", "Convert it to NIfTI") from None
    except MemoryError as error:
        remedy = "Close other programs, or check that its header states the true size"
        raise FileError(path, "does not fit into memory", remedy) from error
    except _DAMAGED as error:
        reason = " ".join(str(error).split())
        raise FileError(path, f"is damaged or cut short ({reason})", _COPY_AGAIN) from error
    stated = kind.header_class.from_fileobj(BytesIO(content), check=False)
    flat, array = array.ndim == 2, _three_axes(path, array)
    return Volume(array, _geometry(path, image.affine, array.shape, stated), path, flat)


def write(path: Path, array: NDArray[Any], geometry: Geometry, *, flat: bool = False) -> None:
    """Write `array` to `path` in one move: a reader finds the old file or the whole new one, never a part.

    Integers are stored as uint8 (int16 or int32 where they need it), other numbers as float32. A fourth axis, such as
    classes, may follow the three of `geometry`; a `flat` one is written with two. Equal arrays give equal bytes.
    """
    assert array.shape[:3] == geometry.shape, f"array {array.shape} does not lie on a grid of {geometry.shape}"
    affine = np.array(geometry.affine)
    image: Any = nib.Nifti1Image(_as_stored(array[..., 0] if flat else array), affine)
    image.set_sform(affine, code=1)
    image.set_qform(affine, code=1)
    content: bytes = image.to_bytes()
    if path.name.endswith(".gz"):
        content = gzip.compress(content, compresslevel=3, mtime=0)
    write_atomically(path, content)


def _content(path: Path) -> bytes:
    """The file's bytes, refused where they are not what its name says."""
    if not path.name.endswith(ENDINGS):
        raise FileError(path, "is not named .nii or .nii.gz", "Convert it to NIfTI")
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise FileError(path, "does not exist", "Check the path") from error
    except OSError as error:
        remedy = "Make it a file that you may read"
        raise FileError(path, f"cannot be opened ({error.strerror})", remedy) from error
    if not content:
        raise FileError(path, "is empty", _COPY_AGAIN)
    if path.name.endswith(".gz") and not content.startswith(_GZIP):
        raise FileError(path, "is named .gz but is not gzip-compressed", "Rename it to .nii or compress it with gzip")
    if not path.name.endswith(".gz") and content.startswith(_GZIP):
        raise FileError(path, "is gzip-compressed but not named .gz", "Rename it to .nii.gz")
    return content


def _three_axes(path: Path, array: NDArray[Any]) -> NDArray[Any]:
    """`array` with exactly three axes and this machine's byte order."""
    while array.ndim > 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim > 3:
        remedy = "Split channels into files <case>_0000, <case>_0001 ..., and frames into cases of their own"
        raise FileError(path, f"has {array.ndim} axes {array.shape}, a scan has 3", remedy)
    if array.ndim < 2 or not array.size:
        raise FileError(path, f"holds no image (shape {array.shape})", _COPY_AGAIN)
    if array.dtype.kind not in "iuf":
        raise FileError(path, f"holds {array.dtype}, not grey levels", "Convert it to one number a voxel")
    array = array.reshape(*array.shape, 1) if array.ndim == 2 else array
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _geometry(path: Path, affine: NDArray[np.float64], shape: tuple[int, ...], stated: Any) -> Geometry:
    """The geometry, refused where it gives no spacing; `stated` is the header before nibabel makes zeros ones."""
    zooms = stated["pixdim"][1 : 1 + min(3, int(stated["dim"][0]))]
    stated_well = stated["sform_code"] > 0 or (np.isfinite(zooms).all() and zooms.all())
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    known = stated_well and np.isfinite(affine).all() and spacing.all()
    if not known or abs(np.linalg.det(affine[:3, :3] / spacing)) < 1e-6:
        remedy = "Export it again with its true spacing and orientation"
        raise FileError(path, f"has no valid spacing (affine {affine.tolist()})", remedy)
    x, y, z = shape
    return Geometry(shape=(x, y, z), affine=tuple((a, b, c, d) for a, b, c, d in affine.tolist()))


def _as_stored(array: NDArray[Any]) -> NDArray[Any]:
    """The smallest type that viewers read: uint8, int16 or int32 for integers, float32 for the rest."""
    if array.dtype.kind not in "biu":
        return array.astype(np.float32)
    low, high = int(array.min()), int(array.max())
    fits = (kind for kind in (np.uint8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return array.astype(next(fits))
