"""Names that are strange or not text, folders that may not be read, and what lies where it should not."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np
import pytest

from coranet.cli import main
from coranet.data.datasets import read_dataset, survey_dataset
from coranet.data.datasets.folder import scan_cases
from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.doctor.inspection import inspect_folder
from coranet.errors import InputError
from tests.data.datasets.test_folder import V2, make

NO_TEXT = os.fsdecode(b"c\xff_0000.nii.gz")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, captured.out + captured.err


def test_a_name_that_is_no_text_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make(tmp_path / "set", V2, "imagesTr/a_0000.nii.gz", f"imagesTr/{NO_TEXT}")
    assert r"imagesTr/c\xff_0000.nii.gz: has a name that is no text. Rename it" in str(survey_dataset(root)[1][0])
    status, said = run(capsys, "doctor", root)
    assert status == 1
    assert r"c\xff_0000.nii.gz: has a name that is no text" in said
    for act in (lambda: read_dataset(root), lambda: scan_cases(root / "imagesTr", 1)):
        with pytest.raises(InputError, match="has a name that is no text"):
            act()


def test_escapes_in_names_never_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_folder(tmp_path / "set", Phantom(shape=(16, 16, 3)), seed=1, labelled=2, unlabelled=1, test=0)
    files = sorted((root / "imagesTr").iterdir())
    files[0].rename(files[0].with_name("evil\x1b[31m\x9b2J_0000.nii.gz"))
    (root / "imagesTr/stray\x1b]0;title\x07.txt").touch()
    status, said = run(capsys, "doctor", root)
    assert status == 1  # a label has lost its image
    assert r"stray\x1b]0;title\x07.txt" in said
    assert not set(said) & {"\x1b", "\x07", "\x9b"}


def test_the_label_of_a_case_with_a_newline_in_its_name_is_found(tmp_path: Path) -> None:
    root = make(tmp_path, V2, "imagesTr/a\nb_0000.nii.gz", "labelsTr/a\nb.nii.gz")
    dataset, problems = survey_dataset(root)
    assert dataset is not None
    assert [(case.name, case.label is not None) for case in dataset.cases] == [("a\nb", True)]
    assert [problem for problem in problems if problem.level == "fatal"] == []


@pytest.mark.parametrize(("one", "other"), [("c0", "C0"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_some_systems_cannot_tell_apart_are_warned_of(tmp_path: Path, one: str, other: str) -> None:
    root = make(tmp_path, V2, f"imagesTr/{one}_0000.nii.gz", f"imagesTr/{other}_0000.nii.gz")
    dataset, problems = survey_dataset(root)
    assert dataset is not None
    assert [problem.level for problem in problems] == ["warning"]
    assert "in capitals or accents alone" in str(problems[0])


def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make(tmp_path, V2, "imagesTr/a_0000.nii.gz")
    listed = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "imagesTr":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    dataset, problems = survey_dataset(root)
    assert dataset is None
    assert "imagesTr: cannot be listed (Permission denied). Make it a folder that you may read." in str(problems[0])
    assert "cannot be listed" in str(inspect_folder(root).problems[0])


def test_a_named_pipe_in_place_of_dataset_json_is_never_opened(tmp_path: Path) -> None:
    root = make(tmp_path, None, "imagesTr/a_0000.nii.gz")
    os.mkfifo(root / "dataset.json")
    assert "dataset.json: is a named pipe, not a file" in str(survey_dataset(root)[1][0])


def test_a_named_pipe_in_place_of_a_scan_is_named_by_the_doctor(tmp_path: Path) -> None:
    root = write_folder(tmp_path / "set", Phantom(shape=(16, 16, 3)), seed=1, labelled=2, unlabelled=1, test=0)
    file = sorted((root / "imagesTr").iterdir())[0]
    file.unlink()
    os.mkfifo(file)
    assert [str(problem) for problem in inspect_folder(root).problems if "named pipe" in str(problem)]


def test_class_names_are_printed_without_escapes(tmp_path: Path) -> None:
    labels = {"background": 0, "or\x1b[2Jgan": 1}
    dataset, _ = survey_dataset(make(tmp_path, {**V2, "labels": labels}, "imagesTr/a_0000.nii.gz"))
    assert dataset is not None
    assert dataset.classes[1] == r"or\x1b[2Jgan"


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    nib.save(nib.Nifti1Image(array, np.eye(4)), path)


GREY = np.random.default_rng(0).normal(100, 20, (8, 8, 4)).astype(np.float32)
LABEL = (GREY > 110).astype(np.uint8)


@pytest.mark.parametrize(("scan", "label"), [("a", "a_gt"), ("volume-0", "segmentation-0"), ("a", "a_uncertain")])
def test_label_maps_among_scans_are_not_predicted(tmp_path: Path, scan: str, label: str) -> None:
    save(tmp_path / f"{scan}.nii.gz", GREY)
    save(tmp_path / f"{label}.nii.gz", LABEL)
    with pytest.raises(InputError, match=f"mixes scans, such as {scan}.*, with label maps, such as {label}.*Move"):
        scan_cases(tmp_path, 1)
    assert [case.name for case in scan_cases(tmp_path / f"{scan}.nii.gz", 1)] == [scan]


def test_scans_that_are_only_named_like_label_maps_are_predicted(tmp_path: Path) -> None:
    save(tmp_path / "a.nii.gz", GREY)
    save(tmp_path / "a_mask.nii.gz", GREY)
    save(tmp_path / "a_b.nii.gz", GREY)
    assert [case.name for case in scan_cases(tmp_path, 1)] == ["a", "a_b", "a_mask"]


def test_a_whole_dataset_given_to_predict_is_pointed_to_its_images(tmp_path: Path) -> None:
    make(tmp_path, None, "imagesTs/a_0000.nii.gz", "imagesTr/b_0000.nii.gz", "labelsTr/b.nii.gz")
    with pytest.raises(InputError, match=r"holds no scan. Give one of its folders: imagesTr, imagesTs\."):
        scan_cases(tmp_path, 1)


def test_a_stray_file_among_hdf5_files_is_named_and_left_out(tmp_path: Path) -> None:
    for name in ("0001", "0002", "0003", "notes"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["image"] = GREY
            file["label"] = LABEL
    dataset, problems = survey_dataset(tmp_path, "h5")
    assert dataset is not None
    assert [case.name for case in dataset.cases] == ["0001", "0002", "0003"]
    assert "notes.h5: is named otherwise than the files of Pancreas-CT, and is left out" in str(problems[0])
