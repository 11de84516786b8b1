"""Datasets in folders: both layouts, natural order, patients, and what is said of mistakes. No scan is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.data.datasets.folder import Case, read_folder, scan_cases
from coranet.data.datasets.names import patient_of
from coranet.data.readers import Source
from coranet.errors import InputError

V2 = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "organ": 1}, "file_ending": ".nii.gz"}
MSD = {
    "name": "Heart",
    "modality": {"0": "MRI"},
    "labels": {"0": "background", "1": "left atrium"},
    "numTraining": 99,
    "training": [],
}


def make(root: Path, description: Any, *files: str) -> Path:
    """A folder with empty files: names are all that is looked at."""
    root.mkdir(exist_ok=True)
    if description is not None:
        text = description if isinstance(description, str) else json.dumps(description)
        (root / "dataset.json").write_text(text, encoding="utf-8")
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root


def nifti(*files: Path) -> tuple[Source, ...]:
    return tuple(Source(path=file) for file in files)


def test_the_layout_of_nnunet(tmp_path: Path) -> None:
    root = make(
        tmp_path,
        {**V2, "channel_names": {"0": "T1", "1": "T2"}},
        "imagesTr/b_0000.nii.gz",
        "imagesTr/b_0001.nii.gz",
        "imagesTr/a_0001.nii.gz",
        "imagesTr/a_0000.nii.gz",
        "labelsTr/a.nii.gz",
        "imagesTs/c_0000.nii.gz",
        "imagesTs/c_0001.nii.gz",
        "labelsTs/c.nii.gz",
    )
    dataset = read_folder(root)
    assert dataset.root == root
    assert dataset.name == tmp_path.name
    assert dataset.channels == ("T1", "T2")
    assert dataset.classes == {0: "background", 1: "organ"}
    images = root / "imagesTr"
    assert dataset.cases == (
        Case(
            name="a",
            images=nifti(images / "a_0000.nii.gz", images / "a_0001.nii.gz"),
            label=Source(path=root / "labelsTr/a.nii.gz"),
            part="Tr",
            patient="a",
        ),
        Case(
            name="b",
            images=nifti(images / "b_0000.nii.gz", images / "b_0001.nii.gz"),
            label=None,
            part="Tr",
            patient="b",
        ),
        Case(
            name="c",
            images=nifti(root / "imagesTs/c_0000.nii.gz", root / "imagesTs/c_0001.nii.gz"),
            label=Source(path=root / "labelsTs/c.nii.gz"),
            part="Ts",
            patient="c",
        ),
    )


def test_the_layout_of_the_decathlon(tmp_path: Path) -> None:
    root = make(
        tmp_path,
        MSD,
        "imagesTr/la_003.nii.gz",
        "imagesTr/._la_003.nii.gz",
        "imagesTr/la_010.nii",
        "imagesTr/.DS_Store",
        "labelsTr/la_003.nii",
        "labelsTr/._la_003.nii.gz",
    )
    dataset = read_folder(root)
    assert dataset.name == "Heart"
    assert dataset.channels == ("MRI",)
    assert dataset.classes == {0: "background", 1: "left atrium"}
    assert [(case.name, case.label) for case in dataset.cases] == [
        ("la_003", Source(path=root / "labelsTr/la_003.nii")),
        ("la_010", None),
    ]


def test_without_labels_nothing_is_labelled(tmp_path: Path) -> None:
    dataset = read_folder(make(tmp_path, V2, "imagesTr/a_0000.nii.gz"))
    assert [case.label for case in dataset.cases] == [None]


def test_cases_that_are_numbered_like_channels(tmp_path: Path) -> None:
    root = make(tmp_path, V2, *(f"{kind}Tr/case_{i:04d}.nii.gz" for kind in ("images", "labels") for i in range(3)))
    dataset = read_folder(root)
    assert [case.name for case in dataset.cases] == ["case_0000", "case_0001", "case_0002"]
    assert all(case.label and case.label.path.name == case.images[0].path.name for case in dataset.cases)


def test_natural_order(tmp_path: Path) -> None:
    names = ["p10", "p2", "p1_frame12", "p1_frame2", "P3", "p02"]
    root = make(tmp_path, V2, *(f"imagesTr/{name}_0000.nii.gz" for name in names))
    expected = ["P3", "p1_frame2", "p1_frame12", "p02", "p2", "p10"]
    assert [case.name for case in read_folder(root).cases] == expected


@pytest.mark.parametrize(
    ("case", "patient"),
    [
        ("patient001_frame01", "patient001"),
        ("patient001_ES", "patient001"),
        ("patient001-ed", "patient001"),
        ("p_7_slice12", "p_7"),
        ("p7_visit2_t03", "p7"),
        ("p7_visit_2_frame_01_ES", "p7"),
        ("la_003", "la_003"),
        ("fred", "fred"),
        ("frame01", "frame01"),
        ("_ES", "_ES"),
        ("heart_test1", "heart_test1"),
    ],
)
def test_patients_by_name(case: str, patient: str) -> None:
    assert patient_of(case) == patient


def test_patients_by_word(tmp_path: Path) -> None:
    description = {**V2, "patients": {"a_frame1": "x", "b": "x"}}
    root = make(tmp_path, description, *(f"imagesTr/{name}_0000.nii.gz" for name in ("a_frame1", "b", "c_ED")))
    assert [case.patient for case in read_folder(root).cases] == ["x", "x", "c"]


def labels(**classes: Any) -> dict[str, Any]:
    return {**V2, "labels": classes}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (
            None,
            r"dataset.json: does not exist. Say with --dataset .* such as \{\"channel_names\": .*\"labels\"",
        ),
        ('{"labels": {\n "a" 1}}', r"not valid JSON at line 2, column 6 .*Correct it there"),
        ("[]", "is not a JSON object.*Write it like"),
        ({"labels": V2["labels"]}, 'names no channels.*Add "channel_names"'),
        ({**V2, "channel_names": {}}, 'names no channels.*Add "channel_names"'),
        ({**V2, "channel_names": {"1": "T1", "2": "T2"}}, "numbers its channels 1, 2. Number them 0, 1, 2"),
        ({"channel_names": {"0": "CT"}}, 'names no classes.*Add "labels"'),
        (labels(organ=1), 'has no background. Add "background": 0'),
        (labels(background=0), "has only background. Add what is to be segmented"),
        (labels(background=0, organ=1.5), "gives 'organ' the number 1.5, not an integer. Write each class as \"name\""),
        (labels(background=0, organ=True), "not an integer"),
        (labels(background="zero", organ="one"), "not an integer"),
        (labels(background=0, organ=None), "not an integer"),
        (labels(background=0, whole=[1, 2], core=2), "makes 'whole' a region of several values.*not supported"),
        (labels(background=0, organ=2, ignore=1), "gives ignore the number 1.*above all classes"),
        (labels(background=0, organ=1, ignore=256), "gives ignore the number 256.*up to 255"),
        (
            {**labels(background=0, organ=1, ignore=255), "file_ending": ".png"},
            'which in pictures means an object. Give it another, such as "ignore": 2',
        ),
        (labels(background=0, organ=1, other=1), "gives one number to several classes. Give each"),
        (labels(background=0, organ=1, other=4), "has the numbers 0, 1, 4. Number them 0, 1, 2 ... without a gap"),
        (labels(**{f"c{i}": i for i in range(257)}), "257 classes. Merge"),
        ({**V2, "patients": ["a"]}, '"patients" is not a mapping.*Write it as'),
        ({**V2, "patients": {"x": "a"}}, '"patients" names cases that do not exist: x. Write the names of cases'),
        ({**V2, "file_ending": ".mha"}, "\"file_ending\" is '.mha'. Convert the scans"),
    ],
)
def test_a_wrong_description(tmp_path: Path, description: Any, message: str) -> None:
    root = make(tmp_path, description, "imagesTr/a_0000.nii.gz", "labelsTr/a.nii.gz")
    with pytest.raises(InputError, match=message):
        read_folder(root)


def test_a_description_that_is_not_text(tmp_path: Path) -> None:
    root = make(tmp_path, "", "imagesTr/a_0000.nii.gz")
    (root / "dataset.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match=r"is not text.*UTF-8"):
        read_folder(root)


def test_a_byte_order_mark_is_forgiven(tmp_path: Path) -> None:
    root = make(tmp_path, "\ufeff" + json.dumps(V2), "imagesTr/a_0000.nii.gz")
    assert read_folder(root).channels == ("CT",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "imagesTr: does not exist. Put the training scans there"),
        (["imagesTr/a.mha"], "imagesTr: holds no scan. Put"),
        (
            ["imagesTr/a_0000.nii.gz", "labelsTr/b.nii.gz"],
            "labelsTr/b.nii.gz: is a label without an image imagesTr/b_0000.nii.gz. Rename it",
        ),
        (
            ["imagesTr/a_0000.nii.gz", "imagesTr/a_0000.nii"],
            "a_0000.nii.gz: is a second file of case a beside a_0000.nii. Keep one",
        ),
        (["imagesTr/a_0000.nii.gz", "imagesTr/a.nii.gz"], "is a second file of case a beside a.*. Keep one"),
        (
            ["imagesTr/a_0000.nii.gz", "labelsTr/a.nii", "labelsTr/a.nii.gz"],
            "a.nii.gz: is a second label beside a.nii. Keep one",
        ),
        (
            ["imagesTr/a_0000.nii.gz", "imagesTr/a_0001.nii.gz"],
            "a_0001.nii.gz: looks like channel 1 of a, but the number of channels is 1. Name the channel",
        ),
        (
            ["imagesTr/a_0000.nii.gz", "imagesTs/a_0000.nii.gz"],
            "imagesTs/a_0000.nii.gz: has the name of a case of imagesTr. Rename",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, files: list[str], message: str) -> None:
    root = make(tmp_path, V2, *files)
    with pytest.raises(InputError, match=message):
        read_folder(root)


def test_a_missing_channel_is_named(tmp_path: Path) -> None:
    description = {**V2, "channel_names": {"0": "T1", "1": "T2", "2": "T3"}}
    root = make(tmp_path, description, *(f"imagesTr/a_000{i}.nii.gz" for i in range(3)), "imagesTr/b_0001.nii.gz")
    with pytest.raises(InputError, match=r"b_0001.nii.gz: lacks .*: b_0000.nii.gz, b_0002.nii.gz. Add them"):
        read_folder(root)


def test_the_first_of_many_problems_counts_the_others(tmp_path: Path) -> None:
    root = make(tmp_path, V2, "imagesTr/a_0000.nii.gz", "labelsTr/b.nii.gz", "labelsTr/c.nii.gz")
    with pytest.raises(InputError, match=rf"b.nii.gz: .* And 1 more; `coranet doctor {tmp_path}` lists them"):
        read_folder(root)


def test_a_path_that_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist. Check the path"):
        read_folder(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"is empty. Put dataset.json"):
        read_folder(tmp_path / "empty")
    root = make(tmp_path / "set", V2, "imagesTr/a_0000.nii.gz")
    with pytest.raises(InputError, match=rf"Give {root}, the folder above, which has one"):
        read_folder(root / "imagesTr")
    make(tmp_path / "Dataset001_A", V2, "imagesTr/a_0000.nii.gz")
    with pytest.raises(InputError, match=r"is not a folder. Give the folder"):
        read_folder(tmp_path / "Dataset001_A/dataset.json")
    with pytest.raises(
        InputError, match=r"has no dataset.json, but folders in it have. Give one of them: Dataset001_A"
    ):
        read_folder(tmp_path)


def test_scans_to_predict(tmp_path: Path) -> None:
    make(tmp_path, None, "a_0000.nii.gz", "b.nii", "c_0012.nii.gz", "._b.nii", "notes.txt")
    cases = scan_cases(tmp_path, 1)
    assert [(case.name, case.images[0].path.name) for case in cases] == [
        ("a", "a_0000.nii.gz"),
        ("b", "b.nii"),
        ("c_0012", "c_0012.nii.gz"),
    ]
    assert {case.label for case in cases} == {None}
    assert scan_cases(tmp_path / "a_0000.nii.gz", 1) == cases[:1]


def test_scans_of_several_channels_to_predict(tmp_path: Path) -> None:
    make(tmp_path, None, "a_0000.nii.gz", "a_0001.nii.gz", "b_0001.nii.gz", "b_0000.nii.gz")
    cases = scan_cases(tmp_path, 2)
    assert [(case.name, [image.path.name for image in case.images]) for case in cases] == [
        ("a", ["a_0000.nii.gz", "a_0001.nii.gz"]),
        ("b", ["b_0000.nii.gz", "b_0001.nii.gz"]),
    ]
    assert scan_cases(tmp_path / "b_0000.nii.gz", 2) == cases[1:]
    with pytest.raises(InputError, match=r"lacks .* a_0002.nii.gz.*And 1 more"):
        scan_cases(tmp_path, 3)
    with pytest.raises(InputError, match=r"a_0001.nii.gz: looks like channel 1 of a"):
        scan_cases(tmp_path, 1)


def test_nothing_to_predict(tmp_path: Path) -> None:
    make(tmp_path, None, "in/imagesTs/a_0000.nii.gz", "empty/notes.txt", "scan.mha")
    for path, message in (
        ("none", "does not exist. Check"),
        ("scan.mha", r"of no format that is read \(.nii.gz, .nii, .nrrd, .*a folder of DICOM\). Convert"),
        ("empty", "holds no scan. Give a scan"),
        ("in", "holds no scan. Give one of its folders: imagesTs"),
    ):
        with pytest.raises(InputError, match=message):
            scan_cases(tmp_path / path, 1)


def series(folder: Path) -> None:
    """What is taken for DICOM: by its mark alone."""
    folder.mkdir(parents=True)
    (folder / "IM0001").write_bytes(bytes(128) + b"DICM")


def test_folders_of_dicom_to_predict(tmp_path: Path) -> None:
    series(tmp_path / "tree/p10/study/series")
    series(tmp_path / "tree/p2/study/series")
    (tmp_path / "tree/notes.txt").touch()
    folder = tmp_path / "tree/p2"
    one = scan_cases(folder, 1)
    assert [(case.name, case.images) for case in one] == [("p2", (Source(path=folder, reader="dicom"),))]
    assert [case.name for case in scan_cases(tmp_path / "tree", 1)] == ["p2", "p10"]
    (folder / "study/series/preview.png").touch()
    assert [case.name for case in scan_cases(folder / "study/series", 1)] == ["series"]
    (folder / "study/series/scan.nii.gz").touch()
    assert [case.name for case in scan_cases(folder / "study/series", 1)] == ["scan"]


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series(tmp_path / "patient 3")
    monkeypatch.chdir(tmp_path / "patient 3")
    assert [case.name for case in scan_cases(Path(), 1)] == ["patient 3"]


def test_one_folder_has_one_format(tmp_path: Path) -> None:
    make(tmp_path, None, "a.nrrd", "b.nrrd", "a.png", "notes.txt")
    assert [case.images[0] for case in scan_cases(tmp_path, 1)] == [
        Source(path=tmp_path / f"{name}.nrrd", reader="nrrd") for name in "ab"
    ]
    assert scan_cases(tmp_path / "a.png", 1)[0].images[0].reader == "image"


def test_the_layout_with_pictures(tmp_path: Path) -> None:
    description = {**V2, "file_ending": ".png", "channel_names": {"0": "T1", "1": "T2"}}
    root = make(tmp_path, description, "imagesTr/a_0000.png", "imagesTr/a_0001.png", "labelsTr/a.png")
    (case,) = read_folder(root).cases
    assert [image.reader for image in case.images] == ["image", "image"]
    assert case.label == Source(path=root / "labelsTr/a.png", reader="image", inside=(("as", "mask"),))


@settings(max_examples=50, deadline=None)
@given(numbers=st.lists(st.integers(0, 10**6), min_size=1, max_size=20, unique=True), channels=st.integers(1, 3))
def test_cases_come_in_the_order_of_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], channels: int
) -> None:
    folder = tmp_path_factory.mktemp("scans")
    make(folder, None, *(f"scan{n}_{c:04d}.nii.gz" for n in numbers for c in range(channels)))
    assert [case.name for case in scan_cases(folder, channels)] == [f"scan{n}" for n in sorted(numbers)]
