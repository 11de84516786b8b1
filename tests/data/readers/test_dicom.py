"""DICOM series: order, geometry, grey levels, and every way in which a folder can be wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydicom.encaps import encapsulate
from pydicom.uid import JPEG2000Lossless, JPEGLosslessSV1, JPEGLSLossless, RLELossless

from coranet.data.readers import Source, source
from coranet.data.readers.dicom import folders, read
from coranet.errors import InputError
from tests.dicoms import enhanced, header, save, write_series


def voxels(shape: tuple[int, int, int] = (7, 5, 6), seed: int = 0) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(0, 3000, shape).astype(np.int16)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    turn=st.floats(-3, 3),
    nod=st.floats(-1.4, 1.4),
    spacing=st.tuples(*(st.floats(0.3, 6) for _ in range(3))),
)
def test_a_series_is_sorted_by_position_and_lies_where_it_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, turn: float, nod: float, spacing: tuple[float, float, float]
) -> None:
    folder = tmp_path_factory.mktemp("series")
    around = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    tipped = np.array([[1, 0, 0], [0, np.cos(nod), -np.sin(nod)], [0, np.sin(nod), np.cos(nod)]])
    directions = tuple((around @ tipped)[:, :2].T.ravel().tolist())
    array = voxels(seed=seed)
    affine = write_series(folder, array, orientation=directions, spacing=spacing, seed=seed)
    volume = read(folder, {})
    assert np.array_equal(volume.array, array)
    np.testing.assert_allclose(volume.geometry.affine, affine, atol=1e-4)
    assert volume.geometry.spacing == pytest.approx(spacing, rel=1e-4)
    assert not volume.warnings


def test_left_is_left(tmp_path: Path) -> None:
    """In DICOM x grows to the left and y to the back; a bright voxel stays where it was in the patient."""
    array = np.zeros((9, 8, 4), np.int16)
    array[7, 2, 3] = 100  # LPS: far left, near the front, near the top
    write_series(tmp_path, array, spacing=(2, 3, 4), origin=(10, 20, 30))
    volume = read(tmp_path, {})
    place = np.array([*np.argwhere(volume.array == 100)[0], 1])
    assert (np.array(volume.geometry.affine) @ place)[:3] == pytest.approx((-(10 + 14), -(20 + 6), 30 + 12))


def test_grey_levels_are_rescaled_and_keep_the_smallest_type(tmp_path: Path) -> None:
    array = voxels()
    write_series(
        tmp_path / "ct", array.astype(np.uint16), RescaleSlope=1, RescaleIntercept=-1024, BitsStored=12, HighBit=11
    )
    ct = read(tmp_path / "ct", {})
    assert ct.array.dtype == np.int16
    assert np.array_equal(ct.array, array - 1024)
    write_series(tmp_path / "wide", array.astype(np.uint16) + 60_000)
    wide = read(tmp_path / "wide", {})
    assert np.array_equal(wide.array, array.astype(np.int32) + 60_000)
    write_series(tmp_path / "pet", array, RescaleSlope=0.25, RescaleIntercept=-3.5)
    pet = read(tmp_path / "pet", {})
    assert pet.array.dtype == np.float32
    np.testing.assert_allclose(pet.array, array * 0.25 - 3.5)


def test_each_slice_has_its_own_slope(tmp_path: Path) -> None:
    pixels = np.full((2, 3), 10, np.int16)
    for place, slope in enumerate((1.0, 0.5, 2.0)):
        save(tmp_path / f"{place}", header(pixels, ImagePositionPatient=[0, 0, place], RescaleSlope=slope))
    assert read(tmp_path, {}).array[0, 0].tolist() == [10, 5, 20]


def test_other_files_and_names_without_endings(tmp_path: Path) -> None:
    array = voxels()
    write_series(tmp_path / "s", array)
    for file in sorted((tmp_path / "s").iterdir()):
        file.rename(file.with_name(f"IM{file.stem}"))
    (tmp_path / "s/DICOMDIR").write_bytes(bytes(128) + b"DICM")
    (tmp_path / "s/notes.txt").write_text("a patient")
    (tmp_path / "s/.DS_Store").write_bytes(b"x")
    report = header(np.zeros((1, 1), np.int16), Rows=None, Columns=None, PixelData=None)
    save(tmp_path / "s/report.dcm", report)
    assert source(tmp_path / "s").reader == "dicom"
    assert np.array_equal(source(tmp_path / "s").read().array, array)


def test_a_file_without_a_preamble(tmp_path: Path) -> None:
    array = voxels((4, 3, 3))
    write_series(tmp_path, array)
    for file in sorted(tmp_path.iterdir()):
        content = file.read_bytes()
        start = content.index(b"\x08\x00\x16\x00UI")  # the first tag after the file's own header
        file.write_bytes(content[start:])
    assert np.array_equal(read(tmp_path, {}).array, array)


def test_frames_of_one_file(tmp_path: Path) -> None:
    array = voxels()
    file = save(tmp_path / "scan", enhanced(array, (0.7, 0.8, 2.5)))
    assert source(file) == Source(path=file, reader="dicom")
    volume = source(file).read()
    assert np.array_equal(volume.array, array - 1024)
    assert np.diag(volume.geometry.affine).tolist() == pytest.approx([-0.7, -0.8, 2.5, 1])


def test_frames_without_places_are_refused(tmp_path: Path) -> None:
    frames = np.zeros((4, 3, 3), np.int16)
    file = save(tmp_path / "us.dcm", header(frames, NumberOfFrames=4, ImagePositionPatient=None))
    with pytest.raises(InputError, match=r"us.dcm: does not say where it lies .*positions"):
        read(file, {})


def test_several_series_are_listed_and_one_is_chosen(tmp_path: Path) -> None:
    one, two = voxels(seed=1), voxels(seed=2)
    write_series(tmp_path / "a", one, SeriesInstanceUID="1.2.30", SeriesNumber=3, SeriesDescription="arterial")
    write_series(tmp_path / "b", two[..., :3], SeriesInstanceUID="1.2.40", SeriesNumber=4, seed=2)
    with pytest.raises(
        InputError,
        match=r"holds 2 series: number 3, arterial, 6 images such as .*, 1.2.30; number 4, portal venous, 3 images such as "
        r".*, 1.2.40. Give each series a folder",
    ):
        read(tmp_path, {})
    for chosen, expected in ((3, one), ("3", one), ("1.2.40", two[..., :3])):
        assert np.array_equal(
            Source(path=tmp_path, reader="dicom", inside=(("series", chosen),)).read().array, expected
        )
    with pytest.raises(InputError, match=r"holds 2 series, none of them 7: number 3"):
        read(tmp_path, {"series": 7})


def test_two_patients_are_refused(tmp_path: Path) -> None:
    write_series(tmp_path / "a", voxels())
    write_series(tmp_path / "b", voxels()[..., :2], PatientID="P2", seed=2)
    with pytest.raises(
        InputError, match=r"mixes 2 patients: P1 \(6 images\), P2 \(2 images\). Give each patient a folder"
    ):
        read(tmp_path, {})


def test_missing_slices_are_named_or_filled(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.arange(8, dtype=np.int16) * 100, (3, 2, 8))
    affine = write_series(tmp_path, ramp, leave_out=(2, 5, 6), origin=(0, 0, 40))
    with pytest.raises(
        InputError,
        match=r"misses 3 of 8 slices: at 45.00 mm, between \d+.dcm and \d+.dcm; at 52.50 mm.*--allow-gaps",
    ):
        read(tmp_path, {})
    volume = read(tmp_path, {"gaps": "interpolate"})
    assert np.array_equal(volume.array, ramp)
    np.testing.assert_allclose(volume.geometry.affine, affine, atol=1e-6)
    assert "misses 3 of 8 slices" in str(volume.warnings[0])


def test_the_missing_slice_of_three(tmp_path: Path) -> None:
    write_series(tmp_path, voxels((3, 3, 4)), leave_out=(1,))
    with pytest.raises(InputError, match="misses 1 of 4 slices"):
        read(tmp_path, {})


def test_uneven_slices_are_refused(tmp_path: Path) -> None:
    for place, z in enumerate((0.0, 2.0, 4.0, 6.0, 9.0, 12.0)):
        save(tmp_path / f"{place}.dcm", header(np.zeros((2, 2), np.int16), ImagePositionPatient=[0, 0, z]))
    with pytest.raises(InputError, match=r"uneven distances .* mostly 2 mm, 3 mm from 3.dcm to 4.dcm. Export"):
        read(tmp_path, {"gaps": "interpolate"})


def test_positions_may_be_rounded(tmp_path: Path) -> None:
    for place in range(40):
        position = [0, 0, round(0.625 * place, 1)]
        save(tmp_path / f"{place}.dcm", header(np.full((2, 2), place, np.int16), ImagePositionPatient=position))
    volume = read(tmp_path, {})
    assert volume.array[0, 0].tolist() == list(range(40))
    assert volume.geometry.spacing[2] == pytest.approx(0.625, rel=0.01)


def test_a_slice_that_was_copied_is_read_once(tmp_path: Path) -> None:
    array = voxels()
    write_series(tmp_path, array)
    shutil.copy(sorted(tmp_path.iterdir())[2], tmp_path / "copy.dcm")
    volume = read(tmp_path, {})
    assert np.array_equal(volume.array, array)
    assert "1 copies of slices" in str(volume.warnings[0])


def test_two_slices_of_one_place_are_refused(tmp_path: Path) -> None:
    write_series(tmp_path, voxels())
    save(
        tmp_path / "twin.dcm",
        header(np.zeros((5, 7), np.int16), PixelSpacing=[0.8, 0.7], ImagePositionPatient=[-120, -90, 45]),
    )
    with pytest.raises(
        InputError, match=r"shows the place 45.00 mm 2 times, in .*twin.dcm.*Keep one slice of each place"
    ):
        read(tmp_path, {})


def test_frames_in_time_are_chosen_by_number(tmp_path: Path) -> None:
    heart = [voxels(seed=seed) for seed in range(3)]
    for beat in (2, 0, 1):
        write_series(tmp_path / f"{beat}", heart[beat], TriggerTime=100.0 * beat, seed=beat)
    with pytest.raises(InputError, match=r"shows each of its 6 places 3 times.*Keep one frame a folder"):
        read(tmp_path, {})
    for beat in range(3):
        assert np.array_equal(read(tmp_path, {"frame": beat}).array, heart[beat])
    with pytest.raises(InputError, match="has 3 frames, not frame 3"):
        read(tmp_path, {"frame": 3})


def test_a_tilted_gantry_is_said_and_kept(tmp_path: Path) -> None:
    """Slices that are shifted against each other: the affine has the shift, so that every voxel is where it was."""
    array = voxels((7, 5, 12))
    affine = write_series(tmp_path, array, shear=(0.0, -0.5, 0.0))
    volume = read(tmp_path, {})
    assert np.array_equal(volume.array, array)
    np.testing.assert_allclose(volume.geometry.affine, affine, atol=1e-5)
    assert "gantry tilted by 11.3 degrees" in str(volume.warnings[0])


def test_a_slice_aside_is_refused(tmp_path: Path) -> None:
    for place in range(5):
        position = [3.0 if place == 2 else 0.0, 0, place]
        save(tmp_path / f"{place}.dcm", header(np.zeros((2, 2), np.int16), ImagePositionPatient=position))
    with pytest.raises(InputError, match=r"2.dcm: is shifted by 3 pixels .*Export"):
        read(tmp_path, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"PixelSpacing": [1.0, 2.0]}, r"different spacings: \(1.0, 1.0\) in a.dcm, \(2.0, 1.0\) in b.dcm.*scout"),
        ({"ImageOrientationPatient": [0, 1, 0, 0, 0, -1]}, "different directions"),
        ({"ImagePositionPatient": None}, "b.dcm: does not say where it lies"),
    ],
)
def test_slices_that_do_not_belong_together(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    pixels = np.zeros((3, 3), np.int16)
    save(tmp_path / "a.dcm", header(pixels))
    save(tmp_path / "b.dcm", header(pixels, **{"ImagePositionPatient": [0, 0, 5], **changes}))
    with pytest.raises(InputError, match=message):
        read(tmp_path, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"PixelSpacing": ["NaN", "1"]}, "no valid spacing"),
        ({"PixelSpacing": [0, 1]}, "no valid spacing"),
        ({"PixelSpacing": None}, "no valid spacing"),
        ({"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, "no valid position or orientation"),
        ({"SamplesPerPixel": 3}, "is in colour"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_header_that_says_nonsense(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    for place in range(2):
        stated = {"ImagePositionPatient": [0, 0, place], **changes}
        save(tmp_path / f"{place}.dcm", header(np.zeros((3, 3), np.int16), **stated))
    with pytest.raises(InputError, match=message):
        read(tmp_path, {})


@pytest.mark.parametrize(
    ("syntax", "package"),
    [
        (JPEGLosslessSV1, "pip install pylibjpeg pylibjpeg-libjpeg"),
        (JPEGLSLossless, "pip install pylibjpeg pylibjpeg-libjpeg"),
        (JPEG2000Lossless, "pip install pylibjpeg pylibjpeg-openjpeg"),
    ],
)
def test_compressed_pixels_name_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, syntax: Any, package: str
) -> None:
    from pydicom.pixels.decoders.base import Decoder

    monkeypatch.setattr(Decoder, "is_available", False)
    dataset = header(np.zeros((3, 3), np.int16))
    dataset.PixelData = encapsulate([b"\xff\xd8\xff\xd9"])
    dataset["PixelData"].VR = "OB"
    dataset.file_meta.TransferSyntaxUID = syntax
    save(tmp_path / "a.dcm", dataset)
    with pytest.raises(InputError, match=f"a.dcm: is compressed as JPEG.*{package}"):
        read(tmp_path, {})


def test_pixels_compressed_by_run_length_are_read(tmp_path: Path) -> None:
    dataset = header(np.arange(12, dtype=np.int16).reshape(3, 4))
    dataset.compress(RLELossless, generate_instance_uid=False)
    save(tmp_path / "a.dcm", dataset)
    assert np.array_equal(read(tmp_path, {}).array[..., 0].T, np.arange(12).reshape(3, 4))


def test_a_file_cut_short(tmp_path: Path) -> None:
    file = save(tmp_path / "a.dcm", header(np.zeros((64, 64), np.int16)))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"a.dcm: is damaged or cut short .*Copy"):
        read(tmp_path, {})


@pytest.mark.parametrize("name", ["none", "empty", "notes.dcm"])
def test_no_dicom(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.dcm").write_text("not an image")
    with pytest.raises(InputError, match=r"does not exist|holds no DICOM image"):
        Source(path=tmp_path / name, reader="dicom").read()


def test_a_picture_without_a_place(tmp_path: Path) -> None:
    pixels = np.arange(12, dtype=np.uint16).reshape(3, 4)
    bare = {"ImagePositionPatient": None, "ImageOrientationPatient": None, "PixelSpacing": None}
    plain = read(save(tmp_path / "a.dcm", header(pixels, **bare)), {})
    assert (plain.flat, plain.placed, plain.geometry.spacing) == (True, False, (1, 1, 1))
    assert np.array_equal(plain.array[..., 0], pixels.T)
    detector = read(save(tmp_path / "b.dcm", header(pixels, ImagerPixelSpacing=[0.2, 0.1], **bare)), {})
    assert (detector.placed, detector.geometry.spacing) == (True, (0.1, 0.2, 1))


def test_one_slice_is_a_volume_as_thick_as_it_says(tmp_path: Path) -> None:
    file = save(tmp_path / "a.dcm", header(np.zeros((3, 4), np.int16), SliceThickness=5))
    volume = read(file, {})
    assert volume.geometry.shape == (4, 3, 1)
    assert volume.geometry.spacing == (1, 1, 5)


def test_links_spaces_and_other_letters(tmp_path: Path) -> None:
    array = voxels()
    real = tmp_path / "größe 心臓 (1)"
    write_series(real, array)
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "series").symlink_to(real, target_is_directory=True)
    (real / "circle").symlink_to(tmp_path, target_is_directory=True)
    assert np.array_equal(source(folder).read().array, array)
    assert len(source(folder).files()) == array.shape[2]
    assert folders(folder) == (folder / "series",)


def test_a_folder_one_may_only_read(tmp_path: Path) -> None:
    array = voxels()
    write_series(tmp_path / "s", array)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "s").iterdir()}
    (tmp_path / "s").chmod(0o555)
    try:
        assert np.array_equal(source(tmp_path / "s").read().array, array)
    finally:
        (tmp_path / "s").chmod(0o755)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "s").iterdir()} == before


def test_the_axes_of_a_sagittal_series(tmp_path: Path) -> None:
    """Rows that run downwards along z: nothing is taken for axial."""
    write_series(tmp_path, voxels(), orientation=(0, 1, 0, 0, 0, -1))
    columns = np.array(read(tmp_path, {}).geometry.affine)[:3, :3]
    assert [int(np.argmax(np.abs(column))) for column in columns.T] == [1, 2, 0]
