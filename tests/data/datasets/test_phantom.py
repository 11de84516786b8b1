"""The phantom: one seed one patient, anatomy as promised, image and label aligned, a folder that hides labels."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from coranet.data.datasets import phantom as module
from coranet.data.datasets.phantom import LABELS, Phantom, write_folder
from coranet.errors import InputError

RV, MYO, LV = LABELS["RV"], LABELS["Myo"], LABELS["LV"]
NEIGHBOURS = np.ones((3, 3, 1), bool)
PLAIN = Phantom(noise=(0, 0), texture=(0, 0), coil=(0, 0), gamma=(1, 1), gain=(1, 1), papillary=(0, 0))
FEW = range(12)


@cache
def patient(index: int) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    image, label, _ = Phantom().patient(3, index)
    return image, label


def eroded(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return ndimage.binary_erosion(mask, NEIGHBOURS)


def test_same_seed_and_index_give_the_same_bytes_in_any_order() -> None:
    forwards = [Phantom(shape=(48, 48, 3)).patient(7, index) for index in (0, 1, 2)]
    backwards = [Phantom(shape=(48, 48, 3)).patient(7, index) for index in (2, 1, 0)][::-1]
    for (image, label, geometry), (image_again, label_again, geometry_again) in zip(forwards, backwards, strict=True):
        assert image.tobytes() == image_again.tobytes()
        assert label.tobytes() == label_again.tobytes()
        assert geometry == geometry_again


@pytest.mark.parametrize("other", [(7, 1), (8, 0)], ids=["index", "seed"])
def test_another_index_or_seed_is_another_patient(other: tuple[int, int]) -> None:
    ph = Phantom(shape=(48, 48, 3))
    (image, label, geometry), (image_other, label_other, geometry_other) = ph.patient(7, 0), ph.patient(*other)
    assert np.corrcoef(image.ravel(), image_other.ravel())[0, 1] < 0.9
    assert (label != label_other).any()
    assert geometry != geometry_other


@settings(deadline=None, max_examples=15)
@given(
    shape=st.tuples(st.integers(64, 112), st.integers(64, 112), st.integers(1, 6)),
    variation=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_every_patient_is_a_valid_scan_with_all_classes(
    shape: tuple[int, int, int], variation: float, seed: int
) -> None:
    image, label, geometry = Phantom(shape=shape, variation=variation).patient(seed, 0)
    assert image.shape == label.shape == geometry.shape == shape
    assert image.dtype == np.float32
    assert label.dtype == np.uint8
    assert image.flags.c_contiguous
    assert label.flags.c_contiguous
    assert np.isfinite(image).all()
    assert image.min() >= 0
    assert set(np.unique(label)) == {0, RV, MYO, LV}


@pytest.mark.parametrize("index", FEW)
def test_the_ring_encloses_the_cavity_and_the_crescent_hugs_the_ring(index: int) -> None:
    _, label = patient(index)
    cavity, crescent = label == LV, label == RV
    assert set(label[ndimage.binary_dilation(cavity, NEIGHBOURS)]) == {MYO, LV}
    for z in np.flatnonzero(cavity.any(axis=(0, 1))):
        ring = label[..., z] == MYO
        assert (ndimage.binary_fill_holes(ring) == ring | cavity[..., z]).all()
    for z in np.flatnonzero(crescent.any(axis=(0, 1))):
        beside_ring = ndimage.binary_dilation(label[..., z] == MYO) & crescent[..., z]
        assert beside_ring.sum() >= 3


def test_hearts_taper_and_end_within_the_volume() -> None:
    areas = np.array([[[(patient(i)[1][..., z] == c).sum() for z in range(8)] for c in (RV, MYO, LV)] for i in FEW])
    slices = (areas > 0).sum(axis=2)
    assert (areas.sum(axis=1) == 0).any(axis=1).mean() > 0.5, "empty slices above the base or below the apex"
    assert (slices[:, 0] <= slices[:, 1]).all()
    assert (slices[:, 0] < slices[:, 1]).mean() > 0.5, "the crescent ends before the ring"
    for cavity in areas[:, 2]:
        seen = cavity[cavity > 0]
        assert seen[-1] < 0.7 * seen[0]


def test_blood_is_brighter_than_myocardium() -> None:
    for image, label in map(patient, FEW):
        cavity, ring = image[eroded(label == LV)], image[eroded(label == MYO)]
        assert cavity.mean() > ring.mean()


def test_what_surrounds_the_heart_is_as_bright_as_what_is_in_it() -> None:
    for image, label in map(patient, FEW):
        outside = image[~ndimage.binary_dilation(label > 0, NEIGHBOURS, iterations=2)]
        assert (outside > image[label == LV].mean()).mean() > 0.01
        assert (np.abs(outside - image[label == MYO].mean()) < image[label == MYO].std()).mean() > 0.1


@pytest.mark.parametrize("index", range(4))
def test_label_lies_where_the_image_says(index: int) -> None:
    """The blood's share of a voxel, read back from a plain image, has the centroid and the volume of the label."""
    image, label, _ = replace(PLAIN, blur=(0, 0)).patient(3, index)
    z = int((label == LV).sum(axis=(0, 1)).argmax())
    image, label = image[..., z], label[..., z]
    heart = ndimage.binary_dilation(label == LV, iterations=2)
    blood, muscle = (np.median(image[ndimage.binary_erosion(label == c)]) for c in (LV, MYO))
    share = np.where(heart, (image - muscle) / (blood - muscle), 0)
    assert share.min() > -0.01
    assert share.max() < 1.01
    found, expected = ndimage.center_of_mass(share), ndimage.center_of_mass(label == LV)
    np.testing.assert_allclose(found, expected, atol=0.1)
    assert share.sum() == pytest.approx((label == LV).sum(), rel=0.03)


def test_noise_and_appearance_leave_the_anatomy_alone() -> None:
    noisy, plain = Phantom(shape=(64, 64, 2)), Phantom(shape=(64, 64, 2), noise=(0, 0), contrast=(0.4, 0.4))
    assert (noisy.patient(1, 5)[1] == plain.patient(1, 5)[1]).all()


def test_noise_is_rician_with_the_sigma_that_was_asked_for() -> None:
    """In a signal far above the noise it is Gaussian; where there is no signal its mean is sigma * sqrt(pi / 2)."""
    sigma, clean = 0.05, replace(PLAIN, shape=(64, 64, 4), lung=(0, 0))
    signal, label, _ = clean.patient(1, 2)
    noise = replace(clean, noise=(sigma, sigma)).patient(1, 2)[0] - signal
    assert noise[label == LV].std() == pytest.approx(sigma, rel=0.1)
    dark = signal < 1e-3
    assert dark.sum() > 500
    assert noise[dark].mean() == pytest.approx(sigma * np.sqrt(np.pi / 2), rel=0.05)


def test_variation_spreads_patients() -> None:
    def spread(variation: float) -> tuple[float, float]:
        patients = [Phantom(shape=(48, 48, 1), variation=variation).patient(0, index)[:2] for index in range(16)]
        centres = np.array([ndimage.center_of_mass(label == LV)[:2] for _, label in patients])
        return float(centres.std(axis=0).mean()), float(np.std([image.mean() for image, _ in patients]))

    none, half, full = map(spread, (0.0, 0.5, 1.0))
    assert none[0] < half[0] < full[0]
    assert none[1] < half[1] < full[1]


def test_fields_have_unit_variance_everywhere_and_are_smooth() -> None:
    rng = np.random.default_rng(0)
    fields = np.stack([module._field(rng, (3, 40, 20), (2, 5, 4)) for _ in range(3000)])
    np.testing.assert_allclose(fields.var(axis=0), 1, atol=0.15)
    assert np.abs(np.diff(fields, axis=2)).mean() < 0.15


def test_folder_shows_labels_of_labelled_patients_only(tmp_path: Path) -> None:
    ph = Phantom(shape=(24, 20, 2))
    root = write_folder(tmp_path / "set", ph, seed=4, labelled=2, unlabelled=3, test=1)
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    images = {f"imagesTr/phantom_00{i}_0000.nii.gz" for i in range(5)} | {"imagesTs/phantom_005_0000.nii.gz"}
    truths = {f"labelsTr/phantom_00{i}.nii.gz" for i in (0, 1)} | {"labelsTs/phantom_005.nii.gz"}
    hidden = {f"labelsHidden/phantom_00{i}.nii.gz" for i in (2, 3, 4)}
    assert files == images | truths | hidden | {"dataset.json"}

    about = json.loads((root / "dataset.json").read_text())
    assert about["channel_names"] == {"0": "MRI"}
    assert about["labels"] == {"background": 0, "RV": 1, "Myo": 2, "LV": 3}
    assert about["file_ending"] == ".nii.gz"

    image, label, geometry = ph.patient(4, 3)
    stored = nibabel.load(root / "imagesTr/phantom_003_0000.nii.gz")
    np.testing.assert_allclose(np.asanyarray(stored.dataobj), image, rtol=1e-6)
    np.testing.assert_allclose(stored.header.get_zooms(), geometry.spacing, rtol=1e-6)
    np.testing.assert_array_equal(np.asanyarray(nibabel.load(root / "labelsHidden/phantom_003.nii.gz").dataobj), label)


def test_folder_that_holds_a_dataset_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(InputError, match="already holds a dataset"):
        write_folder(tmp_path, Phantom(), seed=0, labelled=1, unlabelled=0, test=0)
