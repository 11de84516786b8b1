"""One file format a module: from a path to an array and its geometry, and back.

A reader is a function `read(path, inside) -> Volume` and what its files look like; `READERS` has them by name. A `Source`
names a file, its reader and what of the file is meant, and is what the rest of the house holds on to. The libraries behind
the formats are imported when a file is read, so that a run on NIfTI never waits for the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from coranet.data.readers import derived
from coranet.data.readers.formats import FORMATS, Reader, ending_of, format_of
from coranet.data.readers.guard import guarded
from coranet.data.readers.volume import Volume
from coranet.geometry import Geometry

__all__ = ["READERS", "Reader", "Source", "Volume", "ending_of", "label_source", "source"]

READERS: dict[str, Reader] = {
    **FORMATS,
    "mask": Reader(read=derived.read_mask),
    "slices": Reader(read=derived.read_slices),
    "stack": Reader(read=derived.read_stack, files=derived.stack_files),
    "laid": Reader(read=derived.read_laid),
    "outline": Reader(read=derived.read_outline),
}
"""By name: formats of files, and what datasets make of them."""


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
        with guarded(self.path, self.reader):
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
        with guarded(self.path, self.reader):
            return look(self.path, dict(self.inside))

    def files(self) -> tuple[Path, ...]:
        """Every file that `read` depends on: for a folder of slices all of them."""
        return READERS[self.reader].files(self.path)


def source(path: Path, *inside: tuple[str, str | int]) -> Source:
    """The source that a path is: by its name's ending, else by what its content begins with; a folder is DICOM.

    Raises:
        InputError: there is no such file, or no reader takes it.
    """
    with guarded(path, "a scan"):
        return Source(path=path, reader=format_of(path), inside=inside)


def label_source(path: Path) -> Source:
    """The same of a label map: of a picture its classes, of an HDF5 file its label."""
    found = source(path)
    return replace(found, inside=(("as", "mask"),)) if found.reader in ("h5", "image") else found
