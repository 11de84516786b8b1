"""Predictions lie on the input's own grid, whatever that is, and carry what was asked for."""

import json
import sys
from io import BytesIO

import h5py
import nibabel as nib
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

import coranet
from coranet.data.grid import mismatch
from coranet.data.prepare.cases import Preparation
from coranet.data.readers import nifti, source
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.launch import train
from tests import dicoms


@pytest.fixture(scope="module")
def trained(finished):
    return coranet.load(finished, "cpu")


def test_files(trained, scans, tmp_path):
    names = trained.predict_files(scans / "imagesTs", tmp_path / "out", probabilities=True, masks=True)
    assert list(names) == ["phantom_007", "phantom_008"]
    kinds = ["", "_conservative", "_probabilities", "_radical", "_score", "_uncertain"]
    expected = sorted(["dataset.json", *(f"{name}{kind}.nii.gz" for name in names for kind in kinds)])
    assert json.loads((tmp_path / "out/dataset.json").read_text())["labels"] == {
        name: value for value, name in trained.classes.items()
    }
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == expected
    scan = nib.load(scans / "imagesTs/phantom_007_0000.nii.gz")
    for kind in ("", "_uncertain"):
        written = nib.load(tmp_path / f"out/phantom_007{kind}.nii.gz")
        assert written.shape == scan.shape
        np.testing.assert_array_equal(written.affine, scan.affine)
    label = np.asarray(nib.load(tmp_path / "out/phantom_007.nii.gz").dataobj)
    soft = np.asarray(nib.load(tmp_path / "out/phantom_007_probabilities.nii.gz").dataobj)
    assert soft.shape == (*scan.shape, 4)
    np.testing.assert_allclose(soft.sum(-1), 1, atol=4 / 65535)
    np.testing.assert_array_equal(soft.argmax(-1), label)
    masks = [
        np.asarray(nib.load(tmp_path / f"out/phantom_007_{kind}.nii.gz").dataobj)
        for kind in ("conservative", "radical")
    ]
    uncertain = np.asarray(nib.load(tmp_path / "out/phantom_007_uncertain.nii.gz").dataobj)
    assert (uncertain[(masks[0] > 0) != (masks[1] > 0)] == 1).all()


def test_what_was_found_is_measured(trained, scans, tmp_path):
    sizes = trained.predict_files(scans / "imagesTs", tmp_path, only=["phantom_007"])["phantom_007"].sizes
    written = nib.load(tmp_path / "phantom_007.nii.gz")
    labels, millilitre = np.asarray(written.dataobj), np.prod(written.header.get_zooms()[:3]) / 1000
    assert sizes == {
        name: pytest.approx((labels == value).sum() * millilitre) for value, name in trained.classes.items() if value
    }
    assert any(sizes.values())


def test_only_some_of_the_files(trained, scans, tmp_path):
    assert list(trained.predict_files(scans / "imagesTs", tmp_path, only=["phantom_008"])) == ["phantom_008"]
    assert not list(tmp_path.glob("phantom_007*"))
    with pytest.raises(InputError, match="lacks 1 of the 1 cases asked for: phantom_099"):
        trained.predict_files(scans / "imagesTs", tmp_path, only=["phantom_099"])


@pytest.mark.parametrize("axes", [("R", "A", "S"), ("L", "P", "S"), ("A", "S", "R"), ("P", "R", "I")])
def test_a_turned_scan_gets_the_same_answer(trained, scans, tmp_path, axes):
    scan = nib.load(scans / "imagesTs/phantom_007_0000.nii.gz")
    turn = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(scan.affine), nib.orientations.axcodes2ornt(axes)
    )
    turned = scan.as_reoriented(turn)
    nib.save(turned, tmp_path / "turned.nii.gz")
    straight = trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    answer = trained.predict(tmp_path / "turned.nii.gz")
    assert answer.label.shape == turned.shape
    back = nib.orientations.ornt_transform(nib.orientations.axcodes2ornt(axes), nib.orientations.axcodes2ornt("RAS"))
    np.testing.assert_array_equal(nib.orientations.apply_orientation(answer.label, back), straight.label)
    np.testing.assert_array_equal(nib.orientations.apply_orientation(answer.uncertain, back), straight.uncertain)


def turned_scan(scans, file, axes="LPI"):
    """A scan that lies otherwise than an array would be taken to, with voxels that are no cubes."""
    scan = nib.load(scans / "imagesTs/phantom_007_0000.nii.gz")
    turn = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(scan.affine), nib.orientations.axcodes2ornt(axes)
    )
    nib.save(scan.as_reoriented(turn), file)
    return nib.load(file)


def assert_same(one, other):
    np.testing.assert_array_equal(one.label, other.label)
    np.testing.assert_array_equal(one.uncertain, other.uncertain)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    np.testing.assert_array_equal(one.score, other.score)


@pytest.mark.parametrize("axes", ["RAS", "LPI", "PSR"])
def test_an_image_in_memory_is_predicted_as_its_file_to_the_bit(trained, scans, tmp_path, axes):
    image = turned_scan(scans, tmp_path / "scan.nii.gz", axes)
    from_file = trained.predict(tmp_path / "scan.nii.gz")
    array = np.asarray(image.dataobj)
    assert_same(trained.predict(image), from_file)
    assert_same(trained.predict(nib.Nifti1Image(array, image.affine)), from_file)
    assert_same(trained.predict(array, affine=image.affine), from_file)
    assert_same(trained.predict(array, spacing=image.header.get_zooms(), axes=axes), from_file)
    assert set(trained.classes.values()) == {"background", "RV", "Myo", "LV"}


def test_an_image_with_scaled_grey_levels_is_predicted_as_its_file(trained, scans, tmp_path):
    scan = nib.load(scans / "imagesTs/phantom_007_0000.nii.gz")
    image = nib.Nifti1Image(np.asarray(scan.dataobj), scan.affine)
    image.set_data_dtype(np.int16)
    nib.save(image, tmp_path / "scaled.nii.gz")
    stored = nib.load(tmp_path / "scaled.nii.gz")
    assert stored.dataobj.slope != 1
    assert_same(trained.predict(stored), trained.predict(tmp_path / "scaled.nii.gz"))


class PretendedImage:
    """What SimpleITK's images say of themselves: axes x, y, z in a world that points to the left and to the back."""

    def __init__(self, image):
        directions = np.diag([-1.0, -1, 1]) @ (image.affine[:3, :3] / image.header.get_zooms())
        self.array, self.spacing = np.asarray(image.dataobj), [float(zoom) for zoom in image.header.get_zooms()]
        self.direction, self.origin = directions.ravel().tolist(), (np.diag([-1, -1, 1]) @ image.affine[:3, 3]).tolist()

    def GetSize(self):
        return self.array.shape

    def GetDirection(self):
        return self.direction

    def GetSpacing(self):
        return self.spacing

    def GetOrigin(self):
        return self.origin


def GetArrayViewFromImage(image):
    return image.array.transpose()


def test_an_image_of_simpleitk_is_predicted_as_its_file(trained, scans, tmp_path):
    image = turned_scan(scans, tmp_path / "scan.nii.gz", "ASR")
    from_file = trained.predict(tmp_path / "scan.nii.gz")
    pretended = PretendedImage(image)
    pretended.__class__.__module__ = "pretended_simpleitk"
    sys.modules["pretended_simpleitk"] = sys.modules[__name__]
    try:
        np.testing.assert_array_equal(trained.predict(pretended).label, from_file.label)
    finally:
        del sys.modules["pretended_simpleitk"]


def test_a_real_image_of_simpleitk_is_predicted_as_its_file(trained, scans, tmp_path):
    library = pytest.importorskip("SimpleITK")
    turned_scan(scans, tmp_path / "scan.nii.gz", "ASR")
    image = library.ReadImage(str(tmp_path / "scan.nii.gz"))
    np.testing.assert_array_equal(trained.predict(image).label, trained.predict(tmp_path / "scan.nii.gz").label)


@pytest.mark.parametrize("space", ["RAS", "LPS"])
def test_a_tensor_of_monai_is_predicted_as_its_file(trained, scans, tmp_path, space):
    library = pytest.importorskip("monai.data")
    image = turned_scan(scans, tmp_path / "scan.nii.gz", "ASR")
    affine = np.diag([-1.0, -1, 1, 1]) @ image.affine if space == "LPS" else image.affine
    tensor = library.MetaTensor(torch.as_tensor(np.asarray(image.dataobj)[None].copy()), affine=affine)
    tensor.meta["space"] = space
    assert_same(trained.predict(tensor), trained.predict(tmp_path / "scan.nii.gz"))
    with pytest.raises(InputError, match="says itself where it lies"):
        trained.predict(tensor, affine=np.eye(4))


@pytest.mark.parametrize("axes", ["RAS", "ASR", "LPI"])
def test_an_answer_shows_itself_upright(trained, scans, tmp_path, axes):
    turned_scan(scans, tmp_path / "scan.nii.gz", axes)
    shown = trained.predict(tmp_path / "scan.nii.gz")._repr_png_()
    straight = trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz")._repr_png_()
    pixels, expected = (np.asarray(Image.open(BytesIO(content)).convert("RGB")) for content in (shown, straight))
    np.testing.assert_array_equal(pixels, expected)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50


def test_an_answer_that_nobody_draws_shows_nothing(finished, scans):
    trained = Trained.load(finished, torch.device("cpu"))
    assert trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz")._repr_png_() is None


def test_an_array_that_does_not_say_where_it_lies_is_refused(trained, scans, tmp_path):
    image = turned_scan(scans, tmp_path / "scan.nii.gz")
    array = np.asarray(image.dataobj)
    for given in ({}, {"spacing": (1, 1, 1)}, {"axes": "RAS"}):
        with pytest.raises(InputError, match="does not say where its voxels lie"):
            trained.predict(array, **given)
    for given, message in (
        ({"affine": np.eye(3)}, "4 x 4 numbers, not of 3 x 3"),
        ({"affine": np.zeros((4, 4))}, "no valid spacing"),
        ({"affine": np.eye(4), "axes": "RAS"}, "says spacing and axes already"),
        ({"spacing": (1, 1, 1), "axes": "RLS"}, 'axes="RLS"'),
        ({"spacing": (1, 1, 1), "axes": "xyz"}, "where it points"),
        ({"spacing": (1, 1), "axes": "RAS"}, "2 numbers"),
    ):
        with pytest.raises(InputError, match=message):
            trained.predict(array, **given)
    for said in (image, tmp_path / "scan.nii.gz"):
        with pytest.raises(InputError, match="says itself where it lies"):
            trained.predict(said, affine=np.eye(4))


def test_stored_probabilities_are_small_and_come_back(trained, scans, tmp_path):
    trained.predict_files(scans / "imagesTs", tmp_path, only=["phantom_007"], probabilities=True)
    file = tmp_path / "phantom_007_probabilities.nii.gz"
    exact = trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz").probabilities
    assert nib.load(file).get_data_dtype() == np.uint16
    for value in trained.classes:
        ours = nifti.read(file, {"channel": value}).array
        np.testing.assert_allclose(ours, exact[value], rtol=0, atol=1 / 65535)
    np.testing.assert_allclose(np.moveaxis(nib.load(file).get_fdata(), -1, 0), exact, rtol=0, atol=1 / 65535)


def test_one_series_of_a_folder_is_chosen(trained, scans, tmp_path):
    volume = nifti.read(scans / "imagesTs/phantom_007_0000.nii.gz")
    grey = np.rint(volume.array * 100 / volume.array.std()).astype(np.int16)
    dicoms.write_series(tmp_path / "study/a", grey, SeriesInstanceUID="1.2.30", SeriesNumber=3)
    dicoms.write_series(tmp_path / "study/b", grey[::-1], SeriesInstanceUID="1.2.40", SeriesNumber=4, seed=2)
    dicoms.write_series(tmp_path / "mixed", grey, SeriesInstanceUID="1.2.30", SeriesNumber=3)
    dicoms.write_series(tmp_path / "mixed/more", grey[::-1], SeriesInstanceUID="1.2.40", SeriesNumber=4, seed=2)
    with pytest.raises(InputError, match=r"number 4.*1\.2\.40.*predict --series"):
        trained.predict_files(tmp_path / "mixed", tmp_path / "out")
    expected = {"3": trained.predict(tmp_path / "study/a"), "1.2.40": trained.predict(tmp_path / "study/b")}
    assert not np.array_equal(expected["3"].label, expected["1.2.40"].label)
    for folder in ("study", "mixed"):
        for chosen, answer in expected.items():
            assert list(trained.predict_files(tmp_path / folder, tmp_path / "out", series=chosen)) == [folder]
            np.testing.assert_array_equal(nifti.read(tmp_path / f"out/{folder}.nii.gz").array, answer.label)
    with pytest.raises(InputError, match="none of them 7"):
        trained.predict_files(tmp_path / "mixed", tmp_path / "out", series="7")
    with pytest.raises(InputError, match="holds no DICOM to choose a series from"):
        trained.predict_files(scans / "imagesTs", tmp_path / "out", series="3")


def test_without_uncertainty_the_extra_heads_are_neither_run_nor_counted(finished, scans, tmp_path, trained):
    alone = Trained.load(finished, torch.device("cpu"), uncertainty=False)
    assert set(alone.predictor.segmenter.net.heads) == {"main"}
    assert alone.parameters < trained.parameters
    alone.predict_files(scans / "imagesTs", tmp_path)
    assert not list(tmp_path.glob("*_uncertain*"))
    answer = alone.predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    assert answer.uncertain is None
    np.testing.assert_array_equal(answer.label, trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz").label)


def test_methods_without_heads_mark_low_confidence(scans, small, tmp_path):
    run = train(scans, tmp_path / "run", small(method="supervised", steps=2))
    answer = coranet.load(run, "cpu").predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    np.testing.assert_array_equal(answer.uncertain == 1, answer.probabilities.max(axis=0) <= 0.9)


def test_scores_are_those_of_the_input_s_grid(scans, small, tmp_path):
    """A run on a resized grid still answers on the scan's own."""
    run = train(scans, tmp_path / "run", small(preset="paper", steps=1, overrides=(("data.window.size", "[64, 64]"),)))
    prepared = Run.read(run).data.preparation
    assert Preparation(**{key: tuple(v) if isinstance(v, list) else v for key, v in prepared.items()}).size == (
        256,
        256,
        None,
    )
    answer = coranet.load(run, "cpu").predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    assert answer.label.shape == answer.uncertain.shape == (32, 32, 3)
    np.testing.assert_allclose(answer.probabilities.sum(axis=0), 1, atol=1e-5)


def test_bad_input(trained, scans, tmp_path):
    with pytest.raises(InputError, match="trained on 1 channels; the scan has 2"):
        trained.predict(np.zeros((2, 8, 8, 3)), affine=np.eye(4))
    with pytest.raises(InputError, match="holds the scans themselves"):
        trained.predict_files(scans / "imagesTs", scans / "imagesTs")
    with pytest.raises(InputError, match="does not exist"):
        trained.predict_files(tmp_path / "none", tmp_path / "out")
    (tmp_path / "broken.nii.gz").write_bytes(b"no")
    with pytest.raises(InputError, match=r"broken.nii.gz"):
        trained.predict_files(tmp_path / "broken.nii.gz", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    with pytest.raises(InputError, match="cannot be made"):
        trained.predict_files(scans / "imagesTs", tmp_path / "broken.nii.gz" / "out")


def the_same_scan(scans, folder):
    """A scan as NIfTI, and as a DICOM folder, NRRD, HDF5, MATLAB and a TIFF: all turned to LPS, as those formats are."""
    volume = nifti.read(scans / "imagesTs/phantom_007_0000.nii.gz")
    grey = np.rint(volume.array * 100 / volume.array.std()).astype(np.int16)
    x, y, z = volume.geometry.spacing
    folder.mkdir()
    nifti.write(folder / "plain.nii.gz", grey, volume.geometry)
    turned = grey[::-1, ::-1]
    origin = ((1 - grey.shape[0]) * x, (1 - grey.shape[1]) * y, 0.0)
    dicoms.write_series(folder / "series 7/é", turned, spacing=(x, y, z), origin=origin)
    head = f"NRRD0004\ntype: short\ndimension: 3\nspace: left-posterior-superior\nsizes: {' '.join(map(str, grey.shape))}\n"
    head += f"space directions: ({x},0,0) (0,{y},0) (0,0,{z})\nspace origin: ({origin[0]},{origin[1]},0)\n"
    (folder / "a.nrrd").write_bytes(f"{head}encoding: raw\nendian: little\n\n".encode() + turned.tobytes(order="F"))
    with h5py.File(folder / "a.h5", "w") as file:
        file["image"] = turned.transpose(2, 1, 0)
    savemat(folder / "a.mat", {"scan": turned.swapaxes(0, 1)})
    pages = [Image.fromarray(page.astype(np.uint16)) for page in (turned - turned.min()).transpose(2, 1, 0)]
    pages[0].save(folder / "a.tif", save_all=True, append_images=pages[1:])
    return folder


def test_every_format_gets_the_same_answer_on_its_own_grid(trained, scans, tmp_path):
    folder = the_same_scan(scans, tmp_path / "scans")
    plain = trained.predict(folder / "plain.nii.gz").label
    assert len(np.unique(plain)) > 1
    for name, case in (
        ("series 7", "series 7"),
        ("series 7/é", "é"),
        *((f"a.{end}", "a") for end in ("nrrd", "h5", "mat", "tif")),
    ):
        out = tmp_path / f"out-{name.replace('/', '-')}"
        assert list(trained.predict_files(folder / name, out)) == [case]
        written, volume = nifti.read(out / f"{case}.nii.gz"), source(folder / name).read()
        np.testing.assert_array_equal(written.array[::-1, ::-1], plain)
        assert mismatch(written.geometry, volume.geometry) == ""
    there = nifti.read(folder / "plain.nii.gz").geometry
    for name in ("out-series 7/series 7", "out-a.nrrd/a"):
        here = nifti.read(tmp_path / f"{name}.nii.gz").geometry
        back = np.diag([-1.0, -1, 1, 1])
        back[:2, 3] = np.array(here.shape[:2]) - 1
        np.testing.assert_allclose(np.array(here.affine) @ back, there.affine, atol=1e-3)


def test_a_picture_is_predicted_as_a_slice(trained, scans, tmp_path):
    volume = nifti.read(scans / "imagesTs/phantom_007_0000.nii.gz")
    grey = (255 * volume.array[..., 1] / volume.array.max()).astype(np.uint8)
    (tmp_path / "in").mkdir()
    for name in ("one", "zwei ü"):
        Image.fromarray(grey[::-1, ::-1].T).save(tmp_path / f"in/{name}.png")
    assert list(trained.predict_files(tmp_path / "in", tmp_path / "out")) == ["one", "zwei ü"]
    written = nib.load(tmp_path / "out/zwei ü.nii.gz")
    assert written.shape == (32, 32)
    np.testing.assert_array_equal(
        np.asarray(written.dataobj)[::-1, ::-1], trained.predict(grey, spacing=(1, 1), axes="RA").label[..., 0]
    )


def test_cases_of_a_known_layout_are_predicted_by_their_names(finished, scans, tmp_path):
    """Two forms of one set: names, axes and what is a scan are the dataset's to say."""
    for number in (7, 8):
        volume = nifti.read(scans / f"imagesTs/phantom_00{number}_0000.nii.gz")
        folder = tmp_path / "raw" / f"CASE{number}"
        folder.mkdir(parents=True)
        with h5py.File(folder / "mri_norm2.h5", "w") as file:
            file["image"], file["label"] = volume.array, np.zeros(volume.array.shape, np.uint8)
    trained = coranet.load(finished, "cpu")
    found = trained.predict_files(tmp_path / "raw", tmp_path / "out", dataset="left_atrium")
    assert sorted(found) == ["CASE7", "CASE8"]
    assert {file.name for file in (tmp_path / "out").glob("CASE?.nii.gz")} == {"CASE7.nii.gz", "CASE8.nii.gz"}


def test_a_store_is_not_predicted_from(finished, cache, tmp_path):
    store = next(path.parent for path in cache.rglob("index.json"))
    with pytest.raises(InputError, match=r"is a prepared store\. Give the folder it was made of"):
        coranet.load(finished, "cpu").predict_files(store, tmp_path / "out")


def test_the_label_of_a_scan_is_written_after_all_that_goes_with_it(finished, scans, tmp_path, monkeypatch):
    """Who finds it, finds the rest: `coranet review` beside a prediction that is still at work."""
    written = []
    scan = nifti.read(scans / "imagesTs/phantom_007_0000.nii.gz")
    monkeypatch.setattr(
        "coranet.engine.prediction.answer.write", lambda file, *given, **named: written.append(file.name)
    )
    answer = Trained.load(finished, torch.device("cpu")).predict_volumes([scan], scores=True)
    files = answer.write(tmp_path, "a", scan.geometry, masks=True)
    assert files[0].name == written[-1] == "a.nii.gz"
    assert {file.name for file in files} == set(written) > {"a_uncertain.nii.gz", "a_conservative.nii.gz"}
