"""What strangers may hand in: whatever is wrong with a file is one sentence that names it."""

from __future__ import annotations

import io
import os
import socket
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from scipy.sparse import csc_matrix

from coranet.data.problem import FileError
from coranet.data.readers import READERS, Reader, Source, label_source, source
from coranet.errors import InputError
from tests.data.readers import inflated_files
from tests.dicoms import header

ARRAY = np.arange(6 * 5 * 4, dtype=np.int16).reshape(6, 5, 4)


def refusal(path: Path) -> str:
    """The one sentence in which a file is refused."""
    with pytest.raises(InputError) as caught:
        source(path).read()
    said = str(caught.value)
    assert path.name in said
    assert said.endswith(".")
    assert "\n" not in said
    return said


@pytest.mark.parametrize("sizes", ["-14 8 10", "0 8 10", "99999999999999999999 16 10", "8 8", "8 8 1e1", "", "８ 8 10"])
def test_nrrd_of_sizes_that_no_scan_has_is_refused(tmp_path: Path, sizes: str) -> None:
    assert "has the sizes" in refusal(inflated_files.nrrd(tmp_path / "a.nrrd", sizes))


def test_nrrd_of_sizes_that_fit_is_read(tmp_path: Path) -> None:
    assert source(inflated_files.nrrd(tmp_path / "a.nrrd", "8 8 10")).read().array.shape == (8, 8, 10)


@pytest.mark.parametrize("spelling", ["data file: b.raw", "datafile: b.raw", "DataFile:b.raw", "data file: LIST"])
def test_nrrd_never_reads_another_file_however_it_is_spelled(tmp_path: Path, spelling: str) -> None:
    assert "keeps its voxels in another file" in refusal(
        inflated_files.nrrd(tmp_path / "a.nrrd", "8 8 10", 0, spelling)
    )


@pytest.mark.parametrize("line", ["byteskip: 4", "line skip: 1"])
def test_nrrd_with_skips_is_refused_however_they_are_spelled(tmp_path: Path, line: str) -> None:
    assert "without skips" in refusal(inflated_files.nrrd(tmp_path / "a.nrrd", "8 8 10", 0, line))


def test_nrrd_that_states_a_field_twice_is_refused(tmp_path: Path) -> None:
    assert "states its sizes twice" in refusal(inflated_files.nrrd(tmp_path / "a.nrrd", "8 8 10", 0, "sizes: 10 8 8"))


def external_storage(file: h5py.File, other: Path) -> None:
    file.create_dataset("image", (4, 4, 4), "u1", external=[(str(other), 0, 64)])


def external_link(file: h5py.File, other: Path) -> None:
    file["image"] = h5py.ExternalLink(str(other), "/image")


def soft_link_over_an_external_one(file: h5py.File, other: Path) -> None:
    file["deep/out"] = h5py.ExternalLink(str(other), "/")
    file["image"] = h5py.SoftLink("/deep/out/image")


def virtual(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((4, 4, 4), "u1")
    layout[:] = h5py.VirtualSource(str(other), "image", (4, 4, 4))
    file.create_virtual_dataset("image", layout)


@pytest.mark.parametrize("point", [external_storage, external_link, soft_link_over_an_external_one, virtual])
@pytest.mark.parametrize("ending", ["h5", "mat"])
def test_hdf5_never_reads_another_file(tmp_path: Path, point: Callable[[h5py.File, Path], None], ending: str) -> None:
    other, path = tmp_path / "secret.h5", tmp_path / f"a.{ending}"
    with h5py.File(other, "w") as file:
        file["image"] = np.ones((4, 4, 4), np.uint8)
    with h5py.File(path, "w", userblock_size=512 if ending == "mat" else 0) as file:
        point(file, other)
    if ending == "mat":
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    assert "another file" in refusal(path)


def test_hdf5_with_a_piece_larger_than_its_array_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("image", (4, 4, 4), "u1", chunks=(1000, 1000, 1000), maxshape=(None,) * 3)
    assert "says that it holds 1 GB" in refusal(tmp_path / "a.h5")


def test_mat_with_a_sparse_matrix_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"image": csc_matrix(np.eye(40))})
    assert "no image" in refusal(tmp_path / "a.mat")


@pytest.mark.parametrize("packed", [False, True])
def test_mat_of_more_cells_than_bytes_is_refused(tmp_path: Path, packed: bool) -> None:
    cells = np.empty((3, 4), object)
    cells[...] = [[np.ones((2, 2))] * 4] * 3
    savemat(tmp_path / "whole.mat", {"cells": cells}, do_compression=packed)
    assert "no image" in refusal(tmp_path / "whole.mat")  # walked through, and well
    savemat(tmp_path / "a.mat", {"cells": cells})
    content = (tmp_path / "a.mat").read_bytes()
    lie = content.replace(np.array([3, 4], "<i4").tobytes(), np.array([3, 2**27], "<i4").tobytes())
    (tmp_path / "a.mat").write_bytes(lie)
    assert "cells, which its bytes cannot hold" in refusal(tmp_path / "a.mat")


def mutants(content: bytes, count: int, within: int) -> list[bytes]:
    """Copies with a few changed bytes near the start."""
    random, made = np.random.default_rng(7), []
    for _ in range(count):
        mutant = bytearray(content)
        for place in random.integers(0, min(within, len(content)), random.integers(1, 4)):
            mutant[place] = random.integers(0, 256)
        made.append(bytes(mutant))
    return made


def whole_file(path: Path) -> bytes:
    """A small scan in the format that the name says."""
    if path.suffix == ".npy":
        np.save(path, ARRAY)
    elif path.suffix in (".tif", ".png"):
        Image.fromarray(ARRAY[..., 0].astype(np.uint8)).save(path)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("image", data=ARRAY, compression="gzip")
    elif path.suffix == ".mat":
        savemat(path, {"image": ARRAY}, do_compression=True)
    elif path.suffix == ".nrrd":
        inflated_files.nrrd(path, "8 8 10")
    elif path.suffix == ".dcm":
        inflated_files.dicom_of_a_lie(path)
    else:
        nib.save(nib.Nifti1Image(ARRAY, np.eye(4)), path)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.npy", "a.tif", "a.png", "a.h5", "a.mat", "a.nrrd", "a.dcm", "a.nii", "a.nii.gz"])
def test_changed_bytes_in_a_header_are_refused_in_one_sentence_or_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for mutant in (*mutants(whole_file(path), 150, 400), whole_file(path)[:100]):
        path.write_bytes(mutant)
        with suppress(InputError):
            source(path).read()
        with suppress(InputError):
            source(path).look() if source(path).has_header else None


class StrangeError(Exception):
    """What no reader foresees."""


@pytest.mark.parametrize(
    "error", [KeyError("x"), StrangeError("a\nb"), RecursionError(), OverflowError(), MemoryError()]
)
def test_what_a_library_raises_becomes_one_sentence_about_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(path: Path, inside: object) -> Any:
        raise error

    monkeypatch.setitem(READERS, "broken", Reader(read=fail, look=fail))
    for act in (Source(path=tmp_path / "a", reader="broken").read, Source(path=tmp_path / "a", reader="broken").look):
        with pytest.raises(FileError, match=r"a: (cannot be read as broken|does not fit into memory)") as caught:
            act()
        assert caught.value.__cause__ is error
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.nii.gz", "a.nii", "a.nrrd", "a.h5", "a.mat", "a.npy", "a.png", "a.dcm"])
def test_a_named_pipe_is_never_opened(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    said = refusal(tmp_path / name)
    assert "is a named pipe, not a file" in said or "no DICOM" in said
    with pytest.raises(InputError):
        label_source(tmp_path / name).read()
    if source(tmp_path / name).has_header:
        with pytest.raises(InputError):
            source(tmp_path / name).look()


def test_a_device_and_a_socket_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "a.nii").symlink_to("/dev/zero")
    assert "is a device" in refusal(tmp_path / "a.nii")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "b.nii"))
        assert "is a socket" in refusal(tmp_path / "b.nii")


def test_escapes_in_a_file_name_are_spelled_out(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        source(tmp_path / "a\x1b[31m\nb.nii").read()
    assert r"a\x1b[31m\nb.nii: does not exist" in str(caught.value)


def test_extensions_of_a_nifti_header_are_passed_over(tmp_path: Path) -> None:
    image = nib.Nifti1Image(ARRAY, np.eye(4))
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"x" * 5000))
    for name in ("a.nii", "a.nii.gz"):
        nib.save(image, tmp_path / name)
        assert np.array_equal(source(tmp_path / name).read().array, ARRAY)


def test_damage_inside_what_is_packed_is_found(tmp_path: Path) -> None:
    nib.save(
        nib.Nifti1Image(np.random.default_rng(0).integers(0, 99, (20, 20, 20)).astype(np.int16), np.eye(4)),
        tmp_path / "a.nii.gz",
    )
    content = bytearray((tmp_path / "a.nii.gz").read_bytes())
    content[-6] ^= 1  # in the checksum, behind the last voxel
    (tmp_path / "a.nii.gz").write_bytes(content)
    assert "damaged" in refusal(tmp_path / "a.nii.gz")


def with_less_pixels(file: Path, share: float) -> None:
    """A PNG with the first rows alone, in a file that is whole otherwise."""
    content = file.read_bytes()
    at = content.index(b"IDAT") - 4
    (length,) = struct.unpack_from(">I", content, at)
    pixels = zlib.decompress(content[at + 8 : at + 8 + length])
    part = b"IDAT" + zlib.compress(pixels[: int(share * len(pixels))])
    chunk = struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
    file.write_bytes(content[:at] + chunk + content[at + 12 + length :])


@pytest.mark.parametrize("mode", ["1", "L", "I;16", "LA", "RGB", "P"])
def test_a_png_whose_last_rows_are_missing_is_refused(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "a.png"
    grey = Image.fromarray(np.full((31, 37), 200, np.uint16 if mode == "I;16" else np.uint8))
    (grey if mode == "I;16" else grey.convert(mode)).save(file)
    with_less_pixels(file, 1)
    assert source(file).read().array.shape == (37, 31, 1)
    with_less_pixels(file, 0.9)
    assert "cut short" in refusal(file)


def test_an_interlaced_png_is_counted_by_its_passes(tmp_path: Path) -> None:
    start = struct.pack(">I4s2I5B", 13, b"IHDR", 5, 3, 8, 0, 0, 0, 1)
    rows = [(1, 1), (1, 1), (1, 1), (3, 1), (2, 2), (5, 1)]  # (columns, rows) of each pass of 5 x 3
    pixels = b"".join((b"\0" + b"\x07" * columns) * count for columns, count in rows)
    file = tmp_path / "a.png"
    for content in (pixels, pixels[:-1]):
        part = b"IDAT" + zlib.compress(content)
        file.write_bytes(
            b"\x89PNG\r\n\x1a\n" + start + struct.pack(">I", zlib.crc32(start[4:]))
            + struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
            + struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
        )  # fmt: skip
        if content is pixels:
            assert (source(file).read().array == 7).all()
    assert "cut short" in refusal(file)


def test_a_tiff_that_has_some_of_its_rows_alone_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.full((16, 16), 9, np.uint8)).save(buffer, "TIFF")
    content = buffer.getvalue()
    height = struct.pack("<2HI", 257, 4, 1)
    assert content.count(height) == 1
    (tmp_path / "a.tif").write_bytes(content.replace(height + struct.pack("<I", 16), height + struct.pack("<I", 500)))
    assert "256 of the 8000 pixels" in refusal(tmp_path / "a.tif")


@pytest.mark.parametrize(("rows", "padding"), [(1, 0), (12, 5000)])
def test_a_dicom_file_that_holds_more_rows_than_it_says_is_refused(tmp_path: Path, rows: int, padding: int) -> None:
    pixels = np.arange(12 * 14, dtype=np.int16).reshape(12, 14)
    place = {"ImagePositionPatient": [0.0, 0.0, 0.0]}
    header(pixels, **place).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert source(tmp_path / "a.dcm").read().array.shape == (14, 12, 1)
    lying = {"Rows": rows, "PixelData": pixels.tobytes() + bytes(padding)}
    header(pixels, **place, **lying).save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert "more than the" in refusal(tmp_path / "a.dcm")


def test_mat_of_sizes_below_zero_is_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"scan": ARRAY}, do_compression=False)
    content = (tmp_path / "a.mat").read_bytes()
    sizes = struct.pack("<3i", *ARRAY.shape)
    assert content.count(sizes) == 1
    (tmp_path / "a.mat").write_bytes(content.replace(sizes, struct.pack("<3i", -6, 5, 4)))
    assert "(-6, 5, 4)" in refusal(tmp_path / "a.mat")


def test_hdf5_groups_in_each_other_without_end_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group: h5py.Group = file
        for _ in range(20):
            group = group.create_group("g")
        group["up"] = file  # in a circle
        group["image"] = ARRAY
    assert source(tmp_path / "a.h5").read().array.shape == ARRAY.shape
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.create_group("h/" * 3000)
    assert "groups in each other" in refusal(tmp_path / "a.h5")


def test_a_message_stays_short_however_long_a_header_is(tmp_path: Path) -> None:
    said = refusal(inflated_files.nrrd(tmp_path / "a.nrrd", "9" * 5000))
    assert len(said) < 1000
    assert said.endswith("Copy or export the file again.")
