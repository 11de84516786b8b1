"""NRRD: header and voxels in one file, as they are or by gzip. http://teem.sourceforge.net/nrrd/format.html."""

from __future__ import annotations

import gzip
import math
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.unpacking import gather
from coranet.data.readers.volume import COPY_AGAIN, Inside, Volume, checked_geometry, opened

ENDINGS = (".nrrd",)
MARKS = ((0, b"NRRD000"),)

_LONGEST = 2**20
"""Bytes among which a header ends."""

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
    with opened(path) as file:
        start = file.read(_LONGEST)
        if not start.startswith(MARKS[0][1]):
            raise FileError(path, "is not NRRD", "Convert it to NIfTI")
        end = re.search(rb"\r?\n\r?\n", start)
        header = _header(path, start[: end.start() if end else None].decode("utf-8", "replace"))
        if "datafile" in header:
            remedy = "Save header and voxels in one .nrrd file"
            raise FileError(path, f"keeps its voxels in another file ({header['datafile']})", remedy)
        file.seek(end.end() if end else len(start))
        array, kept = _array(path, header, file)
    flat = array.ndim == 2
    array = array[..., None] if flat else array
    geometry = checked_geometry(path, _affine(path, header, kept), array.shape)
    return Volume(array.astype(array.dtype.newbyteorder("="), copy=False), geometry, path, flat)


def _header(path: Path, text: str) -> Mapping[str, str]:
    """The fields by name, in small letters without blanks; comments and `key:=value` pairs are left out.

    The format knows `data file` and `datafile`, `byte skip` and `byteskip`.
    """
    header: dict[str, str] = {}
    for match in (re.match(r"([^:#=]+):(?!=)\s*(.*)", line) for line in text.splitlines()[1:]):
        if match:
            name, value = re.sub(r"\s", "", match[1]).lower(), match[2].strip()
            if header.setdefault(name, value) != value:
                raise FileError(path, f"states its {match[1].strip()} twice, and differently", COPY_AGAIN)
    return header


def _array(path: Path, header: Mapping[str, str], file: BinaryIO) -> tuple[NDArray[Any], list[int]]:
    """The voxels `(x, y)` or `(x, y, z)`, and which of the file's axes these are."""
    encoding, kind = header.get("encoding", "").lower(), header.get("type", "").lower()
    if kind not in _CODES:
        raise FileError(path, f"holds {kind or 'numbers of no stated type'}, not grey levels", "Convert it to NIfTI")
    if encoding not in ("raw", "gzip", "gz") or any(header.get(skip, "0") != "0" for skip in ("byteskip", "lineskip")):
        raise FileError(path, f"is encoded as {encoding or 'nothing'}", "Save it as raw or gzip, without skips")
    sizes = _sizes(path, header)
    stored = np.dtype((">" if header.get("endian", "little").lower() == "big" else "<") + _CODES[kind])
    size, there = math.prod(sizes) * stored.itemsize, os.fstat(file.fileno()).st_size - file.tell()
    claim(path, size, there)
    try:
        voxels = gather(path, file if encoding == "raw" else gzip.GzipFile(fileobj=file), size)
    except (EOFError, OSError, zlib.error) as error:
        raise FileError(path, f"is damaged or cut short ({error})", COPY_AGAIN) from error
    array = np.frombuffer(voxels.getbuffer(), stored).reshape(sizes, order="F")
    kept = [axis for axis, size in enumerate(sizes) if size > 1 or len(sizes) <= 3]
    if len(kept) not in (2, 3):
        remedy = "Split channels into files <case>_0000, <case>_0001 ..., and frames into cases of their own"
        raise FileError(path, f"has {len(sizes)} axes {tuple(sizes)}, a scan has 3", remedy)
    return array.reshape([sizes[axis] for axis in kept], order="F"), kept


def _sizes(path: Path, header: Mapping[str, str]) -> list[int]:
    """How many voxels along each axis."""
    words = header.get("sizes", "").split()
    stated = header.get("dimension", str(len(words)))
    if not words or not all(re.fullmatch(r"[1-9][0-9]{0,18}", word) for word in words) or stated != str(len(words)):
        message = f"has the sizes {' '.join(words) or 'of nothing'} along {stated} axes, which no scan has"
        raise FileError(path, message, COPY_AGAIN)
    return [int(word) for word in words]


def _affine(path: Path, header: Mapping[str, str], kept: list[int]) -> NDArray[np.float64]:
    """From indices to millimetres, RAS; without a space it is LPS, as other programs take it."""
    space = header.get("space", "left-posterior-superior").lower()
    if space not in _TO_RAS:
        known = "left-posterior-superior or right-anterior-superior"
        raise FileError(path, f"lies in a space {space!r}", f"Save it in one that says where the patient is: {known}")
    affine = np.eye(4)
    if "spacedirections" in header:
        given = _vectors(header["spacedirections"])
        directions = [given[axis] if axis < len(given) else [] for axis in kept]
        for axis, direction in enumerate(directions):
            affine[:3, axis] = direction if len(direction) == 3 else np.nan
    elif "spacings" in header:
        spacings = header["spacings"].split()
        for axis, number in enumerate(kept):
            affine[axis, axis] = _number(spacings[number]) if number < len(spacings) else np.nan
    origin = _vectors(header.get("spaceorigin", "(0,0,0)"))
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
