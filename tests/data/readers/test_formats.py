"""NRRD, MATLAB, HDF5 and pictures: voxels and places, the layouts that people have, and what is said of broken files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from coranet.data.grid import mismatch, orientation_code
from coranet.data.readers import READERS, Source, Volume, label_source, nifti, source
from coranet.data.readers.hdf5 import datasets, find_key
from coranet.data.readers.mat import load_mat
from coranet.errors import InputError
from coranet.geometry import Geometry

SHAPE = (5, 4, 3)
ARRAY = np.arange(60, dtype=np.int16).reshape(SHAPE)


def write_nrrd(path: Path, array: NDArray[Any], *lines: str, encoding: str = "gzip", kind: str = "short") -> Path:
    """As the left atrium challenge writes them: the first axis is the fastest."""
    head = ["NRRD0004", "# a comment", f"type: {kind}", f"dimension: {array.ndim}", *lines]
    head += [f"sizes: {' '.join(map(str, array.shape))}", "endian: little", f"encoding: {encoding}"]
    content = array.tobytes(order="F")
    path.write_bytes("\n".join([*head, "", ""]).encode() + (gzip.compress(content) if encoding == "gzip" else content))
    return path


LPS = (
    "space: left-posterior-superior",
    "space directions: (0.625,0,0) (0,0.625,0) (0,0,1.25)",
    "kinds: domain domain domain",
    "space origin: (10,20,30)",
)


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_nrrd_lies_where_it_says(tmp_path: Path, encoding: str) -> None:
    volume = source(write_nrrd(tmp_path / "lgemri.nrrd", ARRAY, *LPS, encoding=encoding)).read()
    assert np.array_equal(volume.array, ARRAY)
    assert volume.array.dtype == np.int16
    np.testing.assert_allclose(
        volume.geometry.affine, [[-0.625, 0, 0, -10], [0, -0.625, 0, -20], [0, 0, 1.25, 30], [0, 0, 0, 1]]
    )


def test_nrrd_in_the_words_of_other_spaces(tmp_path: Path) -> None:
    codes = {}
    for space in ("right-anterior-superior", "RAS", "left-anterior-superior", "LPS"):
        lines = (f"space: {space}", *LPS[1:])
        codes[space] = orientation_code(source(write_nrrd(tmp_path / "a.nrrd", ARRAY, *lines)).read().geometry)
    assert codes == {"right-anterior-superior": "RAS", "RAS": "RAS", "left-anterior-superior": "LAS", "LPS": "LPS"}


def test_nrrd_with_swapped_axes(tmp_path: Path) -> None:
    lines = (LPS[0], "space directions: (0,0,2) (3,0,0) (0,-4,0)", LPS[3])
    geometry = source(write_nrrd(tmp_path / "a.nrrd", ARRAY, *lines)).read().geometry
    assert geometry.spacing == (2, 3, 4)
    assert orientation_code(geometry) == "SLA"


def test_nrrd_labels_of_0_and_255(tmp_path: Path) -> None:
    label = np.where(ARRAY > 30, 255, 0).astype(np.uint8)
    volume = label_source(write_nrrd(tmp_path / "laendo.nrrd", label, *LPS, kind="unsigned char")).read()
    assert np.array_equal(volume.array, label)


@pytest.mark.parametrize("nothing", [(), ("spacings: 1 1 1",)])
def test_nrrd_without_a_space_points_as_others_take_it(tmp_path: Path, nothing: tuple[str, ...]) -> None:
    geometry = source(write_nrrd(tmp_path / "a.nrrd", ARRAY, *nothing)).read().geometry
    assert np.diag(geometry.affine).tolist() == [-1, -1, 1, 1]


def test_nrrd_of_two_axes_and_of_another_byte_order(tmp_path: Path) -> None:
    flat = source(write_nrrd(tmp_path / "a.nrrd", ARRAY[..., 0], "spacings: 0.5 0.25")).read()
    assert (flat.flat, flat.geometry.spacing) == (True, (0.5, 0.25, 1))
    big = write_nrrd(tmp_path / "b.nrrd", ARRAY.astype(">i2"), *LPS, encoding="raw")
    big.write_bytes(big.read_bytes().replace(b"endian: little", b"endian: big"))
    assert np.array_equal(source(big).read().array, ARRAY)


def test_nrrd_keeps_line_ends_that_are_voxels(tmp_path: Path) -> None:
    array = np.frombuffer(b"\r\n\n\n" * 15, np.uint8).reshape(SHAPE)
    assert np.array_equal(
        source(write_nrrd(tmp_path / "a.nrrd", array, *LPS, encoding="raw", kind="uchar")).read().array, array
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LPS[0], "space directions: (nan,0,0) (0,1,0) (0,0,1)"), "no valid spacing.*Export"),
        ((LPS[0], "space directions: (0,0,0) (0,1,0) (0,0,1)"), "no valid spacing"),
        ((LPS[0], "space directions: (1,0,0) (0,1,0)"), "no valid spacing"),
        (("space: scanner-xyz", LPS[1]), "space 'scanner-xyz'. Save it"),
        (("data file: a.raw",), "keeps its voxels in another file"),
        (("byte skip: 10",), "without skips"),
    ],
)
def test_nrrd_that_cannot_be_placed(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=f"a.nrrd: .*{message}"):
        source(write_nrrd(tmp_path / "a.nrrd", ARRAY, *lines)).read()


def test_nrrd_that_is_broken(tmp_path: Path) -> None:
    whole = write_nrrd(tmp_path / "whole.nrrd", ARRAY, *LPS).read_bytes()
    four = write_nrrd(tmp_path / "four.nrrd", np.zeros((2, 5, 4, 3), np.int16))
    for name, content, message in (
        ("empty", b"", "is empty"),
        ("text", b"hello", "is not NRRD"),
        ("short", whole[:-20], "damaged or cut short"),
        ("header", whole[:60], "damaged|encoded|no stated type"),
        ("block", whole.replace(b"type: short", b"type: block"), "holds block"),
        ("four", four.read_bytes(), "has 4 axes.*Split channels"),
    ):
        (tmp_path / f"{name}.nrrd").write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.nrrd: .*({message})"):
            source(tmp_path / f"{name}.nrrd").read()


def test_mat_of_york(tmp_path: Path) -> None:
    """`sol_yxzt`: rows, columns, slices, frames; a cell array of outlines comes as it is."""
    cine = np.random.default_rng(0).integers(0, 255, (6, 5, 3, 4)).astype(np.int16)
    outlines = np.empty((3, 4), object)
    outlines[...] = [[np.full((65, 2), 1.0 * z + t) for t in range(4)] for z in range(3)]
    outlines[1, 2] = -99999.0
    savemat(tmp_path / "sol_yxzt_pat1.mat", {"sol_yxzt": cine})
    savemat(tmp_path / "manual_seg_32points_pat1.mat", {"manual_seg_32points": outlines})
    path = tmp_path / "sol_yxzt_pat1.mat"
    volume = Source(path=path, reader="mat", inside=(("key", "sol_yxzt"), ("frame", 2))).read()
    assert np.array_equal(volume.array, cine[..., 2].transpose(1, 0, 2))
    assert (volume.placed, volume.geometry.spacing) == (False, (1, 1, 1))
    stated = Source(path=path, reader="mat", inside=(("frame", 0), ("spacing", "1.5 1.5 8"))).read()
    assert (stated.placed, stated.geometry.spacing) == (True, (1.5, 1.5, 8))
    loaded = load_mat(tmp_path / "manual_seg_32points_pat1.mat")["manual_seg_32points"]
    assert loaded.shape == (3, 4)
    assert np.array_equal(loaded[2, 1], outlines[2, 1])
    assert loaded[1, 2].ravel().tolist() == [-99999]
    with pytest.raises(InputError, match=r"has 4 frames in time, of which none is meant"):
        source(path).read()


def test_mat_of_version_7_3_is_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "scan.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["scan"] = ARRAY.transpose(2, 1, 0)  # MATLAB's first axis is the fastest
        one, two = (
            file.create_dataset("#refs#/a", data=np.arange(6.0).reshape(2, 3)),
            file.create_dataset("#refs#/b", data=[0, 0]),
        )
        two.attrs["MATLAB_empty"] = 1
        file["cells"] = np.array([[one.ref], [two.ref]], h5py.ref_dtype)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    assert np.array_equal(source(path).read().array, ARRAY.swapaxes(0, 1))
    cells = load_mat(path)["cells"]
    assert cells.shape == (1, 2)
    assert np.array_equal(cells[0, 0], np.arange(6.0).reshape(2, 3).T)
    assert cells[0, 1].shape == (0, 0)


def test_mat_that_is_not_clear(tmp_path: Path) -> None:
    savemat(tmp_path / "two.mat", {"scan": ARRAY, "mask": ARRAY > 3})
    savemat(tmp_path / "none.mat", {"note": "text", "number": 3})
    (tmp_path / "bad.mat").write_bytes(b"MATLAB 5.0 MAT-file, but not really".ljust(200))
    for name, message in (
        ("two", "holds several images"),
        ("none", "holds no image"),
        ("bad", "is not MATLAB, damaged"),
    ):
        with pytest.raises(InputError, match=f"{name}.mat: {message}"):
            source(tmp_path / f"{name}.mat").read()
    assert Source(path=tmp_path / "two.mat", reader="mat", inside=(("key", "mask"),)).read().array.dtype == np.uint8


def write_h5(path: Path, **arrays: NDArray[Any]) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")
    return path


def test_h5_layouts_give_one_volume(tmp_path: Path) -> None:
    """SSL4MIS saves what SimpleITK gives, `(z, y, x)`; UA-MT `(x, y, z)`; a slice is `(y, x)`."""
    array = np.random.default_rng(0).random((30, 24, 5), np.float32)
    label = (array > 0.5).astype(np.uint8)
    acdc = write_h5(tmp_path / "patient001_frame01.h5", image=array.transpose(2, 1, 0), label=label.transpose(2, 1, 0))
    left_atrium = write_h5(tmp_path / "mri_norm2.h5", image=array, label=label)
    for path in (acdc, left_atrium):
        assert np.array_equal(source(path).read().array, array)
        assert np.array_equal(label_source(path).read().array, label)
        assert (source(path).read().placed, source(path).read().geometry.spacing) == (False, (1, 1, 1))
    one = write_h5(tmp_path / "patient001_frame01_slice_3.h5", image=array[..., 2].T, label=label[..., 2].T)
    volume = source(one).read()
    assert volume.flat
    assert np.array_equal(volume.array[..., 0], array[..., 2])
    said = Source(path=left_atrium, reader="h5", inside=(("axes", "yxz"), ("key", "label"))).read()
    assert np.array_equal(said.array, label.swapaxes(0, 1))


def test_h5_keys_as_people_name_them(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "a.h5", Img=ARRAY, **{"group/Mask": (ARRAY > 3).astype(np.uint8)})
    assert datasets(path) == {"Img": SHAPE, "group/Mask": SHAPE}
    assert (find_key(path, "image"), find_key(path, "label")) == ("Img", "group/Mask")
    assert np.array_equal(label_source(path).read().array, ARRAY > 3)
    unlabelled = write_h5(tmp_path / "b.hdf5", data=ARRAY)
    assert find_key(unlabelled, "label") is None
    with pytest.raises(InputError, match=r"b.hdf5: has no array label: it holds data. Call the image 'image'"):
        label_source(unlabelled).read()


def test_h5_that_is_broken(tmp_path: Path) -> None:
    whole = write_h5(tmp_path / "whole.h5", image=np.random.default_rng(0).random((40, 40, 40))).read_bytes()
    for name, content, message in (
        ("empty", b"", "is empty"),
        ("text", b"hello", "is not HDF5, damaged"),
        ("short", whole[: len(whole) // 2], "damaged"),
    ):
        (tmp_path / f"{name}.h5").write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.h5: .*{message}"):
            source(tmp_path / f"{name}.h5").read()
    with pytest.raises(InputError, match=r"has 4 axes .* a scan has 2 or 3. Save one scan"):
        source(write_h5(tmp_path / "four.h5", image=np.zeros((2, 3, 4, 5)))).read()
    with pytest.raises(InputError, match="not grey levels"):
        source(write_h5(tmp_path / "words.h5", image=np.array([[b"a"], [b"b"]]))).read()
    with pytest.raises(InputError, match=r"none.h5: does not exist"):
        source(tmp_path / "none.h5").read()


def test_npy_of_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "slice.npy", ARRAY[..., 0].T)
    np.save(tmp_path / "volume.npy", ARRAY)
    np.save(tmp_path / "four.npy", np.zeros((2, 2, 2, 2)))
    np.save(tmp_path / "pickled.npy", np.array([{}, []], object))
    (tmp_path / "text.npy").write_text("hello")
    assert np.array_equal(source(tmp_path / "slice.npy").read().array, ARRAY[..., :1])
    assert np.array_equal(source(tmp_path / "volume.npy").read().array, ARRAY)
    for name, message in (("four", "has 4 axes"), ("pickled", "damaged"), ("text", "is not NumPy's")):
        with pytest.raises(InputError, match=f"{name}.npy: .*{message}"):
            source(tmp_path / f"{name}.npy").read()


PICTURE = np.arange(0, 240, dtype=np.uint8).reshape(12, 20)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp", "a.TIFF", "größe 心臓.png"])
def test_a_grey_picture(tmp_path: Path, name: str) -> None:
    Image.fromarray(PICTURE).save(tmp_path / name)
    volume = source(tmp_path / name).read()
    assert np.array_equal(volume.array[..., 0], PICTURE.T)
    assert (volume.flat, volume.placed, volume.geometry.shape) == (True, False, (20, 12, 1))
    assert np.diag(volume.geometry.affine).tolist() == [-1, -1, 1, 1]


def test_pictures_in_other_modes(tmp_path: Path) -> None:
    rgb = np.repeat(PICTURE[..., None], 3, axis=-1)
    opaque = np.dstack([rgb, np.full_like(PICTURE, 255)])
    palette = Image.new("P", (20, 12))
    palette.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    palette.putdata((PICTURE % 3).ravel().tolist())
    grey = Image.fromarray(PICTURE).convert("P")
    for name, picture, expected in (
        ("rgb", Image.fromarray(rgb), PICTURE),
        ("rgba", Image.fromarray(opaque), PICTURE),
        ("deep", Image.fromarray(PICTURE.astype(np.uint16) * 200), PICTURE.astype(np.uint16) * 200),
        ("binary", Image.fromarray(PICTURE > 100), PICTURE > 100),
        ("classes", palette, PICTURE % 3),
        ("ramp", grey, PICTURE),
    ):
        picture.save(tmp_path / f"{name}.png")
        assert np.array_equal(source(tmp_path / f"{name}.png").read().array[..., 0], expected.T), name


def test_the_pages_of_a_tiff_are_slices(tmp_path: Path) -> None:
    pages = [Image.fromarray(PICTURE + page) for page in range(4)]
    pages[0].save(tmp_path / "stack.tif", save_all=True, append_images=pages[1:])
    volume = source(tmp_path / "stack.tif").read()
    assert not volume.flat
    assert np.array_equal(volume.array, np.stack([PICTURE.T + page for page in range(4)], axis=-1))


def test_a_picture_that_is_refused(tmp_path: Path) -> None:
    colour = np.repeat(PICTURE[..., None], 3, axis=-1)
    colour[0, 0, 0] = 200
    Image.fromarray(colour).save(tmp_path / "colour.png")
    Image.fromarray(PICTURE).save(tmp_path / "whole.png")
    (tmp_path / "short.png").write_bytes((tmp_path / "whole.png").read_bytes()[:-40])
    (tmp_path / "text.png").write_bytes(b"hello")
    (tmp_path / "empty.png").touch()
    for name, message in (
        ("colour", r"is in colour \(RGB\). Convert it to grey"),
        ("short", "is no picture, damaged or cut short"),
        ("text", "is no picture"),
        ("empty", "is empty"),
        ("none", "does not exist"),
    ):
        with pytest.raises(InputError, match=rf"^[^(]*{name}.png: {message}"):
            source(tmp_path / f"{name}.png").read()


def disc(size: int = 96) -> NDArray[np.bool_]:
    x, y = np.ogrid[:size, :size]
    return np.asarray((x - 40) ** 2 + (y - 50) ** 2 < 400)


@pytest.mark.parametrize("quality", [50, 75, 95])
def test_a_mask_saved_as_jpeg_is_cut_and_said(tmp_path: Path, quality: int) -> None:
    mask = disc()
    Image.fromarray(mask.astype(np.uint8) * 255).save(tmp_path / "mask.jpg", quality=quality)
    assert len(np.unique(np.asarray(Image.open(tmp_path / "mask.jpg")))) > 2
    volume = label_source(tmp_path / "mask.jpg").read()
    assert set(np.unique(volume.array)) == {0, 1}
    assert (volume.array[..., 0].T > 0).sum() == pytest.approx(mask.sum(), rel=0.01)
    assert "saved as JPEG" in str(volume.warnings[0])
    assert not source(tmp_path / "mask.jpg").read().warnings


def test_a_mask_of_0_and_255_is_one_of_0_and_1_and_a_picture_of_them_is_not(tmp_path: Path) -> None:
    Image.fromarray(disc().astype(np.uint8) * 255).save(tmp_path / "mask.png")
    assert set(np.unique(label_source(tmp_path / "mask.png").read().array)) == {0, 1}
    assert set(np.unique(source(tmp_path / "mask.png").read().array)) == {0, 255}
    Image.fromarray(disc().astype(np.uint8) * 3).save(tmp_path / "classes.png")
    assert set(np.unique(label_source(tmp_path / "classes.png").read().array)) == {0, 3}


def test_classes_that_jpeg_has_mixed_are_refused(tmp_path: Path) -> None:
    classes = disc().astype(np.uint8) * 120
    classes[:20] = 255
    Image.fromarray(classes).save(tmp_path / "mask.jpg")
    with pytest.raises(
        InputError, match=r"mask.jpg: is a mask saved as JPEG, which has mixed its classes. Save masks as PNG"
    ):
        label_source(tmp_path / "mask.jpg").read()


def test_a_file_is_known_by_its_name_or_its_beginning(tmp_path: Path) -> None:
    write_nrrd(tmp_path / "a.nrrd", ARRAY, *LPS).rename(tmp_path / "scan one")
    write_h5(tmp_path / "b.h5", image=ARRAY).rename(tmp_path / "b")
    Image.fromarray(PICTURE).save(tmp_path / "c.png")
    (tmp_path / "c.png").rename(tmp_path / "c")
    savemat(tmp_path / "d.mat", {"scan": ARRAY})
    (tmp_path / "d.mat").rename(tmp_path / "d.dat")
    (tmp_path / "link.png").symlink_to(tmp_path / "c")
    (tmp_path / "notes.txt").write_text("nothing")
    found = {path.name: source(path).reader for path in tmp_path.iterdir() if path.name != "notes.txt"}
    assert found == {"scan one": "nrrd", "b": "h5", "c": "image", "d.dat": "mat", "link.png": "image"}
    for path in tmp_path.iterdir():
        if path.name != "notes.txt":
            assert isinstance(source(path).read(), Volume)
    with pytest.raises(InputError, match=r"notes.txt: is of no format that is read \(.nii.gz, .*.png.*\)"):
        source(tmp_path / "notes.txt")
    with pytest.raises(InputError, match=r"gone: does not exist"):
        source(tmp_path / "gone")
    assert Source(path=tmp_path / "a.nii.gz").files() == (tmp_path / "a.nii.gz",)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(["a.nrrd", "a.h5", "a.mat", "a.png", "a.tif"]), data=st.data())
def test_any_damage_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / kind
    if kind == "a.nrrd":
        write_nrrd(path, ARRAY, *LPS)
    elif kind == "a.h5":
        write_h5(path, image=ARRAY)
    elif kind == "a.mat":
        savemat(path, {"scan": ARRAY}, do_compression=True)  # damage to others crashes SciPy itself
    else:
        Image.fromarray(PICTURE).save(path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    try:
        volume = source(path).read()
    except InputError:
        return
    assert volume.array.shape == volume.geometry.shape
    assert np.isfinite(volume.geometry.affine).all()


def test_the_spacing_beside_an_affine_of_one(tmp_path: Path) -> None:
    """ACDC's own files: the affine has voxels of 1 mm, the header says 1.5625 x 1.5625 x 10."""
    image = nib.Nifti1Image(ARRAY, np.diag([-1.0, -1.0, 1.0, 1.0]))
    image.header["pixdim"][1:4] = (1.5625, 1.5625, 10)
    image.header["qform_code"] = 0
    (tmp_path / "a.nii").write_bytes(image.to_bytes())
    assert nib.load(tmp_path / "a.nii").affine[2, 2] == 1
    volume = nifti.read(tmp_path / "a.nii")
    assert np.diag(volume.geometry.affine).tolist() == [-1.5625, -1.5625, 10, 1]
    assert "1.5625 x 1.5625 x 10 mm" in str(volume.warnings[0])
    nifti.write(tmp_path / "b.nii", volume.array, volume.geometry)
    assert mismatch(nifti.read(tmp_path / "b.nii").geometry, volume.geometry) == ""
    assert not nifti.read(tmp_path / "b.nii").warnings


def test_a_frame_of_four_axes(tmp_path: Path) -> None:
    four = np.arange(120, dtype=np.int16).reshape(5, 4, 3, 2)
    nib.save(nib.Nifti1Image(four, np.diag([2.0, 3, 4, 1])), tmp_path / "a.nii.gz")
    for name in ("frame", "channel"):
        volume = Source(path=tmp_path / "a.nii.gz", inside=((name, 1),)).read()
        assert np.array_equal(volume.array, four[..., 1])
        assert volume.geometry.spacing == (2, 3, 4)
    with pytest.raises(InputError, match="has 2 frames, not frame 2"):
        Source(path=tmp_path / "a.nii.gz", inside=(("frame", 2),)).read()


def test_capitals_in_an_ending(tmp_path: Path) -> None:
    geometry = Geometry(shape=SHAPE, affine=tuple(tuple(row) for row in np.eye(4).tolist()))
    nifti.write(tmp_path / "a.nii.gz", ARRAY, geometry)
    (tmp_path / "a.nii.gz").rename(tmp_path / "A.NII.GZ")
    assert np.array_equal(source(tmp_path / "A.NII.GZ").read().array, ARRAY)


def test_every_format_has_a_row() -> None:
    assert list(READERS)[:7] == ["nifti", "nrrd", "dicom", "h5", "mat", "npy", "image"]
