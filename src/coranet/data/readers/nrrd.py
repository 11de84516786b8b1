"""NRRD: header and voxels in one file, as they are or by gzip. http://teem.sourceforge.net/nrrd/format.html."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, checked_geometry, content_of

ENDINGS = (".nrrd",)
MARKS = ((0, b"NRRD000"),)

_TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": ("longlong", "long long", "long long int", "signed long long", "int64", "int64_t"),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
_CODES = {name: code for code, names in _TYPES.items() for name in names}

_TO_RAS = {
    "right-anterior-superior": (1, 1, 1),
    "ras": (1, 1, 1),
    "left-anterior-superior": (-1, 1, 1),
    "las": (-1, 1, 1),
    "left-posterior-superior": (-1, -1, 1),
    "lps": (-1, -1, 1),
}
"""What the axes of the world are multiplied by, so that they point to the right, to the front and up."""


def read(path: Path, inside: Inside) -> Volume:
    """The scan in a `.nrrd` file; a 2D image becomes `(X, Y, 1)`."""
    content = content_of(path)
    if not content.startswith(MARKS[0][1]):
        raise FileError(path, "is not NRRD", "Convert it to NIfTI")
    end = re.search(rb"\r?\n\r?\n", content)
    header = _header(content[: end.start() if end else None].decode("utf-8", "replace"))
    if "data file" in header:
        remedy = "Save header and voxels in one .nrrd file"
        raise FileError(path, f"keeps its voxels in another file ({header['data file']})", remedy)
    array, kept = _array(path, header, memoryview(content)[end.end() if end else len(content) :])
    flat = array.ndim == 2
    array = array[..., None] if flat else array
    geometry = checked_geometry(path, _affine(path, header, kept), array.shape)
    return Volume(array.astype(array.dtype.newbyteorder("="), copy=False), geometry, path, flat)


def _header(text: str) -> Mapping[str, str]:
    """The fields by name, in small letters; comments and `key:=value` pairs are left out."""
    matches = (re.match(r"([^:#=]+):\s+(.*)", line) for line in text.splitlines()[1:])
    return {match[1].strip().lower(): match[2].strip() for match in matches if match}


def _array(path: Path, header: Mapping[str, str], voxels: memoryview) -> tuple[NDArray[Any], list[int]]:
    """The voxels `(x, y)` or `(x, y, z)`, and which of the file's axes these are."""
    encoding, kind = header.get("encoding", "").lower(), header.get("type", "").lower()
    if kind not in _CODES:
        raise FileError(path, f"holds {kind or 'numbers of no stated type'}, not grey levels", "Convert it to NIfTI")
    if (
        encoding not in ("raw", "gzip", "gz")
        or header.get("byte skip", "0") != "0"
        or header.get("line skip", "0") != "0"
    ):
        raise FileError(path, f"is encoded as {encoding or 'nothing'}", "Save it as raw or gzip, without skips")
    order = ">" if header.get("endian", "little").lower() == "big" else "<"
    try:
        sizes = [int(size) for size in header.get("sizes", "").split()]
        numbers = voxels if encoding == "raw" else gzip.decompress(voxels)
        array = np.frombuffer(numbers, np.dtype(order + _CODES[kind]), count=int(np.prod(sizes))).reshape(
            sizes, order="F"
        )
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise FileError(path, f"is damaged or cut short ({error})", COPY_AGAIN) from error
    kept = [axis for axis, size in enumerate(sizes) if size > 1 or len(sizes) <= 3]
    if len(kept) not in (2, 3) or not array.size:
        remedy = "Split channels into files <case>_0000, <case>_0001 ..., and frames into cases of their own"
        raise FileError(path, f"has {len(sizes)} axes {tuple(sizes)}, a scan has 3", remedy)
    return array.reshape([sizes[axis] for axis in kept], order="F"), kept


def _affine(path: Path, header: Mapping[str, str], kept: list[int]) -> NDArray[np.float64]:
    """From indices to millimetres, RAS; without a space it is LPS, as other programs take it."""
    space = header.get("space", "left-posterior-superior").lower()
    if space not in _TO_RAS:
        known = "left-posterior-superior or right-anterior-superior"
        raise FileError(path, f"lies in a space {space!r}", f"Save it in one that says where the patient is: {known}")
    affine = np.eye(4)
    if "space directions" in header:
        given = _vectors(header["space directions"])
        directions = [given[axis] if axis < len(given) else [] for axis in kept]
        for axis, direction in enumerate(directions):
            affine[:3, axis] = direction if len(direction) == 3 else np.nan
    elif "spacings" in header:
        spacings = header["spacings"].split()
        for axis, number in enumerate(kept):
            affine[axis, axis] = _number(spacings[number]) if number < len(spacings) else np.nan
    origin = _vectors(header.get("space origin", "(0,0,0)"))
    affine[:3, 3] = origin[0] if origin and len(origin[0]) == 3 else np.nan
    return np.diag([*_TO_RAS[space], 1.0]) @ affine


def _vectors(text: str) -> list[list[float]]:
    """`(1,0,0) none (0,1,0)` as lists of numbers, that of `none` empty."""
    found = re.findall(r"\(([^)]*)\)|none", text)
    return [[_number(part) for part in vector.split(",")] if vector else [] for vector in found]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
