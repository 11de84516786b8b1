"""Honest files of every format that is read, each with the voxels that it holds, the same bytes every time."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from coranet.data.readers import source
from tests.dicoms import header

SHAPE = (14, 12, 10)
Bytes = Callable[[bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class Honest:
    """A scan: one file, or several in a folder."""

    name: str
    """Of the file, or of the folder."""
    files: Mapping[str, bytes]
    """By name; one of the scan's own name where it is a file."""
    voxels: NDArray[Any]
    """As our reader gives them."""
    sealed: bool = False
    """Whether the format carries a sum over its voxels, so that a change cannot go unnoticed."""
    packed: bool = False
    """Whether it is a NIfTI file inside gzip."""

    @property
    def content(self) -> bytes:
        """Of the only file, or of the first."""
        return next(iter(self.files.values()))

    def write(self, room: Path, files: Mapping[str, bytes] | None = None) -> Path:
        """To a folder, with other contents where they are given; the path to be read."""
        files = self.files if files is None else files
        if tuple(self.files) == (self.name,):
            (room / self.name).write_bytes(files[self.name])
        else:
            (room / self.name).mkdir()
            for name, content in files.items():
                (room / self.name / name).write_bytes(content)
        return room / self.name


def grey() -> NDArray[np.int16]:
    """Voxels `(x, y, z)`, no two slices alike."""
    return np.random.default_rng(0).integers(0, 2000, SHAPE).astype(np.int16)


def honest_scans() -> dict[str, list[Honest]]:
    """By format."""
    made = {
        "nifti": _nifti(),
        "nifti.gz": _nifti_gz(),
        "nrrd": _nrrd(),
        "hdf5": _hdf5(),
        "mat": _mat(),
        "mat73": _mat73(),
    }
    made |= {"npy": _npy(), "png": _png(), "jpeg": _jpeg(), "tiff": _tiff(), "dicom": [_dicom()]}
    return {kind: [_read(one) for one in scans] for kind, scans in made.items()}


def _read(scan: Honest) -> Honest:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return replace(scan, voxels=source(scan.write(Path(folder))).read().array)


def _file(name: str, content: bytes, *, sealed: bool = False, packed: bool = False) -> Honest:
    return Honest(name=name, files={name: content}, voxels=np.empty(0), sealed=sealed, packed=packed)


def nifti_bytes(array: NDArray[Any], kind: Any = nib.Nifti1Image) -> bytes:
    """Placed, with a spacing."""
    content: bytes = kind(array, np.diag([1.5, 1.5, 4.0, 1.0])).to_bytes()
    return content


def _nifti() -> list[Honest]:
    scaled: Any = nib.Nifti1Image(grey(), np.diag([1.5, 1.5, 4.0, 1.0]))
    scaled.header.set_slope_inter(2.0, -1024.0)
    return [
        _file("scan.nii", nifti_bytes(grey())),
        _file("scan.nii", nifti_bytes(grey().astype(np.float32), nib.Nifti2Image)),
        _file("scan.nii", scaled.to_bytes()),
        _file("scan.nii", nifti_bytes(grey()[..., 0])),
    ]


def _nifti_gz() -> list[Honest]:
    plain = [*_nifti()[:3]]
    return [_file("scan.nii.gz", gzip.compress(one.content, mtime=0), sealed=True, packed=True) for one in plain]


def nrrd_header(**changes: str | None) -> bytes:
    """The text before the voxels; None leaves a field out, and an underscore stands for a space."""
    fields: dict[str, str | None] = {
        "type": "short",
        "dimension": "3",
        "space": "left-posterior-superior",
        "sizes": " ".join(map(str, SHAPE)),
        "space directions": "(1.5,0,0) (0,1.5,0) (0,0,4)",
        "kinds": "domain domain domain",
        "endian": "little",
        "encoding": "raw",
        "space origin": "(0,0,0)",
    }
    fields |= {name.replace("_", " "): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return ("NRRD0004\n" + "\n".join(lines) + "\n\n").encode()


def _nrrd() -> list[Honest]:
    voxels = grey().tobytes(order="F")
    packed = nrrd_header(encoding="gzip") + gzip.compress(voxels, mtime=0)
    return [_file("scan.nrrd", nrrd_header() + voxels), _file("scan.nrrd", packed)]


def hdf5_bytes(fill: Callable[[Any], None], userblock: int = 0) -> bytes:
    """A file made in memory."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=userblock) as file:
        fill(file)
    return buffer.getvalue()


def _hdf5() -> list[Honest]:
    voxels, label = grey(), (grey() > 1000).astype(np.uint8)

    def plain(file: Any) -> None:
        file["image"], file["label"] = voxels, label

    def packed(file: Any) -> None:
        file.create_dataset("image", data=voxels, chunks=(7, 6, 5), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("label", data=label, chunks=(7, 6, 5), compression="gzip")

    def grouped(file: Any) -> None:
        file.create_group("case/inner")["volume"] = voxels.astype(np.float32)
        file["case"].attrs["note"] = "a scan"

    return [_file("scan.h5", hdf5_bytes(fill)) for fill in (plain, packed, grouped)]


MAT_TEXT = b"MATLAB 5.0 MAT-file, Platform: posix, Created on: some day".ljust(116)
MAT73_TEXT = b"MATLAB 7.3 MAT-file, Platform: posix, Created on: some day HDF5 schema 1.00 .".ljust(116)


def mat_bytes(content: Mapping[str, Any], *, compressed: bool = False) -> bytes:
    """Of version 5, with a date that does not change."""
    buffer = io.BytesIO()
    savemat(buffer, dict(content), do_compression=compressed)
    return MAT_TEXT + buffer.getvalue()[116:]


def mat73_bytes(fill: Callable[[Any], None]) -> bytes:
    """Of version 7.3: HDF5 behind 512 bytes of MATLAB's."""
    content = hdf5_bytes(fill, userblock=512)
    return (MAT73_TEXT + b"\0" * 8 + b"\x00\x02IM").ljust(512, b"\0") + content[512:]


def matlab_array(file: Any, name: str, array: NDArray[Any]) -> None:
    """As MATLAB writes one."""
    file[name] = array.T
    file[name].attrs["MATLAB_class"] = np.bytes_("int16")


def _mat() -> list[Honest]:
    return [
        _file("scan.mat", mat_bytes({"scan": grey()})),
        _file("scan.mat", mat_bytes({"scan": grey()}, compressed=True)),
        _file("scan.mat", mat_bytes({"scan": grey().astype(np.float64)[..., 0], "note": "a scan"})),
    ]


def _mat73() -> list[Honest]:
    return [_file("scan.mat", mat73_bytes(lambda file: matlab_array(file, "scan", grey())))]


def npy_bytes(array: NDArray[Any]) -> bytes:
    """NumPy's own."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _npy() -> list[Honest]:
    return [
        _file("scan.npy", npy_bytes(grey())),
        _file("scan.npy", npy_bytes(np.asfortranarray(grey().astype(">f4")))),
        _file("scan.npy", npy_bytes(grey()[..., 0].astype(np.float64))),
    ]


def _picture(name: str, modes: list[NDArray[Any]], *, sealed: bool = False, **options: Any) -> list[Honest]:
    made = []
    for pixels in modes:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, **options)
        made.append(_file(name, buffer.getvalue(), sealed=sealed))
    return made


def _png() -> list[Honest]:
    eight, sixteen = (grey()[..., 0] % 256).astype(np.uint8), grey()[..., 0].astype(np.uint16)
    return _picture("scan.png", [eight, sixteen, np.repeat(eight[..., None], 3, axis=2)], format="PNG")


def _jpeg() -> list[Honest]:
    smooth = np.add.outer(np.arange(48), np.arange(40)).astype(np.uint8)
    return [
        *_picture("scan.jpg", [smooth], format="JPEG"),
        *_picture("scan.jpg", [smooth], format="JPEG", progressive=True),
    ]


def _tiff() -> list[Honest]:
    pages = [Image.fromarray((grey()[..., place] % 256).astype(np.uint8)) for place in range(4)]
    buffer = io.BytesIO()
    pages[0].save(buffer, format="TIFF", save_all=True, append_images=pages[1:])
    one = (grey()[..., 0] % 256).astype(np.uint8)
    return [
        _file("scan.tiff", buffer.getvalue()),
        *_picture("scan.tiff", [one], format="TIFF", compression="tiff_lzw"),
        *_picture("scan.tiff", [one.astype(np.float32)], format="TIFF"),
        *_picture("scan.tiff", [one], format="TIFF", compression="tiff_adobe_deflate"),
    ]


def dicom_bytes(place: int, **changes: Any) -> bytes:
    """One slice; `changes` as of `tests.dicoms.header`."""
    stated = {
        "SOPInstanceUID": f"1.2.3.{place + 1}",
        "ImagePositionPatient": [0.0, 0.0, 4.0 * place],
        "InstanceNumber": place + 1,
        "RescaleSlope": 1,
        "RescaleIntercept": -1024,
    }
    buffer = io.BytesIO()
    pixels = np.ascontiguousarray(grey()[..., place].T)
    header(pixels, **{**stated, **changes}).save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def _dicom() -> Honest:
    files = {f"{place:03d}.dcm": dicom_bytes(place) for place in range(5)}
    return Honest(name="series", files=files, voxels=np.empty(0))
