"""What `coranet doctor` says of labels that are drawn in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coranet.cli.doctor import DoctorVerb
from coranet.data.doctor.drawing import drawn_of, seems_sparse
from coranet.data.doctor.inspection import inspect_folder
from coranet.data.readers.nifti import write
from coranet.report.pictures.overlay import draw_row
from tests.data.doctor.test_inspection import DESCRIPTION, GEOMETRY, describe, image, label

LABELS = {"background": 0, "organ": 1, "ignore": 2}


def sparse_label() -> np.ndarray:
    """Drawn in two of eight slices."""
    array = np.full(GEOMETRY.shape, 2, np.uint8)
    array[..., [3, 5]] = label()[..., [3, 5]]
    return array


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A case that is wholly drawn, one drawn in two slices, one unlabelled."""
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    for seed, name in enumerate("abc"):
        write(tmp_path / f"imagesTr/{name}_0000.nii.gz", image(seed), GEOMETRY)
    write(tmp_path / "labelsTr/a.nii.gz", label(), GEOMETRY)
    write(tmp_path / "labelsTr/b.nii.gz", sparse_label(), GEOMETRY)
    describe(tmp_path, labels=LABELS)
    return tmp_path


def test_how_much_is_drawn() -> None:
    drawn = drawn_of(sparse_label(), 2)
    assert str(drawn) == "25 % of its voxels, in 2 of 8 slices along z"
    assert drawn_of(label(), 2) is None
    assert drawn_of(sparse_label(), None) is None
    scribble = np.full((4, 4, 4), 2, np.uint8)
    scribble[range(4), range(4), range(4)] = 1
    assert str(drawn_of(scribble, 2)) == "6.25 % of its voxels"


def test_the_report_says_how_much_and_calls_nothing_strange(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = inspect_folder(root)
    assert not report.problems
    assert report.facts is not None
    assert {case: drawn.planes for case, drawn in report.facts.partial.items()} == {"b": 2}
    share = (label().sum() + (sparse_label() == 1).sum()) / (label().size * 1.25)
    assert report.facts.class_shares["organ"] == pytest.approx(share)
    assert "amount of organ" in report.notes["a"]
    assert "amount of organ" not in report.notes["b"]
    assert DoctorVerb(data=root)() == 0
    assert "in part, in 1 cases: b 25 % of its voxels, in 2 of 8 slices along z" in capsys.readouterr().out


def test_a_value_that_is_neither_class_nor_ignored_is_strange(root: Path) -> None:
    write(root / "labelsTr/b.nii.gz", np.where(sparse_label() == 1, 7, sparse_label()).astype(np.uint8), GEOMETRY)
    problems = inspect_folder(root).problems
    assert [p.message for p in problems if p.level == "fatal"] == [
        "has label values 7 that dataset.json does not name (0 background, 1 organ)"
    ]


def test_a_label_in_which_nothing_is_drawn_is_refused(root: Path) -> None:
    write(root / "labelsTr/b.nii.gz", np.full(GEOMETRY.shape, 2, np.uint8), GEOMETRY)
    report = inspect_folder(root)
    assert report.fatal
    assert "has no voxel that is drawn" in report.problems[0].message


def test_without_an_ignore_label_sparse_slices_are_never_guessed_but_hinted_at(root: Path) -> None:
    lone = np.zeros(GEOMETRY.shape, np.uint8)
    lone[2:4, 2:5, [1, 3, 6]] = 1
    assert seems_sparse(lone) == (3, 6, "z")
    assert seems_sparse(label()) is None
    describe(root, labels=DESCRIPTION["labels"])
    write(root / "labelsTr/b.nii.gz", lone, GEOMETRY)
    report = inspect_folder(root)
    assert not report.fatal
    (hint,) = [problem for problem in report.problems if "ignore" in problem.remedy]
    assert "objects in 3 of 6 slices along z" in hint.message
    assert report.facts is not None
    assert not report.facts.partial


def test_a_picture_shows_what_is_not_drawn_as_not_drawn(root: Path) -> None:
    rows = []
    report = inspect_folder(root, on_case=lambda *seen: rows.append(draw_row(*seen)))
    assert report.dataset is not None
    facts = {row.name: row.facts for row in rows}
    assert "drawn: 25 % of its voxels, in 2 of 8 slices along z" in facts["b"]
    assert not any(fact.startswith("drawn") for fact in facts["a"])
