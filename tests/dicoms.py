"""DICOM files as scanners and archives write them, made by pydicom alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, EnhancedCTImageStorage, ExplicitVRLittleEndian, generate_uid

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def header(pixels: NDArray[Any], **changes: Any) -> Dataset:
    """A CT slice `(y, x)`, or frames `(z, y, x)`, of uint16 or int16; `changes` by keyword, None removes one."""
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.file_meta.MediaStorageSOPClassUID = CTImageStorage
    stated: dict[str, Any] = {
        "SOPClassUID": CTImageStorage,
        "SOPInstanceUID": generate_uid(),
        "PatientID": "P1",
        "SeriesInstanceUID": "1.2.3",
        "SeriesNumber": 4,
        "SeriesDescription": "portal venous",
        "Modality": "CT",
        "Rows": pixels.shape[-2],
        "Columns": pixels.shape[-1],
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": int(pixels.dtype.kind == "i"),
        "PixelSpacing": [1.0, 1.0],
        "ImageOrientationPatient": list(AXIAL),
        "ImagePositionPatient": [0.0, 0.0, 0.0],
        "PixelData": pixels.tobytes(),
    }
    for name, value in {**stated, **changes}.items():
        if value is not None:
            setattr(dataset, name, value)
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID
    return dataset


def save(path: Path, dataset: Dataset) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(path, enforce_file_format=True)
    return path


def write_series(
    folder: Path,
    voxels: NDArray[Any],
    *,
    spacing: tuple[float, float, float] = (0.7, 0.8, 2.5),
    origin: tuple[float, float, float] = (-120.0, -90.0, 40.0),
    orientation: tuple[float, ...] = AXIAL,
    shear: tuple[float, float, float] = (0.0, 0.0, 0.0),
    leave_out: tuple[int, ...] = (),
    seed: int = 0,
    **changes: Any,
) -> NDArray[np.float64]:
    """One file a slice of `(x, y, z)`, named and numbered at random.

    Returns:
        The affine, RAS, from indices of `voxels`: `shear` is in millimetres a slice, LPS.
    """
    across, down = np.array(orientation[:3]), np.array(orientation[3:])
    step = np.cross(across, down) * spacing[2] + shear
    names = np.random.default_rng(seed).permutation(1000)
    for place in range(voxels.shape[2]):
        if place in leave_out:
            continue
        stated = {
            "PixelSpacing": [spacing[1], spacing[0]],
            "ImageOrientationPatient": list(orientation),
            "ImagePositionPatient": [float(f"{value:.6f}") for value in np.array(origin) + place * step],
            "InstanceNumber": int(names[place]),
            **changes,
        }
        save(folder / f"{names[place]:03d}.dcm", header(np.ascontiguousarray(voxels[..., place].T), **stated))
    affine = np.eye(4)
    affine[:3] = np.stack([across * spacing[0], down * spacing[1], step, np.array(origin)], axis=1)
    return np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine


def enhanced(voxels: NDArray[Any], spacing: tuple[float, float, float]) -> Dataset:
    """All slices of `(x, y, z)` in one file, positions by frame, the rest for all, frames from top to bottom."""

    def item(**values: Any) -> Dataset:
        dataset = Dataset()
        for name, value in values.items():
            setattr(dataset, name, value)
        return dataset

    frames = np.ascontiguousarray(voxels[..., ::-1].transpose(2, 1, 0))
    measures = item(PixelSpacing=[spacing[1], spacing[0]], SliceThickness=spacing[2])
    rescaling = item(RescaleSlope=1, RescaleIntercept=-1024)
    shared = item(
        PixelMeasuresSequence=Sequence([measures]),
        PlaneOrientationSequence=Sequence([item(ImageOrientationPatient=list(AXIAL))]),
        PixelValueTransformationSequence=Sequence([rescaling]),
    )
    places = [item(ImagePositionPatient=[0.0, 0.0, spacing[2] * z]) for z in reversed(range(voxels.shape[2]))]
    return header(
        frames,
        SOPClassUID=EnhancedCTImageStorage,
        NumberOfFrames=len(frames),
        PixelSpacing=None,
        ImageOrientationPatient=None,
        ImagePositionPatient=None,
        SharedFunctionalGroupsSequence=Sequence([shared]),
        PerFrameFunctionalGroupsSequence=Sequence([item(PlanePositionSequence=Sequence([place])) for place in places]),
    )
