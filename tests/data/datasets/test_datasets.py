"""Published sets as they are handed out, made small here with their traits: what is found, what is said, what is read."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat
from scipy.ndimage import gaussian_filter

from coranet.data.datasets import DATASETS, read_dataset, survey_dataset
from coranet.data.datasets.folder import Case, Dataset
from coranet.data.doctor.inspection import inspect_folder
from coranet.data.prepare.cases import Preparation, prepare_case
from coranet.data.prepare.recipes import find_recipe
from coranet.data.prepare.store_builder import allow_gaps, build_store
from coranet.data.problem import Problem
from coranet.data.readers import source
from coranet.data.store import Store
from coranet.errors import InputError
from tests.data.readers.test_contours import both, circle, york
from tests.dicoms import header, save, write_series

PLAIN = Preparation(intensity="none")
PICTURED = np.diag([-1.0, -1.0, 1.0, 1.0])
"""How files lie that state no geometry."""


def nifti(path: Path, array: NDArray[Any], affine: NDArray[np.float64] = PICTURED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, affine), path)
    return path


def scan(seed: int = 0, shape: tuple[int, int, int] = (20, 16, 6)) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    random = np.random.default_rng(seed)
    return random.normal(size=shape).astype(np.float32), random.integers(0, 4, shape).astype(np.uint8)


def by_name(dataset: Dataset) -> dict[str, Case]:
    return {case.name: case for case in dataset.cases}


def found(root: Path, name: str) -> tuple[Dataset, list[Problem]]:
    dataset, problems = survey_dataset(root, name)
    assert dataset is not None, problems
    return dataset, problems


def said(problems: Iterable[Problem], level: str) -> str:
    return " | ".join(str(problem) for problem in problems if problem.level == level)


def label_of(case: Case) -> NDArray[Any]:
    assert case.label is not None
    return case.label.read().array


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"folder", "msd"}))
def test_nothing_is_one_clear_problem(tmp_path: Path, name: str) -> None:
    dataset, problems = survey_dataset(tmp_path, name)
    assert dataset is None
    assert [problem.level for problem in problems] == ["fatal"]
    assert "holds no" in str(problems[0])
    with pytest.raises(InputError, match="does not exist"):
        read_dataset(tmp_path / "nowhere", name)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is not a folder"):
        read_dataset(tmp_path / "file", name)


def test_an_unknown_dataset_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--dataset liver: no such dataset\. There are: folder, acdc, left_atrium"):
        read_dataset(tmp_path, "liver")


# ACDC


def acdc_patient(root: Path, number: int, es: int, *, info: bool = True, group: str = "training") -> Path:
    name = f"patient{number:03d}"
    folder = root / group / name
    image, label = scan(number)
    for frame in (1, es):
        nifti(folder / f"{name}_frame{frame:02d}.nii.gz", image)
        nifti(folder / f"{name}_frame{frame:02d}_gt.nii.gz", label)
    nifti(folder / f"{name}_4d.nii.gz", np.zeros((4, 4, 2, 3), np.int16))
    if info:
        (folder / "Info.cfg").write_text(f"ED: 1\nES: {es}\nGroup: DCM\nNbFrame: 30\n")
    return folder


def test_acdc_has_its_two_frames_of_every_patient(tmp_path: Path) -> None:
    for number, es in ((1, 12), (2, 9)):
        acdc_patient(tmp_path, number, es)
    acdc_patient(tmp_path, 101, 14, group="testing")
    dataset, problems = found(tmp_path, "acdc")
    assert list(by_name(dataset)) == [
        *("patient001_frame01", "patient001_frame12", "patient002_frame01", "patient002_frame09"),
        *("patient101_frame01", "patient101_frame14"),
    ]
    assert [case.part for case in dataset.cases] == ["Tr"] * 4 + ["Ts"] * 2
    assert dataset.cases[0].patient == "patient001"
    assert dataset.classes == {0: "background", 1: "RV", 2: "Myo", 3: "LV"}
    assert "has 3 patients and 6 labelled cases, a whole copy of ACDC has 150 and 300" in said(problems, "warning")
    assert not said(problems, "fatal")
    assert np.array_equal(label_of(dataset.cases[0]), scan(1)[1])


def test_links_are_followed_and_never_in_a_circle(tmp_path: Path) -> None:
    acdc_patient(tmp_path / "disk", 1, 12)
    (tmp_path / "mein Ördner").mkdir()
    (tmp_path / "mein Ördner/training").symlink_to(tmp_path / "disk/training")
    (tmp_path / "disk/training/back").symlink_to(tmp_path / "mein Ördner")
    dataset, problems = found(tmp_path / "mein Ördner", "acdc")
    assert list(by_name(dataset)) == ["patient001_frame01", "patient001_frame12"]
    assert not said(problems, "fatal")


def test_acdc_without_info_takes_the_labelled_frames_and_says_so(tmp_path: Path) -> None:
    folder = acdc_patient(tmp_path, 1, 12, info=False)
    dataset, problems = found(folder.parent, "acdc")
    assert len(dataset.cases) == 2
    assert "has no Info.cfg: frames 1, 12 are taken" in said(problems, "warning")


def test_acdc_names_a_frame_that_is_missing_and_a_broken_info(tmp_path: Path) -> None:
    (acdc_patient(tmp_path, 1, 12) / "patient001_frame12.nii.gz").unlink()
    (acdc_patient(tmp_path, 2, 12) / "Info.cfg").write_text("ED: 1\n")
    dataset, problems = found(tmp_path, "acdc")
    assert list(by_name(dataset)) == ["patient001_frame01"]
    assert "has no patient001_frame12.nii.gz, which its Info.cfg names" in said(problems, "fatal")
    assert "does not say which frames are ED and ES" in said(problems, "fatal")


def test_a_scan_of_another_size_than_the_set_s_is_named(tmp_path: Path) -> None:
    acdc_patient(tmp_path, 1, 12)
    manifest = found(tmp_path, "acdc")[0].manifest
    assert manifest is not None
    assert manifest.check_shapes({tmp_path / "a": (216, 256, 10)}) == []
    shapes = {tmp_path / "a": (216, 256, 10), tmp_path / "b": (20, 16, 6), tmp_path / "c": (216, 256, 5)}
    (problem,) = manifest.check_shapes(shapes)
    assert problem.file.endswith("b")
    assert problem.message == (
        "is 20 x 16 x 6 voxels large, and 1 other scans have unknown sizes too; "
        "ACDC has 154 to 512 x 154 to 512 x 6 to 18"
    )


# Left atrium


def nrrd(path: Path, array: NDArray[Any]) -> None:
    kind = {"uint8": "uchar", "int16": "short"}[array.dtype.name]
    lines = [
        *("NRRD0004", f"type: {kind}", "dimension: 3", "space: left-posterior-superior"),
        f"sizes: {' '.join(map(str, array.shape))}",
        "space directions: (0.625,0,0) (0,0.625,0) (0,0,0.625)",
        *("kinds: domain domain domain", "endian: little", "encoding: gzip", "space origin: (0,0,0)", "", ""),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("\n".join(lines).encode() + gzip.compress(array.tobytes(order="F")))


def test_the_left_atrium_is_read_from_its_tree(tmp_path: Path) -> None:
    image, label = scan()
    for place, labelled in (("Training Set/06SR5RBREL16DQ6M8LWS", True), ("Testing Set/4SJ2XVQ0CGC7X8XKHS3B", False)):
        nrrd(tmp_path / place / "lgemri.nrrd", (50 * image).astype(np.int16))
        if labelled:
            nrrd(tmp_path / place / "laendo.nrrd", np.where(label > 1, 255, 0).astype(np.uint8))
    dataset, problems = found(tmp_path, "left_atrium")
    assert [(case.name, case.part) for case in dataset.cases] == [
        ("06SR5RBREL16DQ6M8LWS", "Tr"),
        ("4SJ2XVQ0CGC7X8XKHS3B", "Ts"),
    ]
    assert dataset.cases[1].label is None
    assert np.array_equal(label_of(dataset.cases[0]), (label > 1).astype(np.uint8))
    assert dataset.cases[0].images[0].read().geometry.spacing == pytest.approx((0.625, 0.625, 0.625))
    assert "a whole copy of the left atrium challenge has 100 and 100" in said(problems, "warning")


def test_a_mask_of_three_values_is_refused(tmp_path: Path) -> None:
    image, label = scan()
    nrrd(tmp_path / "A" / "lgemri.nrrd", image.astype(np.int16))
    nrrd(tmp_path / "A" / "laendo.nrrd", label)
    dataset, _ = found(tmp_path, "left_atrium")
    with pytest.raises(InputError, match=r"laendo\.nrrd: has the values 0, 1, 2, 3, a mask has 0 and one other"):
        label_of(dataset.cases[0])


# HDF5


def h5(path: Path, **arrays: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip" if array.size > 10 else None)


def stored(root: Path, name: str, out: Path, case: str) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    dataset = read_dataset(root, name)
    build_store(dataset, [one for one in dataset.cases if one.name == case], PLAIN, out)
    store = Store.open(out)
    return np.array(store.image(case)), np.array(store.label(case))


@pytest.fixture
def volumes(tmp_path: Path) -> Path:
    """The volume that HDF5 files are made from, in nnU-Net's layout."""
    description = {"channel_names": {"0": "MRI"}, "labels": {"background": 0, "RV": 1, "Myo": 2, "LV": 3}}
    for case in ("patient001_frame01", "06SR5RBREL16DQ6M8LWS"):
        image, label = scan(shape=(20, 16, 12))
        nifti(tmp_path / "raw" / "imagesTr" / f"{case}_0000.nii.gz", image)
        nifti(tmp_path / "raw" / "labelsTr" / f"{case}.nii.gz", label)
    (tmp_path / "raw" / "dataset.json").write_text(json.dumps(description))
    return tmp_path / "raw"


@pytest.mark.parametrize("name", ["h5", "acdc"])
@pytest.mark.parametrize("form", ["slices", "volumes"])
def test_the_files_of_ssl4mis_give_the_store_of_their_volumes(
    tmp_path: Path, volumes: Path, name: str, form: str
) -> None:
    image, label = scan(shape=(20, 16, 12))
    if form == "volumes":
        h5(tmp_path / "h5/data/patient001_frame01.h5", image=image.transpose(2, 1, 0), label=label.transpose(2, 1, 0))
    else:
        for z in range(12):
            slices = tmp_path / "h5/data/slices"
            h5(slices / f"patient001_frame01_slice_{z}.h5", image=image[..., z].T, label=label[..., z].T)
            h5(slices / f"patient001_frame12_slice_{z}.h5", image=image[..., z].T, label=label[..., z].T)
    theirs = stored(volumes, "folder", tmp_path / "a", "patient001_frame01")
    ours = stored(tmp_path / "h5", name, tmp_path / "b", "patient001_frame01")
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])
    assert {case.patient for case in read_dataset(tmp_path / "h5", name).cases} == {"patient001"}


@pytest.mark.parametrize("name", ["h5", "left_atrium"])
def test_the_files_of_ua_mt_give_the_store_of_their_volumes(tmp_path: Path, volumes: Path, name: str) -> None:
    image, label = scan(shape=(20, 16, 12))
    case = "06SR5RBREL16DQ6M8LWS"
    h5(tmp_path / "h5" / case / "mri_norm2.h5", image=image, label=label)
    theirs = stored(volumes, "folder", tmp_path / "a", case)
    ours = stored(tmp_path / "h5", name, tmp_path / "b", case)
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("name", ["h5", "pancreas_ct"])
@pytest.mark.parametrize("file", ["0007.h5", "image0007_norm.h5"])
def test_pancreas_files_keep_their_axes(tmp_path: Path, name: str, file: str) -> None:
    image, label = scan(shape=(8, 40, 30))  # as flat as a stack of slices, and yet x comes first
    h5(tmp_path / file, image=image, label=(label > 2).astype(np.uint8))
    dataset, problems = found(tmp_path, name)
    assert dataset.classes == {0: "background", 1: "pancreas"}
    assert dataset.channels == ("CT",)
    assert np.array_equal(dataset.cases[0].images[0].read().array, image)
    assert "a whole copy of Pancreas-CT has 80 and 80" in said(problems, "warning")


def test_a_missing_slice_is_named(tmp_path: Path) -> None:
    image, _ = scan()
    for z in (1, 2, 4, 10):
        h5(tmp_path / f"patient001_frame01_slice_{z}.h5", image=image[..., 0].T)
    (case,) = found(tmp_path, "h5")[0].cases
    assert case.label is None
    assert [file.stem[-2:] for file in case.images[0].files()] == ["_1", "_2", "_4", "10"]
    with pytest.raises(InputError, match="lacks slice 3 between its first and its last"):
        case.images[0].read()


def test_slices_of_different_sizes_are_refused(tmp_path: Path) -> None:
    for z in (1, 2):
        h5(tmp_path / f"patient001_frame01_slice_{z}.h5", image=np.zeros((8, 8 + z), np.float32))
    (case,) = found(tmp_path, "h5")[0].cases
    with pytest.raises(InputError, match=r"slice_2\.h5: is no slice of the same size"):
        case.images[0].read()


def test_a_frame_that_is_there_twice_is_read_once(tmp_path: Path) -> None:
    image, label = scan()
    h5(tmp_path / "data/patient001_frame01.h5", image=image.T, label=label.T)
    h5(tmp_path / "data/slices/patient001_frame01_slice_0.h5", image=image[..., 0].T)
    dataset, problems = found(tmp_path, "h5")
    assert [case.images[0].path.name for case in dataset.cases] == ["patient001_frame01.h5"]
    assert "holds slices of 1 cases that are there as volumes too" in said(problems, "warning")


def test_files_of_no_known_set_need_a_description(tmp_path: Path) -> None:
    h5(tmp_path / "spleen_7.h5", image=scan()[0], label=(scan()[1] > 2).astype(np.uint8))
    assert "holds HDF5 files of no known set, such as spleen_7.h5" in said(survey_dataset(tmp_path, "h5")[1], "fatal")
    description = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "spleen": 1}}
    (tmp_path / "dataset.json").write_text(json.dumps(description))
    assert found(tmp_path, "h5")[0].classes == {0: "background", 1: "spleen"}
    (tmp_path / "dataset.json").write_text(json.dumps(description | {"channel_names": {"0": "CT", "1": "PET"}}))
    assert "an HDF5 file holds one" in said(survey_dataset(tmp_path, "h5")[1], "fatal")


def test_a_file_without_an_image_is_named(tmp_path: Path) -> None:
    h5(tmp_path / "0001.h5", weights=np.zeros(3))
    h5(tmp_path / "0002.h5", image=scan()[0])
    assert r"0001.h5: holds no array of an image" in said(survey_dataset(tmp_path, "h5")[1], "fatal")


# Decathlon


def decathlon(root: Path, *, apart: bool) -> None:
    random = np.random.default_rng(0)
    image = random.normal(size=(6, 5, 4, 2)).astype(np.float32)
    for part, case in (("Tr", "BRATS_001"), ("Ts", "BRATS_485")):
        if apart:
            for channel in range(2):
                nifti(root / f"images{part}" / f"{case}_{channel:04d}.nii.gz", image[..., channel])
        else:
            nifti(root / f"images{part}" / f"{case}.nii.gz", image)
            (root / f"images{part}" / f"._{case}.nii.gz").touch()
    nifti(root / "labelsTr/BRATS_001.nii.gz", random.integers(0, 2, (6, 5, 4)).astype(np.uint8))
    content = {
        "name": "BRATS",
        "modality": {"0": "FLAIR", "1": "T1w"},
        "labels": {"0": "background", "1": "edema"},
        "numTraining": 1,
    }
    if not apart:
        content["training"] = [{"image": "./imagesTr/BRATS_001.nii.gz", "label": "./labelsTr/BRATS_001.nii.gz"}]
        content["test"] = ["./imagesTs/BRATS_485.nii.gz"]
    (root / "dataset.json").write_text(json.dumps(content))


@pytest.mark.parametrize("apart", [False, True])
def test_channels_in_one_file_are_those_in_several(tmp_path: Path, apart: bool) -> None:
    decathlon(tmp_path, apart=apart)
    dataset, problems = found(tmp_path, "msd")
    assert not problems
    assert [(case.name, case.part, case.label is None) for case in dataset.cases] == [
        ("BRATS_001", "Tr", False),
        ("BRATS_485", "Ts", True),
    ]
    image = np.random.default_rng(0).normal(size=(6, 5, 4, 2)).astype(np.float32)
    for channel, part in enumerate(dataset.cases[0].images):
        assert np.array_equal(part.read().array, image[..., channel])


def test_what_a_decathlon_task_lists_and_lacks_is_named(tmp_path: Path) -> None:
    decathlon(tmp_path, apart=False)
    (tmp_path / "imagesTs/BRATS_485.nii.gz").unlink()
    dataset, problems = found(tmp_path, "msd")
    assert len(dataset.cases) == 1
    assert "lists 1 of 3 files that are not there, such as ./imagesTs/BRATS_485.nii.gz" in said(problems, "warning")


def test_labels_that_a_task_counts_and_lacks_are_named(tmp_path: Path) -> None:
    decathlon(tmp_path, apart=True)
    (tmp_path / "labelsTr/BRATS_001.nii.gz").unlink()
    assert "counts 1 training cases, and 0 have a label" in said(found(tmp_path, "msd")[1], "warning")


# York


def york_subject(root: Path, number: int, outlined: dict[tuple[int, int], float]) -> NDArray[np.int16]:
    """4 slices at 3 moments of 40 x 30 pixels, an endocardium of a given radius where there is one."""
    scan = np.random.default_rng(number).integers(0, 900, (30, 40, 4, 3)).astype(np.int16)
    savemat(root / f"sol_yxzt_pat{number}.mat", {"sol_yxzt": scan})
    cells = {place: both(circle(25, 12, radius), circle(25, 12, radius + 3)) for place, radius in outlined.items()}
    york(root / f"manual_seg_32points_pat{number}.mat", cells, slices=4, frames=3)
    return scan


def test_the_york_set_is_labelled_where_it_was_outlined_and_nowhere_else(tmp_path: Path) -> None:
    array = york_subject(tmp_path, 7, {(1, 0): 6, (2, 0): 4, (0, 2): 5, (1, 2): 5, (2, 2): 5, (3, 2): 5})
    dataset, problems = found(tmp_path, "endocardium")
    cases = by_name(dataset)
    assert list(cases) == ["pat07_frame01", "pat07_frame01_rest", "pat07_frame02_rest", "pat07_frame03"]
    assert {case.patient for case in dataset.cases} == {"pat07"}
    assert [case.label is not None for case in dataset.cases] == [True, False, False, True]
    image = cases["pat07_frame01"].images[0].read()
    assert np.array_equal(image.array, array[..., 1:3, 0].swapaxes(0, 1))
    label = cases["pat07_frame01"].label
    assert label is not None
    assert label.read().geometry.shape == image.geometry.shape == (40, 30, 2)
    areas = label.read().array.sum(axis=(0, 1))
    assert areas == pytest.approx([np.pi * 36, np.pi * 16], rel=0.1)
    assert np.argwhere(label.read().array).mean(axis=0)[:2] == pytest.approx((25, 12), abs=0.1)
    assert np.array_equal(cases["pat07_frame01_rest"].images[0].read().array, array[..., [0, 3], 0].swapaxes(0, 1))
    assert "has 1 patients and 2 labelled cases, a whole copy of the York set has 33 and 660" in said(
        problems, "warning"
    )


def test_the_york_set_goes_into_a_store(tmp_path: Path) -> None:
    york_subject(tmp_path, 7, {(1, 0): 6, (2, 0): 4})
    dataset, _ = found(tmp_path, "endocardium")
    build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    assert store.cases["pat07_frame01"].shape == (1, 40, 30, 2)
    assert not store.cases["pat07_frame02_rest"].labelled


def test_york_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    york_subject(tmp_path, 1, {(0, 0): 5})
    savemat(tmp_path / "sol_yxzt_pat1.mat", {"sol_yxzt": np.zeros((30, 40, 2, 2), np.int16)})
    york(tmp_path / "manual_seg_32points_pat1.mat", {(3, 1): both(circle(9, 9, 5), circle(9, 9, 7))}, 4, 3)
    york(tmp_path / "manual_seg_32points_pat9.mat", {}, 4, 3)
    savemat(tmp_path / "sol_yxzt_pat2.mat", {"other": np.zeros(3)})
    _, problems = survey_dataset(tmp_path, "endocardium")
    text = said(problems, "fatal")
    assert "outlines slice 3 of frame 1, the scan has 2 slices and 2 frames" in text
    assert "pat9.mat: has outlines of a scan that is not there" in text
    assert "pat2.mat: has no image sol_yxzt" in text


def test_a_subject_without_outlines_is_unlabelled(tmp_path: Path) -> None:
    york_subject(tmp_path, 1, {})
    (tmp_path / "manual_seg_32points_pat1.mat").unlink()
    dataset, _ = found(tmp_path, "endocardium")
    assert [case.label for case in dataset.cases] == [None] * 3


# Sunnybrook


def sunnybrook_slice(path: Path, number: int) -> None:
    pixels = np.full((24, 32), number, np.int16)
    save(path, header(pixels, PixelSpacing=[1.25, 1.25], ImagePositionPatient=[0.0, 0.0, 8.0 * number]))


def outline(path: Path, x: float, y: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, circle(x, y, 6), fmt="%.2f")


@pytest.mark.parametrize("form", ["challenge", "atlas"])
def test_sunnybrook_is_read_from_both_of_its_trees(tmp_path: Path, form: str) -> None:
    if form == "challenge":
        images, contours = tmp_path / "challenge_training/SC-HF-I-01", tmp_path / "contours/SC-HF-I-01"
    else:
        images, contours = tmp_path / "SCD_IMAGES_01/SCD0000101/CINESAX_300", tmp_path / "SCD_ManualContours/SC-HF-I-1"
        (tmp_path / "scd_patientdata.csv").write_text("PatientID,OriginalID,Gender\nSCD0000101,SC-HF-I-1,Female\n")
        sunnybrook_slice(images.parent / "CINELAX_301/IM-0004-0048.dcm", 48)
    for number in (47, 48, 59):
        sunnybrook_slice(images / f"IM-0003-{number:04d}.dcm", number)
    outline(contours / "contours-manual/IRCCI-expert/IM-0001-0048-icontour-manual.txt", 20, 9)
    outline(contours / "contours-manual/IRCCI-expert/IM-0001-0048-ocontour-manual.txt", 20, 9)
    dataset, problems = found(tmp_path, "sunnybrook")
    cases = by_name(dataset)
    assert list(cases) == [f"SC-HF-I-01_IM-0001-{number:04d}" for number in (47, 48, 59)]
    assert [case.label is not None for case in dataset.cases] == [False, True, False]
    case = cases["SC-HF-I-01_IM-0001-0048"]
    image, label = case.images[0].read(), case.label
    assert label is not None
    assert image.array.max() == 48
    assert label.read().geometry == image.geometry
    assert np.argwhere(label.read().array).mean(axis=0)[:2] == pytest.approx((20, 9), abs=0.1)
    assert not said(problems, "fatal")


def test_sunnybrook_names_outlines_without_images_and_doubled_images(tmp_path: Path) -> None:
    outline(tmp_path / "SC-N-02/IM-0001-0048-icontour-manual.txt", 20, 9)
    outline(tmp_path / "SC-N-03/IM-0001-0048-icontour-manual.txt", 20, 9)
    for folder in ("a", "b"):
        sunnybrook_slice(tmp_path / f"SC-N-03/{folder}/IM-0001-0048.dcm", 48)
    text = said(survey_dataset(tmp_path, "sunnybrook")[1], "fatal")
    assert "has no image of its number 48 of patient SC-N-02" in text
    assert "and 1 other files are image 48 of patient SC-N-03" in text


def picture(path: Path, array: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.mark.parametrize("value", [1, 255])
def test_sunnybrook_as_pictures(tmp_path: Path, value: int) -> None:
    image = np.random.default_rng(0).integers(0, 255, (24, 32)).astype(np.uint8)
    mask = (image > 128).astype(np.uint8)
    for name in ("IM-0001-0048", "IM-0001-0059"):
        picture(tmp_path / f"images/SC-HYP-01/{name}.png", image)
    picture(tmp_path / "labels/SC-HYP-01/IM-0001-0048.png", mask * np.uint8(value))
    dataset, _ = found(tmp_path, "sunnybrook")
    assert [case.name for case in dataset.cases] == ["SC-HYP-01_IM-0001-0048", "SC-HYP-01_IM-0001-0059"]
    assert {case.patient for case in dataset.cases} == {"SC-HYP-01"}
    assert dataset.cases[1].label is None
    assert np.array_equal(label_of(dataset.cases[0])[..., 0], mask.T)
    picture(tmp_path / "labels/SC-HYP-01/IM-0001-0077.png", mask)
    assert "IM-0001-0077.png: is a mask without a picture" in said(survey_dataset(tmp_path, "sunnybrook")[1], "fatal")


# Pancreas-CT

ARCHIVE = "Pancreas-CT/{0}/11-24-2015-{0}-Pancreas-18957/Pancreas-99667"


def organ(seed: int, shape: tuple[int, int, int] = (40, 40, 16)) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    """A body in Hounsfield units with a brighter organ off its centre, and the organ."""
    random = np.random.default_rng(seed)
    x, y, z = np.indices(shape)
    body = (x - 20) ** 2 / 18**2 + (y - 20) ** 2 / 14**2 < 1
    label = (x - 26 - seed % 2) ** 2 / 36 + (y - 15) ** 2 / 16 + (z - 10) ** 2 / 16 < 1
    smooth = gaussian_filter(random.normal(size=shape), 1.5)
    image = np.where(body, 40.0, -1000.0) + 70 * label + 60 * smooth / smooth.std() * body * 0.3
    return image.astype(np.int16), label.astype(np.uint8)


def pancreas(root: Path, numbers: Iterable[int], mirror: tuple[int, ...] = (1,), slices: slice = slice(None)) -> None:
    """The archive's tree; labels lie in another folder, mirrored along some axes of the array, and without a true header."""
    for number in numbers:
        image, label = (array[..., slices] for array in organ(number))
        name = f"PANCREAS_{number:04d}"
        write_series(root / ARCHIVE.format(name), image, RescaleIntercept=0, RescaleSlope=1, PatientID=name)
        (root / ARCHIVE.format(name) / "LICENSE").write_text("CC BY 3.0")
        nifti(root / f"TCIA_pancreas_labels-02-05-2017/label{number:04d}.nii.gz", np.flip(label, mirror), np.eye(4))


@pytest.mark.parametrize(
    ("mirror", "words"), [((1,), "flipped along y"), ((), "as it lies"), ((0, 1), "flipped along x and y")]
)
def test_pancreas_labels_are_turned_as_the_scans_show(tmp_path: Path, mirror: tuple[int, ...], words: str) -> None:
    pancreas(tmp_path, range(1, 6), mirror)
    dataset, problems = found(tmp_path, "pancreas_ct")
    assert f"has labels that fit their scans best {words}, by 5 of 5 scans: all are turned so" in said(
        problems, "warning"
    )
    for number, case in enumerate(dataset.cases, start=1):
        image, label = organ(number)
        assert case.name == case.patient == f"PANCREAS_{number:04d}"
        assert np.array_equal(case.images[0].read().array, image)
        assert np.array_equal(label_of(case), label)
        assert case.label is not None
        assert case.label.read().geometry == case.images[0].read().geometry


def test_the_pancreas_goes_into_a_store_with_its_label_on_the_organ(tmp_path: Path) -> None:
    pancreas(tmp_path / "raw", range(1, 5))
    dataset, _ = found(tmp_path / "raw", "pancreas_ct")
    build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    for name in store.cases:
        image, label = store.image(name)[0], store.label(name)
        assert image[label == 1].mean() > 90
        assert image[(label == 0) & (image > -500)].mean() < 60


def test_the_duplicates_of_the_pancreas_set_are_left_out_and_what_is_missing_is_named(tmp_path: Path) -> None:
    pancreas(tmp_path, (1, 2, 3, 4, 25, 70))
    labels = tmp_path / "TCIA_pancreas_labels-02-05-2017"
    (labels / "label0003.nii.gz").unlink()
    nifti(labels / "label0082.nii.gz", organ(1)[1])
    (tmp_path / ARCHIVE.format("PANCREAS_0081")).mkdir(parents=True)
    dataset, problems = found(tmp_path, "pancreas_ct")
    assert [case.name for case in dataset.cases] == [f"PANCREAS_{number:04d}" for number in (1, 2, 3, 4)]
    assert [case.label is None for case in dataset.cases] == [False, False, True, False]
    text = said(problems, "warning")
    assert "has cases 0025 and 0070, duplicates that the archive withdrew: they are left out" in text
    assert "label0082.nii.gz: is the label of a scan PANCREAS_0082 that is not there" in text
    assert "a whole copy of Pancreas-CT has 80 and 80" in text


def test_few_pancreas_scans_leave_the_turn_uncertain_and_it_is_said(tmp_path: Path) -> None:
    pancreas(tmp_path, (1,))
    _, problems = found(tmp_path, "pancreas_ct")
    assert "by 1 of 1 scans, which is not certain. Look at them with `coranet doctor --overlay`" in said(
        problems, "warning"
    )


def test_pancreas_labels_of_another_shape_are_refused(tmp_path: Path) -> None:
    pancreas(tmp_path, (1, 2))
    for number in (1, 2):
        nifti(tmp_path / f"TCIA_pancreas_labels-02-05-2017/label{number:04d}.nii.gz", organ(1)[1][:-1])
    with pytest.raises(InputError, match="has labels that fit their scans no way: shapes differ"):
        read_dataset(tmp_path, "pancreas_ct")


def test_a_pancreas_patient_with_two_series_is_refused_when_read(tmp_path: Path) -> None:
    pancreas(tmp_path, range(1, 6))
    image, _ = organ(1)
    folder = tmp_path / "Pancreas-CT/PANCREAS_0001/study/second"
    write_series(folder, image, PatientID="PANCREAS_0001", SeriesInstanceUID="9.9")
    dataset, problems = found(tmp_path, "pancreas_ct")
    assert "by 4 of 4 scans: all are turned so" in said(problems, "warning")
    with pytest.raises(InputError, match="holds 2 series"):
        dataset.cases[0].images[0].read()


def test_a_missing_slice_of_a_pancreas_scan_is_filled_where_asked(tmp_path: Path) -> None:
    pancreas(tmp_path / "raw", range(1, 6))
    folder = tmp_path / "raw" / ARCHIVE.format("PANCREAS_0002")
    image, label = organ(2)
    shutil.rmtree(folder)
    write_series(folder, image, RescaleIntercept=0, RescaleSlope=1, PatientID="PANCREAS_0002", leave_out=(7,))
    dataset, _ = found(tmp_path / "raw", "pancreas_ct")
    with pytest.raises(InputError, match="--allow-gaps"):
        build_store(dataset, dataset.cases, PLAIN, tmp_path / "store")
    filled = allow_gaps(dataset)
    build_store(filled, filled.cases, PLAIN, tmp_path / "other")
    store = Store.open(tmp_path / "other")
    assert store.image("PANCREAS_0002").shape[1:] == image.shape
    assert store.label("PANCREAS_0002").sum() == label.sum()


def test_pancreas_slices_as_pictures_with_masks_saved_as_jpeg(tmp_path: Path) -> None:
    image, label = organ(1, (64, 64, 16))
    for part, array in (("images", image[..., 10]), ("masks", label[..., 10] * 255)):
        file = tmp_path / part / "PANCREAS_0001-1106.jpg"
        file.parent.mkdir()
        Image.fromarray(
            np.interp(array, (-100, 240), (0, 255)).astype(np.uint8).T if part == "images" else array.T
        ).save(file, quality=95)
    dataset, _ = found(tmp_path, "pancreas_ct")
    (case,) = dataset.cases
    assert (case.name, case.patient) == ("PANCREAS_0001-1106", "PANCREAS_0001")
    assert case.label is not None
    assert "is a mask saved as JPEG" in str(case.label.read().warnings[0])
    assert (label_of(case)[..., 0] != label[..., 10]).sum() <= 2


def test_pancreas_slices_in_hounsfield_units_and_as_pictures_are_told_apart(tmp_path: Path) -> None:
    """A picture's grey levels are no Hounsfield units, and must not be windowed as such."""
    image, label = organ(1, (64, 64, 16))
    (tmp_path / "arrays").mkdir()
    for name, array in (("img_000", image[..., 10]), ("mask_000", label[..., 10]), ("img_001", image[..., 9])):
        np.save(tmp_path / "arrays" / f"{name}.npy", array.T)
    dataset, problems = found(tmp_path / "arrays", "pancreas_ct")
    first, second = dataset.cases
    assert (dataset.channels, first.name, first.patient, second.label) == (("CT",), "img_000", "unknown", None)
    assert np.array_equal(first.images[0].read().array[..., 0], image[..., 10])
    assert np.array_equal(label_of(first)[..., 0], label[..., 10])
    assert not said(problems, "fatal")
    (tmp_path / "images").mkdir()
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(tmp_path / "images" / "PANCREAS_0001-1106.png")
    assert found(tmp_path, "pancreas_ct")[0].channels == ("windowed",)


def test_recipes_of_the_pancreas(tmp_path: Path) -> None:
    """On a scan with pixels of 0.7 x 0.8 mm and slices 2.5 mm apart, an organ of 13 x 9 x 7 voxels off its centre."""
    pancreas(tmp_path / "raw", range(1, 4))
    dataset, _ = found(tmp_path / "raw", "pancreas_ct")
    case = dataset.cases[0]
    x, y, z = organ(1)[0].shape

    def prepared(name: str, **changes: Any) -> Any:
        settings = replace(find_recipe(name), **changes)
        return prepare_case([case.images[0].read()], case.label.read() if case.label else None, settings)

    a = prepared("pancreas-a")
    assert a.image.shape == (
        1,
        round(0.7 * x),
        round(0.8 * y),
        round(0.7 * z),
    )  # smaller than box and margin: all of it
    assert prepared("pancreas-a", slice_spacing="stated").image.shape[3] == round(2.5 * z)
    tight = prepared("pancreas-a", crop_margin=(1, 1, 1), crop_least=(1, 1, 1))
    assert tight.label.sum() == a.label.sum()
    assert max(tight.image.shape[1:]) < 16
    assert (a.image.min(), a.image.max()) == (0, pytest.approx(1, abs=0.1))
    b = prepared("pancreas-b", crop_margin=(1, 1, None), crop_least=(1, 1, 1))
    assert b.image.shape[1:3] == tight.image.shape[1:3]
    assert b.image.shape[3] == round(2.5 * z)
    flat = prepared("pancreas-2d")
    assert flat.image.shape == (1, 240, 192, z)
    assert (flat.image.min(), flat.image.max()) == (-1, pytest.approx(0.3, abs=0.3))
    shown = prepared("pancreas-2d-organ")
    assert shown.image.shape == (1, 240, 192, 7)
    assert shown.label.any(axis=(0, 1)).all()
    with pytest.raises(InputError, match=r"liver: no such recipe\. There are: pancreas-2d, "):
        find_recipe("liver")


def test_a_known_layout_is_named_where_none_was_given(tmp_path: Path) -> None:
    image, label = organ(1, (64, 64, 16))
    for name, array in (("img_000", image[..., 10]), ("mask_000", label[..., 10])):
        np.save(tmp_path / f"{name}.npy", array.T)
    dataset, problems = survey_dataset(tmp_path)
    assert dataset is None
    assert "is laid out as pancreas_ct is" in str(problems[0])
    assert "Add --dataset pancreas_ct" in problems[0].remedy


# Real scans

REAL = {
    "acdc": ("acdc", 200, 200, 100),
    "acdc-official-sample": ("acdc", 10, 10, 5),
    "la": ("left_atrium", 100, 100, 100),
    "sunnybrook": ("sunnybrook", 805, 805, 45),
    "hippocampus/Task04_Hippocampus": ("msd", 260, 260, 260),
    "pancreas-slices/windowed": ("pancreas_ct", 264, 264, 61),
    "pancreas-slices/hounsfield": ("pancreas_ct", 15, 15, 1),
}


@pytest.mark.skipif("CORANET_DATA" not in os.environ, reason="needs real scans: set CORANET_DATA to their folder")
@pytest.mark.parametrize("folder", REAL)
def test_real_sets_are_whole_and_can_be_read(folder: str) -> None:
    name, cases, labelled, patients = REAL[folder]
    root = Path(os.environ["CORANET_DATA"]) / folder
    if not root.exists():
        pytest.skip(f"{folder} is not there")
    dataset, problems = found(root, name)
    assert not said(problems, "fatal")
    assert len(dataset.cases) == cases
    assert sum(case.label is not None for case in dataset.cases) == labelled
    assert len({case.patient for case in dataset.cases}) == patients
    for case in dataset.cases[:: max(1, cases // 5)]:
        image = case.images[0].read()
        assert label_of(case).shape == image.array.shape
        assert set(np.unique(label_of(case))) <= set(dataset.classes)
        if dataset.manifest:
            assert not dataset.manifest.check_shapes({root: image.geometry.shape})


def test_a_source_is_what_it_reads(tmp_path: Path) -> None:
    """Sources are compared and hashed, in reports and caches: two of one file and different frames are different."""
    decathlon(tmp_path, apart=False)
    first, second = found(tmp_path, "msd")[0].cases[0].images
    assert first != second
    assert len({first, second, source(first.path)}) == 3


def test_doctor_holds_scans_against_the_set_s_sizes(tmp_path: Path) -> None:
    acdc_patient(tmp_path, 1, 12)
    problems = inspect_folder(tmp_path, dataset="acdc").problems
    assert "is 20 x 16 x 6 voxels large, and 1 other scans have unknown sizes too; ACDC has" in said(
        problems, "warning"
    )
