"""File formats by name, each with its reader and the marks by which its files are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coranet.data.problem import FileError
from coranet.data.readers import dicom, hdf5, mat, nifti, npy, nrrd, picture, york
from coranet.data.readers.volume import Inside, Volume
from coranet.geometry import Geometry


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How one format is recognised and read."""

    read: Callable[[Path, Inside], Volume]
    """From a path and what of it is meant, such as a key, a frame or a series."""
    look: Callable[[Path, Inside], Geometry] | None = None
    """The geometry alone, from the header, where that is less work than to read the voxels."""
    endings: tuple[str, ...] = ()
    """What its files' names end in; nothing where a dataset alone asks for it."""
    marks: tuple[tuple[int, bytes], ...] = ()
    """Where in its files which bytes stand, for those whose name says nothing."""
    files: Callable[[Path], tuple[Path, ...]] = lambda path: (path,)
    """All that is read of a path."""


FORMATS: dict[str, Reader] = {
    "nifti": Reader(read=nifti.read, look=nifti.look, endings=nifti.ENDINGS),
    "nrrd": Reader(read=nrrd.read, endings=nrrd.ENDINGS, marks=nrrd.MARKS),
    "dicom": Reader(read=dicom.read, look=dicom.look, endings=dicom.ENDINGS, marks=dicom.MARKS, files=dicom.files),
    "h5": Reader(read=hdf5.read, endings=hdf5.ENDINGS, marks=hdf5.MARKS),
    "mat": Reader(read=mat.read, endings=mat.ENDINGS, marks=mat.MARKS),
    "npy": Reader(read=npy.read, endings=npy.ENDINGS, marks=npy.MARKS),
    "image": Reader(read=picture.read, endings=picture.ENDINGS, marks=picture.MARKS),
    "york_scan": Reader(read=york.read_scan),
    "york_outlines": Reader(read=york.read_outlines),
}
"""By name, in the order in which a folder's files are looked for."""


def format_of(path: Path) -> str:
    """A file's format, by its name's ending, else by what its content begins with; a folder is DICOM.

    Raises:
        InputError: there is no such file, or no reader takes it.
    """
    if path.is_dir() and not ending_of(path) and dicom.holds_dicom(path):
        return "dicom"
    for name, reader in FORMATS.items():
        if path.name.lower().endswith(reader.endings):
            return name
    if not path.exists():
        raise FileError(path, "does not exist", "Check the path")
    for name, reader in FORMATS.items():
        if path.is_file() and any(_has_mark(path, at, mark) for at, mark in reader.marks):
            return name
    known = ", ".join(ending for reader in FORMATS.values() for ending in reader.endings)
    raise FileError(path, f"is of no format that is read ({known}, or a folder of DICOM)", "Convert it to NIfTI")


def ending_of(path: Path) -> str:
    """What the name of a scan ends in, such as `.nii.gz`; empty where no reader has such an ending."""
    name = path.name.lower()
    endings = (ending for reader in FORMATS.values() for ending in reader.endings if name.endswith(ending))
    return max(endings, key=len, default="")


def _has_mark(path: Path, at: int, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(len(mark)) == mark
    except OSError:
        return False
