"""The slices of DICOM files: what their headers say of each, and their pixels."""

from __future__ import annotations

import math
import warnings
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.problem import FileError
from coranet.data.readers.unpacking import inflate
from coranet.data.readers.volume import COPY_AGAIN, check_file
from coranet.errors import InputError
from coranet.file_names import special_kind

if TYPE_CHECKING:
    from pydicom import Dataset

Vector = tuple[float, ...]

MARK = (128, b"DICM")
_FIRST_GROUPS = (b"\x02\x00", b"\x08\x00")
"""What a file begins with that has no preamble: the number of the first group of tags."""

_LEAST = 64
"""Bytes of a frame: one of 8 x 8 pixels has as many."""

_MEASURES, _VALUES = "PixelMeasuresSequence", "PixelValueTransformationSequence"
_DECODERS = {"JPEG 2000": "pylibjpeg pylibjpeg-openjpeg", "JPEG": "pylibjpeg pylibjpeg-libjpeg"}
"""What to install to read what is compressed so."""


@dataclass(frozen=True, kw_only=True)
class DicomSlice:
    """One slice, without its pixels. Vectors are in LPS; what the file does not say is NaN or empty."""

    file: Path
    frame: int
    """Of the frames in its file, from 0."""
    uid: str
    patient: str
    series: str
    number: str
    """The series' number."""
    description: str
    size: tuple[int, int]
    """Pixels along x and y."""
    spacing: Vector
    """Millimetres along x and y."""
    thickness: float
    """Millimetres to the next slice, as far as a single slice tells."""
    position: Vector
    """The centre of the first pixel; empty where not stated."""
    orientation: Vector
    """The directions of x and of y, six numbers; empty where not stated."""
    slope: float
    intercept: float
    stored: tuple[int, int]
    """The lowest and highest number that a stored pixel can be."""
    moment: Vector
    """What puts slices of one position in the order of time."""

    @property
    def normal(self) -> NDArray[np.float64]:
        """Perpendicular to the slice."""
        return np.cross(self.orientation[:3], self.orientation[3:])


def is_dicom(file: Path) -> bool:
    """Whether a file is DICOM, by its mark, whatever its name; a list of files (DICOMDIR) is none."""
    try:
        if special_kind(file):
            return False
        with file.open("rb") as stream:
            head = stream.read(MARK[0] + len(MARK[1]))
    except OSError:
        return False
    bare = head[:2] in _FIRST_GROUPS and head[3:4] == b"\0"
    return (bare or head[MARK[0] :] == MARK[1]) and file.name.upper() != "DICOMDIR"


def slices_of(file: Path) -> tuple[DicomSlice, ...]:
    """The slices of a file, one a frame; none where it holds something else than an image."""
    with _reading(file):
        header = _opened(file, pixels=False)
        if "Rows" not in header or "Columns" not in header:
            return ()
        if int(header.get("SamplesPerPixel", 1)) != 1:
            raise FileError(file, "is in colour", "Convert it to grey")
        if "ModalityLUTSequence" in header:
            raise FileError(file, "maps grey levels by a table (ModalityLUTSequence)", "Convert it to NIfTI")
        count = int(header.get("NumberOfFrames") or 1)
        if not 1 <= count <= max(1, file.stat().st_size // _LEAST):
            raise FileError(file, f"says that it holds {count} frames, which its bytes cannot", COPY_AGAIN)
        return tuple(_slice(file, header, frame) for frame in range(count))


def header_of(file: Path) -> Dataset:
    """All that a file says but its pixels."""
    with _reading(file):
        return _opened(file, pixels=False)


def fill_pixels(slices: Sequence[DicomSlice], into: NDArray[Any], places: Sequence[int]) -> None:
    """Write the grey levels of slices to their places in `into`, `(z, y, x)`, each file read once."""
    by_file: dict[Path, list[tuple[DicomSlice, int]]] = {}
    for one, place in zip(slices, places, strict=True):
        by_file.setdefault(one.file, []).append((one, place))
    for file, wanted in by_file.items():
        with _reading(file):
            dataset = _opened(file, pixels=True)
            _check_decoder(file, dataset)
            _claim(file, dataset)
            _check_length(file, dataset)
            pixels = dataset.pixel_array
            for one, place in wanted:
                stored = pixels[one.frame] if pixels.ndim == 3 else pixels
                into[place] = stored if (one.slope, one.intercept) == (1, 0) else stored * one.slope + one.intercept


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """What goes wrong within is said of the file; what pydicom finds odd in a header does not matter here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except OSError as error:
        remedy = "Make it a file that you may read"
        raise FileError(file, f"cannot be read ({error.strerror or error})", remedy) from error
    except (InputError, MemoryError):
        raise
    except Exception as error:  # pydicom raises whatever the parts that it calls do
        reason = " ".join(str(error).split())
        raise FileError(file, f"is damaged or cut short ({reason})", COPY_AGAIN) from error


def _opened(file: Path, *, pixels: bool) -> Dataset:
    from pydicom import dcmread
    from pydicom.uid import ImplicitVRLittleEndian

    check_file(file)
    with _Stream(FileIO(file)) as stream:
        dataset = dcmread(stream, stop_before_pixels=not pixels, force=True)
    if "TransferSyntaxUID" not in dataset.file_meta:  # files without a preamble are older than the choice
        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
    return dataset


class _Stream(BufferedReader):
    """A file of which pydicom reads all the rest at once where that is deflated, and then inflates it whatever its size."""

    def read(self, size: int | None = -1) -> bytes:
        """As of any file.

        Raises:
            FileError: what is deflated would take more memory than there is room for.
        """
        content = super().read(size)
        if size is None or size < 0:
            deque(inflate(Path(self.name), BytesIO(content), len(content), -zlib.MAX_WBITS), maxlen=0)
        return content


def _claim(file: Path, dataset: Dataset) -> None:
    """Ask for the memory of a file's pixels."""
    each = math.ceil(int(dataset.get("BitsAllocated", 16)) / 8)
    pixels = int(dataset.Rows) * int(dataset.Columns) * int(dataset.get("NumberOfFrames") or 1)
    claim(file, pixels * each, file.stat().st_size)


def _check_length(file: Path, dataset: Dataset) -> None:
    """Refuse a file that holds more rows than it says; fewer are noticed by pydicom."""
    if dataset.file_meta.TransferSyntaxUID.is_compressed:
        return
    row = math.ceil(int(dataset.Columns) * int(dataset.get("BitsAllocated", 16)) / 8)
    rows = int(dataset.Rows) * int(dataset.get("NumberOfFrames") or 1)
    if (more := len(dataset.get("PixelData") or b"") - rows * row) >= max(row, 2):
        raise FileError(file, f"holds {more} bytes more than the {rows} rows of pixels that it announces", COPY_AGAIN)


def _check_decoder(file: Path, dataset: Dataset) -> None:
    from pydicom.pixels.decoders.base import get_decoder

    syntax = dataset.file_meta.TransferSyntaxUID
    if not syntax.is_compressed:
        return
    try:
        if get_decoder(syntax).is_available:
            return
        package = next((names for start, names in _DECODERS.items() if start in syntax.name), "pylibjpeg[all]")
        remedy = f"Install what decodes it: pip install {package}"
    except NotImplementedError:
        remedy = "Decompress it first, such as by gdcmconv --raw"
    raise FileError(file, f"is compressed as {syntax.name}, which cannot be read yet", remedy)


@dataclass(frozen=True)
class _Header:
    """What a frame, its file's frames together, or the file says."""

    file: Dataset
    groups: list[Dataset]

    @classmethod
    def of(cls, file: Dataset, frame: int) -> Self:
        """That of one frame."""
        each, shared = "PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"
        return cls(file, [*_group(file, each, frame), *_group(file, shared)])

    def numbers(self, name: str, sequence: str = "") -> Vector:
        """Those of a field, none where nobody states it."""
        places = [inner for group in self.groups for inner in _group(group, sequence)] if sequence else []
        stated = (place[name].value for place in (*places, self.file) if place.get(name) not in (None, ""))
        value: Any = next(stated, None)
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        return () if value is None else tuple(float(number) for number in values)

    def number(self, name: str, sequence: str = "", default: float = float("nan")) -> float:
        """The first of them."""
        return next(iter(self.numbers(name, sequence)), default)

    @property
    def spacing(self) -> tuple[float, float]:
        """Across and down."""
        stated = self.numbers("PixelSpacing", _MEASURES) or self.numbers("ImagerPixelSpacing") or (np.nan, np.nan)
        down, across = stated[:2]
        return across, down

    @property
    def thickness(self) -> float:
        """From one slice to the next."""
        between = self.number("SpacingBetweenSlices", _MEASURES)
        return between if between > 0 else self.number("SliceThickness", _MEASURES, 1.0)

    @property
    def moment(self) -> tuple[float, float, float]:
        """What tells frames at one place apart."""
        identifier = self.number("TemporalPositionIdentifier", default=0.0)
        return (
            self.number("TemporalPositionIndex", "FrameContentSequence", identifier),
            self.number("TriggerTime", default=0.0),
            self.number("InstanceNumber", default=0.0),
        )


def _slice(file: Path, header: Dataset, frame: int) -> DicomSlice:
    said, bits = _Header.of(header, frame), int(header.get("BitsStored", 16))
    signed = int(header.get("PixelRepresentation", 0)) == 1
    if not 1 <= bits <= 32:
        raise FileError(file, f"stores pixels of {bits} bits", COPY_AGAIN)
    return DicomSlice(
        file=file,
        frame=frame,
        uid=f"{header.get('SOPInstanceUID', file)}#{frame}",
        patient=str(header.get("PatientID") or header.get("PatientName") or "unnamed"),
        series=str(header.get("SeriesInstanceUID", "without UID")),
        number=str(header.get("SeriesNumber", "")),
        description=str(header.get("SeriesDescription", "")),
        size=(int(header.Columns), int(header.Rows)),
        spacing=said.spacing,
        thickness=said.thickness,
        position=said.numbers("ImagePositionPatient", "PlanePositionSequence"),
        orientation=said.numbers("ImageOrientationPatient", "PlaneOrientationSequence"),
        slope=said.number("RescaleSlope", _VALUES, 1.0),
        intercept=said.number("RescaleIntercept", _VALUES, 0.0),
        stored=(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1),
        moment=(*said.moment, float(frame)),
    )


def _group(dataset: Dataset, sequence: str, at: int = 0) -> list[Dataset]:
    """The item of a sequence, if it is there."""
    items = dataset.get(sequence) or []
    return [items[at]] if at < len(items) else []
