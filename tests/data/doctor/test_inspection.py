"""What `coranet doctor` sees: every check once, with its remedy, and all of them together."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from coranet.data.doctor.inspection import Problem, Report, inspect_folder
from coranet.data.readers.nifti import write
from coranet.geometry import Geometry

GEOMETRY = Geometry(shape=(6, 7, 8), affine=((1, 0, 0, -3), (0, 1, 0, 4), (0, 0, 2.5, 0), (0, 0, 0, 1)))
DESCRIPTION = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "organ": 1}, "file_ending": ".nii.gz"}


def moved(**places: float) -> Geometry:
    """The geometry with other entries in its affine, such as `x3` for the first row's last."""
    rows = [list(row) for row in GEOMETRY.affine]
    for place, value in places.items():
        rows["xyz".index(place[0])][int(place[1])] = value
    return replace(GEOMETRY, affine=tuple((a, b, c, d) for a, b, c, d in rows))


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(100, 30, GEOMETRY.shape).astype(np.float32)


def label() -> np.ndarray:
    array = np.zeros(GEOMETRY.shape, np.uint8)
    array[2:4, 2:5, 2:6] = 1
    return array


def describe(root: Path, **changes: object) -> None:
    (root / "dataset.json").write_text(json.dumps({**DESCRIPTION, **changes}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two labelled cases and one unlabelled, with nothing wrong."""
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    for seed, name in enumerate("abc"):
        write(tmp_path / f"imagesTr/{name}_0000.nii.gz", image(seed), GEOMETRY)
    for name in "ab":
        write(tmp_path / f"labelsTr/{name}.nii.gz", label(), GEOMETRY)
    describe(tmp_path)
    return tmp_path


def only(report: Report) -> Problem:
    assert len(report.problems) == 1, "\n".join(map(str, report.problems))
    return report.problems[0]


def test_nothing_wrong(root: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = inspect_folder(root, lambda done, total: calls.append((done, total)))
    assert report.problems == ()
    assert not report.fatal
    assert report.dataset is not None
    assert [case.name for case in report.dataset.cases] == ["a", "b", "c"]
    assert calls == [(i, 5) for i in range(1, 6)]


def test_the_facts(root: Path) -> None:
    turned = np.ascontiguousarray(image(3).transpose(2, 1, 0))
    geometry = Geometry(shape=(8, 7, 6), affine=((0, 0, -1.5, 0), (0, 1, 0, 0), (2.5, 0, 0, 0), (0, 0, 0, 1)))
    (root / "imagesTs").mkdir()
    write(root / "imagesTs/d_ED_0000.nii.gz", turned, geometry)
    write(root / "imagesTs/d_ES_0000.nii.gz", turned, geometry)
    facts = inspect_folder(root).facts
    assert facts is not None
    assert (facts.labelled, facts.unlabelled, facts.test, facts.patients) == (2, 1, 2, 4)
    assert facts.shapes.smallest == facts.shapes.median == facts.shapes.largest == (6, 7, 8)
    assert facts.spacings.smallest == pytest.approx((1, 1, 2.5))
    assert facts.spacings.median == pytest.approx((1, 1, 2.5))
    assert facts.spacings.largest == pytest.approx((1, 1, 2.5))  # test scans must not decide how others are prepared
    assert facts.orientations == {"RAS": 3, "SAL": 2}
    assert facts.class_shares == pytest.approx({"background": 1 - 24 / 336, "organ": 24 / 336})
    low, high = facts.intensities["CT"]
    everything = np.stack([image(i) for i in range(4)])
    assert (low, high) == (everything.min(), everything.max())


Break = Callable[[Path], object]


def corrupt(file: str, change: Callable[[bytes], bytes]) -> Break:
    return lambda root: (root / file).write_bytes(change((root / file).read_bytes()))


def put(file: str, array: np.ndarray, geometry: Geometry = GEOMETRY) -> Break:
    def do(root: Path) -> None:
        (root / file).parent.mkdir(exist_ok=True)
        write(root / file, array, geometry)

    return do


def put_4d(root: Path) -> None:
    nib.save(
        nib.Nifti1Image(np.zeros((6, 7, 8, 2), np.float32), np.array(GEOMETRY.affine)), root / "imagesTr/c_0000.nii.gz"
    )


def with_voxel(array: np.ndarray, value: float) -> np.ndarray:
    array = array.astype(np.float32)
    array[0, 0, 0] = value
    return array


CHECKS: list[tuple[Break, str, str, str, str]] = [
    (
        corrupt("imagesTr/a_0000.nii.gz", lambda b: b[: len(b) // 2]),
        "fatal",
        "imagesTr/a_0000.nii.gz",
        "cut short",
        "Copy",
    ),
    (corrupt("imagesTr/a_0000.nii.gz", lambda b: b""), "fatal", "imagesTr/a_0000.nii.gz", "is empty", "Copy"),
    (corrupt("labelsTr/a.nii.gz", lambda b: b"text"), "fatal", "labelsTr/a.nii.gz", "not gzip", "Rename"),
    (put_4d, "fatal", "imagesTr/c_0000.nii.gz", "4 axes (6, 7, 8, 2)", "Split channels"),
    (
        put("labelsTr/a.nii.gz", label()[:5], replace(GEOMETRY, shape=(5, 7, 8))),
        "fatal",
        "labelsTr/a.nii.gz",
        "grid of a_0000.nii.gz: sizes differ: (6, 7, 8) and (5, 7, 8)",
        "Resample it",
    ),
    (
        put("labelsTr/a.nii.gz", label(), moved(x3=-2.5)),
        "fatal",
        "labelsTr/a.nii.gz",
        "places differ by up to 0.5 voxels",
        "copy the header",
    ),
    (
        put("labelsTr/a.nii.gz", label(), moved(z2=2.6)),
        "fatal",
        "labelsTr/a.nii.gz",
        "spacings 1x1x2.5 and 1x1x2.6 mm",
        "copy the header",
    ),
    (
        put("labelsTr/a.nii.gz", label(), moved(x0=-1, x3=2)),
        "fatal",
        "labelsTr/a.nii.gz",
        "orientations RAS and LAS",
        "copy the header",
    ),
    (
        put("labelsTr/a.nii.gz", with_voxel(label(), 4).astype(np.uint8)),
        "fatal",
        "labelsTr/a.nii.gz",
        "label values 4 that dataset.json does not name (0 background, 1 organ)",
        "Renumber the labels 4 -> 2, and name 0 to 2 in dataset.json",
    ),
    (put("labelsTr/a.nii.gz", with_voxel(label(), 0.5)), "fatal", "labelsTr/a.nii.gz", "not whole numbers", "integers"),
    (put("labelsTr/a.nii.gz", with_voxel(label(), -1)), "fatal", "labelsTr/a.nii.gz", "from -1 to 1", "Number"),
    (put("labelsTr/a.nii.gz", with_voxel(label(), np.nan)), "fatal", "labelsTr/a.nii.gz", "not whole", "integers"),
    (put("labelsTr/x.nii.gz", label()), "fatal", "labelsTr/x.nii.gz", "label without an image", "Rename it"),
    (
        put("imagesTr/c_0000.nii.gz", with_voxel(image(), np.nan)),
        "fatal",
        "imagesTr/c_0000.nii.gz",
        "1 voxels that are not finite",
        "Replace",
    ),
    (
        put("imagesTr/c_0000.nii.gz", with_voxel(image(), np.inf)),
        "fatal",
        "imagesTr/c_0000.nii.gz",
        "not finite",
        "Replace",
    ),
    (put("imagesTr/c_0000.nii.gz", 0 * image() + 7), "warning", "imagesTr/c_0000.nii.gz", "is 7 everywhere", "Check"),
    (put("imagesTr/a_0000.nii", image()), "fatal", "imagesTr/a_0000.nii.gz", "beside a_0000.nii", "Keep one"),
    (put("imagesTr/a.nii.gz", image()), "fatal", "imagesTr/a_0000.nii.gz", "beside a.nii.gz", "Keep one"),
    (put("imagesTr/a_0001.nii.gz", image()), "fatal", "imagesTr/a_0001.nii.gz", "channel 1 of a", "Name the channel"),
    (lambda root: (root / "dataset.json").unlink(), "fatal", "dataset.json", "does not exist", '{"channel_names"'),
    (lambda root: (root / "dataset.json").write_text("{"), "fatal", "dataset.json", "line 1, column 2", "Correct"),
    (lambda root: describe(root, labels={"background": 0}), "fatal", "dataset.json", "only background", "Add"),
    (
        lambda root: (root / "imagesTr/c_0000.nii.gz").unlink(),
        "warning",
        "imagesTr",
        "no unlabelled case, so training is supervised",
        "Put scans",
    ),
    (
        lambda root: describe(root, labels={"background": 0, "organ": 1, "tumour": 2}),
        "warning",
        "labelsTr",
        "no voxel of class tumour",
        "Label one",
    ),
    (put("labelsTr/a.nii.gz", 0 * label()), "warning", "labelsTr/a.nii.gz", "all background", "right file"),
    (put("imagesTr/c_0000.nii.gz", image(), moved(x0=-1)), "warning", "imagesTr", "2 RAS, 1 LAS", "Nothing to do"),
    (
        put("imagesTr/c_0000.nii.gz", image(), moved(z2=1)),
        "warning",
        "imagesTr",
        "from 1 to 2.5 mm along Z",
        "median, 2.5 mm",
    ),
    (
        put("imagesTs/a_t2_0000.nii.gz", image()),
        "warning",
        "imagesTs",
        "shares patients with the training cases: a",
        "one side",
    ),
    (
        lambda root: (root / "imagesTr/d.nrrd").touch(),
        "warning",
        "imagesTr",
        "1 files that are not read, such as d.nrrd",
        "Convert",
    ),
]


@pytest.mark.parametrize(("breaks", "level", "file", "message", "remedy"), CHECKS, ids=[check[3] for check in CHECKS])
def test_one_thing_wrong(root: Path, breaks: Break, level: str, file: str, message: str, remedy: str) -> None:
    breaks(root)
    report = inspect_folder(root)
    problem = only(report)
    assert problem.level == level
    assert problem.file == file
    assert message in problem.message
    assert remedy in problem.remedy
    assert report.fatal == (level == "fatal")


def test_no_labelled_case(root: Path) -> None:
    for file in (root / "labelsTr").iterdir():
        file.unlink()
    problem = only(inspect_folder(root))
    assert (problem.level, problem.file) == ("fatal", "labelsTr")
    assert "labels no case" in problem.message
    assert "Label at least one case" in problem.remedy


def test_a_missing_channel_and_one_on_another_grid(root: Path) -> None:
    describe(root, channel_names={"0": "T1", "1": "T2"})
    write(root / "imagesTr/a_0001.nii.gz", image(5), moved(y3=9))
    write(root / "imagesTr/b_0001.nii.gz", image(6), GEOMETRY)
    missing, other = inspect_folder(root).problems[:2]
    assert missing.file == "imagesTr/c_0000.nii.gz"
    assert "c_0001.nii.gz" in missing.message
    assert "Add them" in missing.remedy
    assert other.file == "imagesTr/a_0001.nii.gz"
    assert "grid of a_0000.nii.gz: places differ by up to 5 voxels" in other.message


@pytest.mark.parametrize(
    ("path", "message", "remedy"),
    [
        ("none", "does not exist", "Check the path"),
        ("dataset.json", "is not a folder", "Give the folder"),
        ("empty", "is empty", "Put dataset.json"),
    ],
)
def test_no_dataset_at_all(root: Path, path: str, message: str, remedy: str) -> None:
    (root / "empty").mkdir()
    report = inspect_folder(root / path)
    problem = only(report)
    assert problem.file == str(root / path)
    assert problem.message == message
    assert remedy in problem.remedy
    assert report.fatal
    assert report.dataset is None
    assert report.facts is None


def test_a_wrong_count_of_cases_is_nobodys_business(root: Path) -> None:
    describe(root, numTraining=77)
    assert inspect_folder(root).problems == ()


def test_everything_wrong_is_said_at_once_and_the_fatal_first(root: Path) -> None:
    describe(root, labels={"background": 0, "organ": 1, "tumour": 2})
    (root / "imagesTr/a_0000.nii.gz").write_bytes(b"")
    write(root / "labelsTr/a.nii.gz", label() * 9, GEOMETRY)
    write(root / "labelsTr/b.nii.gz", label()[1:], replace(GEOMETRY, shape=(5, 7, 8)))
    write(root / "imagesTr/c_0000.nii.gz", with_voxel(image(), np.nan), GEOMETRY)
    problems = inspect_folder(root).problems
    assert [(problem.level, problem.file) for problem in problems] == [
        ("fatal", "imagesTr/a_0000.nii.gz"),
        ("fatal", "imagesTr/c_0000.nii.gz"),
        ("fatal", "labelsTr/a.nii.gz"),
        ("fatal", "labelsTr/b.nii.gz"),
        ("warning", "labelsTr"),
    ]


def test_files_are_read_even_where_the_description_is_broken(root: Path) -> None:
    describe(root, channel_names=None, labels=None)
    (root / "imagesTr/a_0000.nii.gz").write_bytes(b"")
    messages = [problem.message for problem in inspect_folder(root).problems]
    assert len(messages) == 3
    assert messages[2] == "is empty"


def test_a_path_relative_to_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "imagesTr/a_0000.nii.gz").write_bytes(b"")
    assert only(inspect_folder(Path())).file == "imagesTr/a_0000.nii.gz"
