"""DICOM SEG: segments that refer to the slices they were drawn on, for archives and viewers of clinics (highdicom)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.folder import Case
from coranet.data.problem import FileError
from coranet.data.readers.dicom import stack_of
from coranet.data.readers.dicom_slices import header_of
from coranet.data.readers.dicom_stack import Stack
from coranet.data.writers.class_codes import ClassCode, code_of
from coranet.errors import InputError, one_line
from coranet.files import write_atomically
from coranet.geometry import Geometry
from coranet.version import __version__

NEEDED = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID", "FrameOfReferenceUID")
"""What a slice must state to be referred to."""
MAY_BE_EMPTY = (
    *("PatientID", "PatientName", "PatientBirthDate", "PatientSex", "StudyID", "StudyDate", "StudyTime"),
    *("AccessionNumber", "ReferringPhysicianName"),
)
"""What the standard wants of every file, empty where nobody knows it. Scans without names often lack it."""
_ANYTHING = re.compile(".*", re.DOTALL)
_FITS = {
    "PatientSex": re.compile("[MFO]?"),
    **dict.fromkeys(("PatientBirthDate", "StudyDate"), re.compile("([0-9]{8})?")),
    "StudyTime": re.compile(r"([0-9]{2,6}(\.[0-9]{1,6})?)?"),
}
"""How some of them are written."""


@dataclass(frozen=True)
class DicomSeg:
    """Writes `<case>.seg.dcm` for scans that are DICOM series."""

    classes: Mapping[int, str]
    """Names by value, background 0."""
    codes: Mapping[str, ClassCode] = field(default_factory=dict)
    """The user's own, by name of the class."""

    def check(self, case: Case) -> None:
        """Refuse scans that are no DICOM series, or do not say what they belong to."""
        _library()
        scan = case.images[0]
        if scan.reader != "dicom":
            remedy = "Leave --dicom-seg away, or predict the DICOM series itself"
            raise FileError(scan.path, "is no DICOM series, and DICOM SEG refers to one", remedy)
        stack = stack_of(scan.path, dict(scan.inside))
        header = header_of(stack.slices[0].file)
        if missing := [name for name in NEEDED if not header.get(name)]:
            remedy = "Export the series again with all its tags, or leave --dicom-seg away"
            raise FileError(stack.slices[0].file, f"does not state its {', '.join(missing)}", remedy)

    def write(self, out: Path, case: Case, label: NDArray[np.uint8], geometry: Geometry) -> Path:
        """One segment for each class but the background; slices that were filled in are left out."""
        scan = case.images[0]
        stack = stack_of(scan.path, dict(scan.inside))
        content = BytesIO()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of headers that other programs wrote
                self._segmentation(stack, label).save_as(content)
        except (AttributeError, ValueError, TypeError, KeyError, IndexError) as error:
            remedy = "Export the series again with all its tags, or leave --dicom-seg away"
            raise FileError(scan.path, f"cannot be referred to ({one_line(str(error))[:200]})", remedy) from error
        file = out / f"{case.name}.seg.dcm"
        write_atomically(file, content.getvalue())
        return file

    def _segmentation(self, stack: Stack, label: NDArray[np.uint8]) -> Any:
        library = _library()
        files = list(dict.fromkeys(one.file for one in stack.slices))
        headers = [header_of(file) for file in files]
        for header in headers:  # highdicom asks for these, and not every series has them
            header.setdefault("SliceThickness", f"{np.linalg.norm(stack.step):.6g}")
            for name in MAY_BE_EMPTY:
                if not _FITS.get(name, _ANYTHING).fullmatch(str(header.get(name, "") or "")):
                    setattr(header, name, "")  # no word of the standard's, and so refused
                header.setdefault(name, "")
        return library.seg.Segmentation(
            source_images=headers,
            pixel_array=_frames(stack, label, [int(one.get("NumberOfFrames") or 1) for one in headers]),
            segmentation_type="BINARY",
            segment_descriptions=[
                self._segment(library, number, value) for number, value in enumerate(self._objects, start=1)
            ],
            series_instance_uid=library.UID(),
            series_number=1000 + int(headers[0].get("SeriesNumber") or 0) % 10**6,
            sop_instance_uid=library.UID(),
            instance_number=1,
            manufacturer="The coranet developers",
            manufacturer_model_name="coranet",
            software_versions=__version__,
            device_serial_number="none",
            content_label="SEGMENTATION",
            series_description="coranet",
        )

    @property
    def _objects(self) -> list[int]:
        return [value for value in sorted(self.classes) if value]

    def _segment(self, library: Any, number: int, value: int) -> Any:
        name = self.classes[value]
        code = code_of(value, name, self.codes)
        concept, family = library.sr.CodedConcept, library.sr.CodedConcept("123109", "DCM", "Artificial Intelligence")
        return library.seg.SegmentDescription(
            segment_number=number,
            segment_label=name.strip()[:64] or f"class {value}",
            segmented_property_category=concept(*code.category),
            segmented_property_type=concept(code.value, code.scheme, code.meaning),
            algorithm_type="AUTOMATIC",
            algorithm_identification=library.AlgorithmIdentificationSequence("coranet", family, __version__),
        )


def _frames(stack: Stack, label: NDArray[np.uint8], counts: list[int]) -> NDArray[np.uint8]:
    """The label map as the frames of its files, one after the other, `(n, y, x)`; values become numbers of segments."""
    files = list(dict.fromkeys(one.file for one in stack.slices))
    first = dict(zip(files, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
    frames = np.zeros((sum(counts), *label.shape[1::-1]), np.uint8)
    for one, place in zip(stack.slices, stack.places, strict=True):
        frames[first[one.file] + one.frame] = label[..., place].T
    return frames


def _library() -> Any:
    try:
        return import_module("highdicom")
    except ImportError as error:
        raise InputError("--dicom-seg needs highdicom. Install it: pip install 'coranet[dicom]'.") from error
