"""One file format a module: from a path to an array and its geometry, and back.

A reader is a function `read(path, inside) -> Volume` and what its files look like; `READERS` has them by name. A `Source`
names a file, its reader and what of the file is meant, and is what the rest of the house holds on to. The libraries behind
the formats are imported when a file is read, so that a run on NIfTI never waits for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from coranet.data.problem import FileError
from coranet.data.readers import derived, dicom, hdf5, mat, nifti, npy, nrrd, picture
from coranet.data.readers.volume import Inside, Volume
from coranet.geometry import Geometry

__all__ = ["READERS", "Reader", "Source", "Volume", "ending_of", "label_source", "source"]


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


READERS: dict[str, Reader] = {
    "nifti": Reader(read=nifti.read, look=nifti.look, endings=nifti.ENDINGS),
    "nrrd": Reader(read=nrrd.read, endings=nrrd.ENDINGS, marks=nrrd.MARKS),
    "dicom": Reader(read=dicom.read, look=dicom.look, endings=dicom.ENDINGS, marks=dicom.MARKS, files=dicom.files),
    "h5": Reader(read=hdf5.read, endings=hdf5.ENDINGS, marks=hdf5.MARKS),
    "mat": Reader(read=mat.read, endings=mat.ENDINGS, marks=mat.MARKS),
    "npy": Reader(read=npy.read, endings=npy.ENDINGS, marks=npy.MARKS),
    "image": Reader(read=picture.read, endings=picture.ENDINGS, marks=picture.MARKS),
    "mask": Reader(read=derived.read_mask),
    "slices": Reader(read=derived.read_slices),
    "stack": Reader(read=derived.read_stack, files=derived.stack_files),
    "laid": Reader(read=derived.read_laid),
    "outline": Reader(read=derived.read_outline),
    "york_scan": Reader(read=derived.read_york_scan),
    "york_outlines": Reader(read=derived.read_york_outlines),
}
"""By name, in the order in which a folder's files are looked for."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One scan or label map: a file, or a folder of slices, and what of it is meant."""

    path: Path
    reader: str = "nifti"
    inside: tuple[tuple[str, str | int], ...] = ()
    """What of the file, by name: a dataset's key, a frame, a series."""

    def read(self) -> Volume:
        """The voxels and their geometry.

        Raises:
            InputError: the file is missing, damaged, or not what the reader takes.
        """
        return READERS[self.reader].read(self.path, dict(self.inside))

    @property
    def has_header(self) -> bool:
        """Whether it can be looked at for less than it is read."""
        return READERS[self.reader].look is not None

    def look(self) -> Geometry:
        """The geometry from the header alone, the same that `read` gives.

        Raises:
            InputError: the header cannot be made out. That there is none does not mean that the voxels are sound.
        """
        look = READERS[self.reader].look
        assert look is not None, f"{self.reader} has no header to look at"
        return look(self.path, dict(self.inside))

    def files(self) -> tuple[Path, ...]:
        """Every file that `read` depends on: for a folder of slices all of them."""
        return READERS[self.reader].files(self.path)


def source(path: Path, *inside: tuple[str, str | int]) -> Source:
    """The source that a path is: by its name's ending, else by what its content begins with; a folder is DICOM.

    Raises:
        InputError: there is no such file, or no reader takes it.
    """
    if path.is_dir() and not ending_of(path) and dicom.holds_dicom(path):
        return Source(path=path, reader="dicom", inside=inside)
    for name, reader in READERS.items():
        if path.name.lower().endswith(reader.endings):
            return Source(path=path, reader=name, inside=inside)
    if not path.exists():
        raise FileError(path, "does not exist", "Check the path")
    for name, reader in READERS.items():
        if path.is_file() and any(_has_mark(path, at, mark) for at, mark in reader.marks):
            return Source(path=path, reader=name, inside=inside)
    known = ", ".join(ending for reader in READERS.values() for ending in reader.endings)
    raise FileError(path, f"is of no format that is read ({known}, or a folder of DICOM)", "Convert it to NIfTI")


def label_source(path: Path) -> Source:
    """The same of a label map: of a picture its classes, of an HDF5 file its label."""
    found = source(path)
    return replace(found, inside=(("as", "mask"),)) if found.reader in ("h5", "image") else found


def ending_of(path: Path) -> str:
    """What the name of a scan ends in, such as `.nii.gz`; empty where no reader has such an ending."""
    name = path.name.lower()
    endings = (ending for reader in READERS.values() for ending in reader.endings if name.endswith(ending))
    return max(endings, key=len, default="")


def _has_mark(path: Path, at: int, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(len(mark)) == mark
    except OSError:
        return False
