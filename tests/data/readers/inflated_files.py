"""Small files that would take gigabytes if they were believed, made without taking them here."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
from pydicom.uid import DeflatedExplicitVRLittleEndian

from tests import dicoms

BLOCK = bytes(16 * 2**20)
"""16 MiB, as often as one likes: gzip files may be put one behind the other."""
MANY = 750
"""Blocks that make 12.6 GB of 12 MB."""


def nifti(path: Path, shape: tuple[int, ...], blocks: int, kind: str = "u2") -> Path:
    """A header that announces `shape`, and that many packed blocks of zeros."""
    header = nib.Nifti1Header()
    header.set_data_dtype(np.dtype(kind))
    header.set_data_shape(shape)
    header["vox_offset"], header["magic"], header["pixdim"][1:4] = 352, b"n+1\0", 1
    start = header.binaryblock + bytes(4)
    path.write_bytes(gzip.compress(start) + gzip.compress(BLOCK) * blocks if path.suffix == ".gz" else start)
    return path


def nrrd(path: Path, sizes: str, blocks: int = 0, *lines: str, dimension: int = 3) -> Path:
    head = ["NRRD0004", "type: short", f"dimension: {dimension}", f"sizes: {sizes}", "encoding: gzip", *lines, "", ""]
    path.write_bytes("\n".join(head).encode() + gzip.compress(bytes(8 * 8 * 10 * 2)) + gzip.compress(BLOCK) * blocks)
    return path


def hdf5(path: Path, shape: tuple[int, ...], kind: str) -> Path:
    """An array of which nothing was ever written."""
    with h5py.File(path, "w") as file:
        file.create_dataset("image", shape, kind, chunks=(16,) * len(shape))
    return path


def mat(path: Path, blocks: int) -> Path:
    """A variable of one packed element with that many blocks; its checksum, which comes last, is never reached."""
    size = blocks * len(BLOCK)
    matrix = struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIiiii", 5, 12, 512, 512, size // 2**19, 0)
    matrix += struct.pack("<II", 1, 1) + b"x".ljust(8, b"\0") + struct.pack("<II", 4, size)
    packer = zlib.compressobj()
    start = packer.compress(struct.pack("<II", 14, len(matrix) + size) + matrix) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = start + block * blocks
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    return path


def tiff(path: Path, pages: int, side: int = 8000) -> Path:
    """Pages that all show the same packed strip."""
    strip = zlib.compress(bytes(side * side), 9)
    content = bytearray(b"II*\0" + struct.pack("<I", 8 + len(strip) + len(strip) % 2) + strip + bytes(len(strip) % 2))
    for page in range(pages):
        tags = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: side, 279: len(strip)}
        content += struct.pack("<H", len(tags))
        content += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
        content += struct.pack("<I", len(content) + 4 if page + 1 < pages else 0)
    path.write_bytes(content)
    return path


def png(path: Path, side: int) -> Path:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    start = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + start + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b""))
    return path


def dicom_of_a_lie(path: Path, **changes: object) -> Path:
    return dicoms.save(path, dicoms.header(np.zeros((16, 16), np.uint16), **changes))


def dicom_far_apart(folder: Path) -> Path:
    for number, place in enumerate((0.0, 1.0, 2.0, 1e9)):
        dicoms.save(
            folder / f"{number}.dcm",
            dicoms.header(np.zeros((4, 4), np.uint16), ImagePositionPatient=[0.0, 0.0, place], InstanceNumber=number),
        )
    return folder


def dicom_deflated(path: Path, blocks: int) -> Path:
    """Group 2 as it is, and all else deflated: blocks of zeros."""
    dataset = dicoms.header(np.zeros((16, 16), np.uint16))
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dicoms.save(path, dataset)
    content = path.read_bytes()
    (length,) = struct.unpack_from("<I", content, 140)
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packer.compress(BLOCK) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(content[: 144 + length] + block * blocks)
    return path
