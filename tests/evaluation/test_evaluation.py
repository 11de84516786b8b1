"""Folders of predictions and labels to scores, tables and JSON."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coranet.data.datasets.description import describe_predictions
from coranet.data.readers.nifti import write
from coranet.errors import InputError
from coranet.evaluation import Scores, evaluate, score_pair
from coranet.evaluation.folders import class_maps
from coranet.geometry import Geometry
from coranet.metrics import METRICS, Metric, score, summarise

DESCRIPTION = {"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "tumour": 2}}
Array = NDArray[Any]


def scan(path: Path, array: Array, spacing: tuple[float, ...] = (1.0, 1.0, 2.0), shift: float = 0.0) -> Path:
    affine = np.diag([*spacing, 1.0])
    affine[0, 3] = shift
    rows = tuple((a, b, c, d) for a, b, c, d in affine.tolist())
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y, z = array.shape
    write(path, array, Geometry(shape=(x, y, z), affine=rows))
    return path


def cube(value: int, start: int, size: int = 3, into: Array | None = None) -> Array:
    array = np.zeros((10, 9, 8), dtype=np.uint8) if into is None else into.copy()
    array[(slice(start, start + size),) * 3] = value
    return array


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Case a has both classes, well found; b has one, missed, and an invented other; c has the first alone, perfect."""
    predictions, labels = tmp_path / "predictions", tmp_path / "labelsTs"
    scan(labels / "a.nii.gz", cube(2, 5, into=cube(1, 1)))
    scan(predictions / "a.nii.gz", cube(2, 5, into=cube(1, 2)))
    scan(labels / "b.nii.gz", cube(1, 1))
    scan(predictions / "b.nii.gz", cube(2, 4))
    scan(labels / "c.nii", cube(1, 3))
    scan(predictions / "c.nii.gz", cube(1, 3))
    (tmp_path / "dataset.json").write_text(json.dumps(DESCRIPTION))
    return predictions, labels


def test_classes_of_one_name_and_two_numbers_are_refused(folders: tuple[Path, Path]) -> None:
    """As where a run and a test set number them otherwise: each would be scored as another, and nobody would know."""
    predictions, labels = folders
    describe_predictions(predictions, {0: "background", 1: "Tumour", 2: "liver"})
    with pytest.raises(InputError, match=rf"labelsTs: has (liver as 1|tumour as 2), and {predictions} has it as"):
        evaluate(predictions, labels)
    described = predictions / "dataset.json"
    describe_predictions(
        predictions, {0: "background", 1: "hepar", 2: "tumour"}
    )  # another name is none of ours to judge
    assert len(evaluate(predictions, labels).rows) == 6
    described.write_text('{"labels": {"background": 0, "mine": 1}}')
    describe_predictions(predictions, {0: "background", 1: "liver", 2: "tumour"})
    assert json.loads(described.read_text()) == {"labels": {"background": 0, "mine": 1}}


def test_cases_that_are_named_like_maps_are_scored_where_they_have_a_label(folders: tuple[Path, Path]) -> None:
    """Arms of a study, say; a map that its case has left behind is none."""
    predictions, labels = folders
    for name in ("P02_conservative", "P03_radical"):
        scan(predictions / f"{name}.nii.gz", cube(1, 1))
        scan(labels / f"{name}.nii.gz", cube(1, 1))
    scan(predictions / "gone_score.nii.gz", cube(1, 1))
    found = {row.case for row in evaluate(predictions, labels).rows}
    assert found == {"a", "b", "c", "P02_conservative", "P03_radical"}
    assert set(class_maps(predictions)) >= {"a", "b", "c", "P02_conservative", "P03_radical"}


def test_evaluate_folders(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    scan(predictions / "a_uncertain.nii.gz", cube(1, 1))
    scan(predictions / "a_probabilities.nii.gz", cube(1, 1))
    (predictions / "._a.nii.gz").write_bytes(b"left by a file manager")
    scores = evaluate(predictions, labels)
    assert [(row.case, row.class_name, row.value, row.status) for row in scores.rows] == [
        ("a", "liver", 1, "scored"),
        ("a", "tumour", 2, "scored"),
        ("b", "liver", 1, "missed"),
        ("b", "tumour", 2, "invented"),
        ("c", "liver", 1, "scored"),
        ("c", "tumour", 2, "absent"),
    ]
    expected = score(cube(1, 2) == 1, cube(1, 1) == 1, (1, 1, 2))
    assert {name: getattr(scores.rows[0], name) for name in METRICS} == {
        name: getattr(expected, name) for name in METRICS
    }
    assert scores.rows[0].dsc == 2 * 8 / 54
    assert scores.rows[0].hd_mm == pytest.approx(6**0.5)
    assert (scores.notes, scores.slices) == ((), ())


def test_a_map_beside_a_prediction_is_no_case_whatever_its_name(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    expected = evaluate(*folders)
    scan(predictions / "a_entropy_of_heads.nii.gz", cube(1, 1) * np.float32(0.3))
    scan(predictions / "c_score.nii.gz", cube(1, 1) * np.float32(0.3))
    assert repr(evaluate(*folders)) == repr(expected)
    scan(labels / "a_frame01.nii.gz", cube(1, 1))  # a case, as it has a label
    scan(predictions / "a_frame01.nii.gz", cube(1, 2))
    assert {row.case for row in evaluate(*folders).rows} == {"a", "a_frame01", "b", "c"}
    (predictions / "c.nii.gz").unlink()
    scan(predictions / "c_entropy.nii.gz", cube(1, 1))
    with pytest.raises(InputError, match="1 of 4 predictions: c_entropy"):
        evaluate(*folders)


def test_means_leave_out_what_is_absent_and_nothing_else(folders: tuple[Path, Path]) -> None:
    scores = evaluate(*folders)
    result = scores.to_json()
    first = 2 * 8 / 54
    assert scores.by_case("dsc") == {"a": pytest.approx((first + 1) / 2), "b": 0.0, "c": 1.0}
    assert result["mean"]["dsc"] == pytest.approx(((first + 1) / 2 + 0 + 1) / 3)
    assert result["per_class"]["liver"]["dsc"] == pytest.approx((first + 0 + 1) / 3)
    assert result["per_class"]["tumour"]["dsc"] == pytest.approx((1 + 0) / 2)
    assert result["per_class"]["tumour"]["hd"] == pytest.approx((0 + np.linalg.norm((10, 9, 8))) / 2)
    assert result["counts"]["liver"] == {"scored": 2, "missed": 1, "invented": 0, "absent": 0}
    assert result["counts"]["tumour"] == {"scored": 1, "missed": 0, "invented": 1, "absent": 1}


def test_json_is_json_and_complete(folders: tuple[Path, Path]) -> None:
    scores = evaluate(*folders)
    result = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert result == scores.to_json()
    assert list(result) == ["mean", "per_class", "per_case", "std", "intervals", "counts", "notes"]
    assert set(result["mean"]) == set(METRICS)
    assert set(result["per_case"]["a"]["liver"]) == {*METRICS, "status"}
    assert result["per_case"]["c"]["tumour"] == dict.fromkeys(METRICS) | {"status": "absent"}
    assert result["per_case"]["b"]["liver"]["dsc"] == 0
    summary = summarise(list(scores.by_case("assd_mm").values()))
    assert result["intervals"]["mean"]["assd_mm"] == [summary.low, summary.high]
    assert result["std"]["mean"]["assd_mm"] == summary.std
    assert result["intervals"]["per_class"]["tumour"]["dsc"] == [0, 1]


def test_a_class_that_is_nowhere_is_null_in_every_mean(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    for folder in folders:
        for case in ("a", "b"):
            (folder / f"{case}.nii.gz").unlink()
    result = evaluate(predictions, labels).to_json()
    assert result["per_class"]["tumour"] == dict.fromkeys(METRICS)
    assert result["mean"]["dsc"] == 1


def test_csv_round_trip(folders: tuple[Path, Path], tmp_path: Path) -> None:
    scores = evaluate(*folders, per_slice=True)
    path = tmp_path / "scores.csv"
    scores.write_csv(path)
    again = Scores.read_csv(path)
    assert json.dumps(again.to_json()) == json.dumps(scores.to_json())
    assert repr(again) == repr(scores)  # NaN is not equal to itself, but reads the same
    assert path.read_text().splitlines()[0].startswith("case,class_name,value,status,dsc,")
    assert path.read_text().splitlines()[-1] == f"c,tumour,2,absent,{',' * len(METRICS)}0,0"

    whole = replace(scores, slices=())
    whole.write_csv(path)
    assert repr(Scores.read_csv(path)) == repr(whole)
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["dataset.json", "scores.csv"]


def test_csv_keeps_odd_names(tmp_path: Path) -> None:
    rows = score_pair(cube(1, 1), cube(1, 2), {1: 'left, "upper" löbe'}, (1, 1, 1), case="a,b\nc")
    Scores(rows=rows).write_csv(tmp_path / "scores.csv")
    assert Scores.read_csv(tmp_path / "scores.csv").rows == rows


@pytest.mark.parametrize("metric", ["dsc", "hd95_mm"])
def test_a_mean_alone_is_that_of_the_summary(folders: tuple[Path, Path], metric: str) -> None:
    scores = evaluate(*folders)
    assert scores.mean_of(metric) == scores.mean()[metric].mean
    for name, of in scores.per_class().items():
        assert scores.mean_of(metric, name) == of[metric].mean


def test_a_table_made_before_or_after_a_metric_was_added_is_read(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scores.csv"
    before = evaluate(*folders)
    before.write_csv(path)
    newer = Metric("Volume difference", "%", lambda pairing: abs(pairing.counts.fp - pairing.counts.fn) / 10)
    monkeypatch.setitem(METRICS, "volume", newer)

    scores = evaluate(*folders)
    assert scores.rows[0].volume == 0.0
    assert scores.to_json()["mean"]["volume"] == scores.mean()["volume"].mean
    old = Scores.read_csv(path)
    assert [row.dsc for row in old.rows[:5]] == [row.dsc for row in before.rows[:5]]
    assert all(isnan(row.volume) for row in old.rows)
    assert old.to_json()["mean"]["volume"] is None

    scores.write_csv(path)
    assert repr(Scores.read_csv(path)) == repr(scores)
    monkeypatch.delitem(METRICS, "volume")
    assert repr(Scores.read_csv(path)) == repr(before)  # a column that is not known here is passed over


def test_a_score_has_its_metrics_as_attributes_and_nothing_else() -> None:
    one = score(cube(1, 1) == 1, cube(1, 2) == 1, (1, 1, 1))
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
    with pytest.raises(AttributeError, match="no dice"):
        _ = one.dice


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("status", "state"), "no column status"),
        (lambda text: text.replace("scored", "guessed"), "no status is called guessed"),
        (lambda text: text.replace("\n", ",7\n").replace(",7\n", "\n", 1), "a line is longer"),
        (
            lambda text: "\n".join(",".join([*line.split(",")[:4], "1", "1"]) for line in text.split()),
            "no column",
        ),
    ],
)
def test_what_a_table_lacks_is_said(
    folders: tuple[Path, Path], tmp_path: Path, change: Callable[[str], str], reason: str
) -> None:
    path = tmp_path / "scores.csv"
    evaluate(*folders).write_csv(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=rf"is not a table of scores \({reason}"):
        Scores.read_csv(path)


@pytest.mark.parametrize("content", ["", "case,dice\na,1\n", "\x00\x01", "{}"])
def test_what_is_not_a_table_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"scores.csv: is not a table of scores"):
        Scores.read_csv(path)


def test_a_table_cut_short_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    evaluate(*folders).write_csv(path)
    path.write_text(path.read_text()[:-10])
    with pytest.raises(InputError, match=r"scores.csv: is not a table of scores"):
        Scores.read_csv(path)


def test_files_that_cannot_be_reached(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.csv: cannot be read"):
        Scores.read_csv(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"scores.csv: cannot be written"):
        evaluate(*folders).write_csv(tmp_path / "none" / "scores.csv")


def test_two_files_need_not_share_a_name(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    scores = evaluate(predictions / "a.nii.gz", labels / "c.nii")
    assert [(row.case, row.class_name, row.status) for row in scores.rows] == [
        ("a", "liver", "scored"),
        ("a", "tumour", "invented"),
    ]


def test_labels_without_prediction_are_noted(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    (predictions / "a.nii.gz").unlink()
    (predictions / "c.nii.gz").unlink()
    scores = evaluate(predictions, labels)
    assert {row.case for row in scores.rows} == {"b"}
    assert scores.notes == ("2 of 3 labels have no prediction and are not scored: a, c",)
    assert scores.to_json()["notes"] == list(scores.notes)


def test_values_that_never_meet_are_no_dice_of_0(tmp_path: Path) -> None:
    scan(tmp_path / "p" / "a.nii.gz", cube(1, 1))
    scan(tmp_path / "l" / "a.nii.gz", cube(255, 1))
    with pytest.raises(InputError, match=r"l: holds the values 255, and the predictions 1\. Number classes alike"):
        evaluate(tmp_path / "p", tmp_path / "l")
    (tmp_path / "l" / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "liver": 1, "tumour": 2}}))
    scan(tmp_path / "l" / "a.nii.gz", cube(2, 1))
    assert evaluate(tmp_path / "p", tmp_path / "l").mean()["dsc"].mean == 0  # a wrong answer, where both are classes
    (tmp_path / "l" / "dataset.json").unlink()
    scan(tmp_path / "p" / "b.nii.gz", cube(1, 1))
    scan(tmp_path / "l" / "b.nii.gz", cube(1, 5))
    assert [row.value for row in evaluate(tmp_path / "p", tmp_path / "l").rows] == [1, 2, 1, 2]


@pytest.mark.parametrize("home", ["labels", "predictions"])
def test_where_classes_are_declared(folders: tuple[Path, Path], tmp_path: Path, home: str) -> None:
    predictions, labels = folders
    (tmp_path / "dataset.json").unlink()
    older = {"modality": {"0": "CT"}, "labels": {"0": "background", "1": "atrium", "2": "ventricle"}}
    ({"labels": labels, "predictions": predictions}[home] / "dataset.json").write_text(json.dumps(older))
    assert {row.class_name for row in evaluate(predictions, labels).rows} == {"atrium", "ventricle"}


def test_only_the_classes_of_a_description_count(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": DESCRIPTION["labels"]}))
    assert {row.class_name for row in evaluate(*folders).rows} == {"liver", "tumour"}


def test_undeclared_classes_are_the_values_that_occur(folders: tuple[Path, Path], tmp_path: Path) -> None:
    predictions, labels = folders
    (tmp_path / "dataset.json").unlink()
    scan(predictions / "c.nii.gz", cube(7, 3).astype(np.float32))
    rows = evaluate(predictions, labels).rows
    assert [(row.value, row.class_name) for row in rows] == [(1, "1"), (2, "2"), (7, "7")] * 3
    assert rows[-1].status == "invented"


def _broken(folders: tuple[Path, Path], what: str) -> None:
    predictions, labels = folders
    root = labels.parent
    match what:
        case "no label":
            scan(predictions / "d.nii.gz", cube(1, 1))
            scan(predictions / "e.nii.gz", cube(1, 1))
        case "no predictions":
            for file in predictions.iterdir():
                file.unlink()
        case "no folder":
            labels.rename(root / "elsewhere")
        case "twice":
            scan(labels / "c.nii.gz", cube(1, 3))
        case "shape":
            scan(predictions / "b.nii.gz", cube(1, 1)[:-1])
        case "shift":
            scan(predictions / "b.nii.gz", cube(1, 1), shift=0.05)
        case "unknown value":
            scan(predictions / "b.nii.gz", cube(3, 1))
        case "unknown label value":
            scan(labels / "b.nii.gz", cube(9, 1))
        case "not whole":
            scan(predictions / "b.nii.gz", cube(1, 1) * np.float32(0.5))
        case "not finite":
            scan(predictions / "b.nii.gz", cube(1, 1) * np.float32(nan))
        case "regions":
            (root / "dataset.json").write_text(json.dumps({**DESCRIPTION, "labels": {"background": 0, "all": [1, 2]}}))
        case "ignore":
            (root / "dataset.json").write_text(
                json.dumps({**DESCRIPTION, "labels": {"background": 0, "liver": 2, "ignore": 1}})
            )
        case "not NIfTI":
            (predictions / "b.nii.gz").write_bytes(b"broken")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no label", r"labelsTs: has no label for 2 of 5 predictions: d, e\. "),
        ("no predictions", r"predictions: has no prediction to score\. "),
        ("no folder", r"labelsTs: does not exist\. "),
        ("twice", r"c\.nii\.gz: is the same case as c\.nii\. "),
        ("shape", r"predictions/b\.nii\.gz: .*labelsTs/b\.nii\.gz: .*\(9, 9, 8\) and \(10, 9, 8\)"),
        ("shift", r"predictions/b\.nii\.gz: .*labelsTs/b\.nii\.gz: .*0\.05 voxels"),
        ("unknown value", r"predictions/b\.nii\.gz: has values that are no class: 3\. .*1 liver, 2 tumour"),
        ("unknown label value", r"labelsTs/b\.nii\.gz: has values that are no class: 9\. "),
        ("not whole", r"predictions/b\.nii\.gz: .*whole numbers\. "),
        ("not finite", r"predictions/b\.nii\.gz: .*whole numbers\. "),
        ("regions", r"dataset\.json: .*region"),
        ("ignore", r"dataset\.json: .*ignore"),
        ("not NIfTI", r"predictions/b\.nii\.gz"),
    ],
)
def test_mistakes_are_named(folders: tuple[Path, Path], what: str, message: str) -> None:
    _broken(folders, what)
    with pytest.raises(InputError, match=message):
        evaluate(*folders)


def test_a_rounded_affine_is_the_same(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    scan(predictions / "b.nii.gz", cube(1, 1), shift=0.0005)
    assert len(evaluate(predictions, labels).rows) == 6


def test_per_slice_means_are_over_slices_that_have_something(folders: tuple[Path, Path]) -> None:
    scores = evaluate(*folders, per_slice=True)
    assert len(scores.slices) == 3 * 8 * 2
    result = scores.to_json()["per_slice"]
    # Slice by slice, liver: case a has one slice missed, two of 4 shared pixels in 9 and 9, one invented; b three
    # missed; c three perfect. Tumour: a has three perfect, b three invented.
    overlap = 2 * 4 / 18
    assert result["per_class"]["liver"]["dsc"] == pytest.approx((0 + 2 * overlap + 0 + 3 * 0 + 3 * 1) / 10)
    assert result["per_class"]["tumour"]["dsc"] == pytest.approx((3 * 1 + 3 * 0) / 6)
    assert result["counts"]["liver"] == {"scored": 5, "missed": 4, "invented": 1, "absent": 14}
    # No slice has both, so that together there are 10 and 6.
    assert result["mean"]["dsc"] == pytest.approx((2 * overlap + 3 * 1 + 3 * 1) / 16)


def drawn_in_part(labels: Path) -> None:
    """Label a is drawn in slices 1 to 3 alone, and c nowhere."""
    array = cube(2, 5, into=cube(1, 1))
    array[..., 4:] = 3
    array[..., 0] = 3
    scan(labels / "a.nii.gz", array)
    scan(labels / "c.nii", np.full((10, 9, 8), 3, np.uint8))
    about = {**DESCRIPTION, "labels": {**DESCRIPTION["labels"], "ignore": 3}}
    (labels.parent / "dataset.json").write_text(json.dumps(about))


def test_voxels_that_nobody_drew_are_left_out_and_that_is_said(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    drawn_in_part(labels)
    before = evaluate(predictions, labels, per_slice=True)
    array = cube(2, 5, into=cube(1, 2))
    array[..., 4:], array[..., 0] = 1, 2  # whatever is said there
    scan(predictions / "a.nii.gz", array)
    scores = evaluate(predictions, labels, per_slice=True)
    assert str(scores.rows) == str(before.rows)  # what is not a number equals nothing
    assert {row.case for row in scores.rows} == {"a", "b"}
    assert {row.slice_index for row in scores.slices if row.case == "a"} == {1, 2, 3}
    here, there = cube(1, 2)[..., 1:4], cube(1, 1)[..., 1:4]
    (liver,) = [row for row in scores.rows if (row.case, row.value) == ("a", 1)]
    assert liver.dsc == pytest.approx(2 * (here & there).sum() / (here.sum() + there.sum()))
    assert scores.notes[0] == "Nothing is drawn in 1 labels, which are not scored: c"
    assert scores.notes[1].startswith(
        "1 labels are drawn in part (37.5 to 37.5 % of their voxels): the rest is left out"
    )


def test_a_prediction_may_not_hold_the_ignored_value(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    drawn_in_part(labels)
    scan(predictions / "a.nii.gz", cube(3, 1))
    with pytest.raises(InputError, match=r"predictions/a\.nii\.gz: has values that are no class: 3"):
        evaluate(predictions, labels)


def test_labels_of_which_nothing_is_drawn_are_refused(folders: tuple[Path, Path]) -> None:
    predictions, labels = folders
    drawn_in_part(labels)
    with pytest.raises(InputError, match="no voxel that is drawn"):
        evaluate(predictions / "c.nii.gz", labels / "c.nii")
