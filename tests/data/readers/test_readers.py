"""NIfTI files in and out, and what is said of broken ones."""

from __future__ import annotations

import gzip
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coranet.data.readers import Volume
from coranet.data.readers.nifti import read, write
from coranet.errors import InputError
from coranet.geometry import Geometry

AFFINE = np.array([[-0.7, 0.1, 0, 90], [0.1, 0.7, 0, -126], [0, 0, 2.5, -72], [0, 0, 0, 1]])


def geometry(shape: tuple[int, int, int], affine: np.ndarray = AFFINE) -> Geometry:
    return Geometry(shape=shape, affine=tuple(tuple(row) for row in affine.tolist()))


def save(path: Path, array: np.ndarray, affine: np.ndarray = AFFINE) -> Path:
    """With nibabel alone: the reader's oracle."""
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_read_keeps_values_type_and_place(tmp_path: Path, ending: str, dtype: type) -> None:
    array = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(dtype)
    volume = read(save(tmp_path / f"a{ending}", array))
    assert volume.array.dtype == dtype
    assert np.array_equal(volume.array, array)
    assert volume.geometry.shape == (4, 5, 6)
    assert np.allclose(volume.geometry.affine, AFFINE, atol=1e-5)
    assert volume.geometry.spacing == pytest.approx((0.5**0.5, 0.5**0.5, 2.5), rel=1e-5)
    assert volume.path == tmp_path / f"a{ending}"


def test_read_knows_the_second_version(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    nib.Nifti2Image(array, AFFINE).to_filename(tmp_path / "a.nii.gz")
    volume = read(tmp_path / "a.nii.gz")
    assert np.array_equal(volume.array, array)
    assert np.allclose(volume.geometry.affine, AFFINE)


def test_read_applies_the_slope(tmp_path: Path) -> None:
    image = nib.Nifti1Image(np.array([[[1, 2, 3]]], np.int16), AFFINE)
    image.header.set_slope_inter(2.0, -1024.0)
    image.to_filename(tmp_path / "ct.nii.gz")
    raw = nib.load(tmp_path / "ct.nii.gz")
    assert raw.dataobj.slope == 2.0  # the file does store a slope
    assert np.array_equal(read(tmp_path / "ct.nii.gz").array, raw.get_fdata())


def test_scaling_small_integers_takes_no_double_precision(tmp_path: Path) -> None:
    """Three times the memory of the scan as it is needed would go by on the way."""
    numbers = np.random.default_rng(0).integers(-1024, 3000, (40, 40, 40)).astype(np.int16)
    image = nib.Nifti1Image(numbers, AFFINE)
    image.header.set_slope_inter(0.37, -12.5)
    image.to_filename(tmp_path / "scaled.nii")
    tracemalloc.start()
    volume = read(tmp_path / "scaled.nii")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert volume.array.dtype == np.float32
    assert peak < 2.2 * volume.array.nbytes
    np.testing.assert_allclose(volume.array, nib.load(tmp_path / "scaled.nii").get_fdata(), rtol=1e-5, atol=1e-3)


def test_read_turns_foreign_byte_order(tmp_path: Path) -> None:
    array = np.arange(24, dtype=">i2").reshape(2, 3, 4)
    nib.Nifti1Image(array, AFFINE, nib.Nifti1Header(endianness=">")).to_filename(tmp_path / "big.nii")
    volume = read(tmp_path / "big.nii")
    assert volume.array.dtype.isnative
    assert np.array_equal(volume.array, array)


@pytest.mark.parametrize(
    ("stored", "read_as"), [((4, 5), (4, 5, 1)), ((4, 5, 6, 1), (4, 5, 6)), ((4, 5, 1, 1, 1), (4, 5, 1))]
)
def test_read_gives_three_axes(tmp_path: Path, stored: tuple[int, ...], read_as: tuple[int, int, int]) -> None:
    array = np.arange(np.prod(stored)).reshape(stored).astype(np.float32)
    volume = read(save(tmp_path / "a.nii.gz", array))
    assert volume.array.shape == volume.geometry.shape == read_as
    assert np.array_equal(volume.array.ravel(), array.ravel())


def broken(folder: Path, kind: str) -> Path:
    """A file that cannot be a scan, for the reason in `kind`."""
    noise = np.random.default_rng(0).integers(0, 255, (20, 20, 20)).astype(np.uint8)
    path = folder / ("scan.nii" if kind in ("gzip named nii", "short") else "scan.nii.gz")
    whole = save(folder / "whole.nii.gz", noise).read_bytes()
    plain = gzip.decompress(whole)
    singular = plain[:280] + bytes(48) + plain[328:]  # the sform's three rows
    contents = {
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "truncated header": whole[:100],
        "no trailer": whole[:-4],
        "only a header": gzip.compress(plain[:352]),
        "flipped bits": whole[:3000] + bytes(255 - byte for byte in whole[3000:3200]) + whole[3200:],
        "not gzip": plain,
        "gzip named nii": whole,
        "short": plain[:-100],
        "not NIfTI": gzip.compress(b"hello" * 500),
        "text": b"<html>404</html>",
        "singular": gzip.compress(singular),
        "NaN": gzip.compress(plain[:280] + np.float32(np.nan).tobytes() + plain[284:]),
    }
    path.write_bytes(contents[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "message", "remedy"),
    [
        ("empty", "is empty", "Copy or export"),
        ("truncated", "is damaged or cut short", "Copy or export"),
        ("truncated header", "is damaged or cut short", "Copy or export"),
        ("no trailer", "is damaged or cut short", "Copy or export"),
        ("only a header", "is damaged or cut short", "Copy or export"),
        ("flipped bits", "is damaged", "Copy or export"),
        ("not gzip", "named .gz but is not gzip", "Rename it to .nii or compress"),
        ("gzip named nii", "is gzip-compressed but not named .gz", r"Rename it to .nii.gz"),
        ("short", "is damaged or cut short", "Copy or export"),
        ("not NIfTI", "is not NIfTI", "Convert it"),
        ("text", "is not gzip", "Rename"),
        ("singular", "no valid spacing", "Export it again"),
        ("NaN", "no valid spacing", "Export it again"),
    ],
)
def test_a_broken_file_is_named_with_its_remedy(tmp_path: Path, kind: str, message: str, remedy: str) -> None:
    path = broken(tmp_path, kind)
    with pytest.raises(InputError, match=f"{message}.*{remedy}") as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # crosses processes


def test_a_spacing_of_zero_is_not_taken_for_one(tmp_path: Path) -> None:
    image = nib.Nifti1Image(np.zeros((2, 3, 4), np.uint8), None)
    image.set_qform(np.eye(4), code=1)
    content = bytearray(image.to_bytes())
    content[84:88] = bytes(4)  # pixdim[2]
    (tmp_path / "a.nii").write_bytes(content)
    with pytest.raises(InputError, match="no valid spacing"):
        read(tmp_path / "a.nii")


@pytest.mark.parametrize("shape", [(4, 5, 6, 2), (4, 5, 1, 2), (4, 5, 6, 1, 3)])
def test_four_axes_are_refused_with_the_way_to_split(tmp_path: Path, shape: tuple[int, ...]) -> None:
    save(tmp_path / "a.nii.gz", np.zeros(shape, np.uint8))
    with pytest.raises(InputError, match=r"axes.*Split channels into files <case>_0000"):
        read(tmp_path / "a.nii.gz")


def test_colour_is_refused(tmp_path: Path) -> None:
    rgb = np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    with pytest.raises(InputError, match="not grey levels"):
        read(save(tmp_path / "a.nii.gz", rgb))


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.nii.gz", "does not exist"), ("none.mha", "not named .nii"), ("dir.nii.gz", "cannot be opened")],
)
def test_a_path_that_is_no_file(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "dir.nii.gz").mkdir()
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_a_file_one_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.nii.gz", np.zeros((2, 2, 2), np.uint8))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be opened \(Permission denied\).*may read"):
        read(path)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 351), value=st.integers(0, 255))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_damage_to_the_header_is_read_or_refused(tmp_path: Path, at: int, value: int) -> None:
    content = bytearray(nib.Nifti1Image(np.ones((2, 3, 4), np.int16), AFFINE).to_bytes())
    content[at] = value
    (tmp_path / "a.nii").write_bytes(content)
    try:
        volume = read(tmp_path / "a.nii")
    except InputError:
        return
    assert volume.array.shape == volume.geometry.shape
    assert np.isfinite(volume.geometry.affine).all()


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize(
    ("given_type", "high", "stored"),
    [
        (np.bool_, 1, np.uint8),
        (np.int64, 3, np.uint8),
        (np.int64, 300, np.int16),
        (np.uint32, 70_000, np.int32),
        (np.float64, 1, np.float32),
        (np.float16, 1, np.float32),
    ],
)
def test_write_then_read(tmp_path: Path, name: str, given_type: type, high: int, stored: type) -> None:
    array = np.linspace(0, high, 60).reshape(3, 4, 5).astype(given_type)
    write(tmp_path / name, array, geometry((3, 4, 5)))
    volume = read(tmp_path / name)
    assert volume.array.dtype == stored
    assert np.array_equal(volume.array, array.astype(stored))
    assert np.allclose(volume.geometry.affine, AFFINE, atol=1e-5)


def test_a_written_file_says_its_place_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.nii.gz", np.zeros((3, 4, 5), np.uint8), geometry((3, 4, 5)))
    image = nib.load(tmp_path / "a.nii.gz")
    assert np.allclose(image.get_qform(coded=True)[0], AFFINE, atol=1e-4)
    assert np.allclose(image.get_sform(coded=True)[0], AFFINE, atol=1e-5)
    assert image.header.get_zooms() == pytest.approx((0.5**0.5, 0.5**0.5, 2.5), rel=1e-5)


def test_reading_and_writing_keeps_the_affine_to_the_bit(tmp_path: Path) -> None:
    first = read(save(tmp_path / "a.nii.gz", np.zeros((3, 4, 5), np.uint8)))
    write(tmp_path / "b.nii.gz", first.array, first.geometry)
    assert read(tmp_path / "b.nii.gz").geometry == first.geometry


def test_classes_may_be_a_fourth_axis(tmp_path: Path) -> None:
    probabilities = np.random.default_rng(0).random((3, 4, 5, 2))
    write(tmp_path / "p.nii.gz", probabilities, geometry((3, 4, 5)))
    image = nib.load(tmp_path / "p.nii.gz")
    assert image.get_data_dtype() == np.float32
    assert np.allclose(image.get_fdata(), probabilities)
    assert image.header.get_zooms()[:3] == pytest.approx((0.5**0.5, 0.5**0.5, 2.5), rel=1e-5)


def test_equal_arrays_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.nii.gz", "b.nii.gz"):
        write(tmp_path / name, np.ones((3, 4, 5), np.uint8), geometry((3, 4, 5)))
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.nii.gz"
    write(path, np.ones((2, 2, 2), np.uint8), geometry((2, 2, 2)))

    def fail(self: Path, target: Path) -> Path:
        assert self.exists()
        assert self.parent == target.parent
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match=r"a.nii.gz: cannot be written \(No space left on device\).*disk has space"):
        write(path, np.zeros((2, 2, 2), np.uint8), geometry((2, 2, 2)))
    assert list(tmp_path.iterdir()) == [path]
    assert read(path).array.all()


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_a_folder_that_is_not_there(tmp_path: Path, parent: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Check that the folder exists"):
        write(tmp_path / parent / "a.nii.gz", np.zeros((2, 2, 2), np.uint8), geometry((2, 2, 2)))


def test_a_volume_is_made_of_an_array_and_a_geometry() -> None:
    assert Volume(np.zeros((2, 2, 2)), geometry((2, 2, 2))).path is None
