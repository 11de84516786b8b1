"""Calibration from files: numbers against loops over voxels, score maps of real runs, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from math import isnan, nan
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

import coranet
from coranet.cli import main
from coranet.data.grid import Grid
from coranet.data.prepare.cases import restore_score
from coranet.data.readers.nifti import write
from coranet.engine.codec import encode
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.evaluation import Calibrations, evaluate, evaluate_calibration
from coranet.evaluation.reliability import MEASURES
from coranet.geometry import Geometry
from coranet.metrics import summarise
from coranet.runs.launch import train
from tests.uncertainty.quick import QUICK

SHAPE = (4, 3, 2)
CASES = ("a", "b", "c")


def lay(path, array, shift=0.0):
    """Write an array on the grid that all cases share, or beside it."""
    affine = ((1.0, 0.0, 0.0, shift), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 2.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    x, y, z = array.shape[:3]
    write(path, array, Geometry(shape=(x, y, z), affine=affine))


def draw(seed):
    """Maps of a case: three classes, scores with many ties, mistakes in about a third of the voxels."""
    rng = np.random.default_rng(seed)
    soft = rng.dirichlet((1, 1, 1), SHAPE).astype(np.float32)
    prediction = soft.argmax(-1).astype(np.uint8)
    label = np.where(rng.random(SHAPE) < 0.3, rng.integers(0, 3, SHAPE), prediction).astype(np.uint8)
    score = (rng.integers(0, 5, SHAPE) / 4).astype(np.float32)
    return {
        "": prediction,
        "_uncertain": (score > 0.6).astype(np.uint8),
        "_score": score,
        "_probabilities": soft,
    }, label


@pytest.fixture
def folders(tmp_path):
    """Three cases, of which c has no error."""
    for seed, case in enumerate(CASES):
        maps, label = draw(seed)
        for kind, array in maps.items():
            lay(tmp_path / f"p/{case}{kind}.nii.gz", array)
        lay(tmp_path / f"labels/{case}.nii.gz", maps[""] if case == "c" else label)
    return tmp_path / "p", tmp_path / "labels"


def by_hand(maps, label):
    """Each measure by a walk over voxels."""
    voxels = list(np.ndindex(SHAPE))
    wrong = [v for v in voxels if maps[""][v] != label[v]]
    certain = [v for v in voxels if not maps["_uncertain"][v]]
    sure = {v: float(maps["_probabilities"][v][maps[""][v]]) for v in voxels}
    score = {v: float(maps["_score"][v]) for v in voxels}

    def gap(of, confidence):
        bins = [[] for _ in range(15)]
        for v in of:
            bins[min(int(confidence[v] * 15), 14)].append(((v not in wrong), confidence[v]))
        return sum(abs(sum(right for right, _ in b) - sum(sure for _, sure in b)) for b in bins) / len(of)

    def held(doubt):
        """Errors among as many voxels as are uncertain; among equals, the share that luck would find."""
        left, found = len(voxels) - len(certain), 0.0
        for value in sorted(set(doubt.values()), reverse=True):
            equals = [v for v in voxels if doubt[v] == value]
            taken = min(left, len(equals))
            found += taken / len(equals) * sum(v in wrong for v in equals)
            left -= taken
        return found / len(wrong) if wrong else nan

    points = [(0.0, 0.0)]
    for threshold in sorted({float(maps["_score"][v]) for v in voxels}):
        kept = [v for v in voxels if maps["_score"][v] <= threshold]
        points.append((len(kept) / len(voxels), sum(v in wrong for v in kept) / len(voxels)))
    share = len(wrong) / len(voxels)
    return {
        "error_share": share,
        "uncertain_share": 1 - len(certain) / len(voxels),
        "errors_held": sum(v not in certain for v in wrong) / len(wrong) if wrong else nan,
        "certain_error_share": sum(v in wrong for v in certain) / len(certain),
        "certain_ece": gap(certain, sure),
        "score_held": held(score),
        "softmax_held": held({v: -sure[v] for v in voxels}),
        "score_ece": gap(voxels, {v: 1 - score[v] for v in voxels}),
        "softmax_ece": gap(voxels, sure),
        "retention_area": sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points)),
        "area_at_random": share / 2,
        "area_at_best": share * share / 2,
    }


# Numbers


def test_every_measure_is_what_a_walk_over_voxels_finds(folders):
    found = evaluate_calibration(*folders)
    assert [row.case for row in found.rows] == list(CASES)
    for seed, row in enumerate(found.rows):
        maps, label = draw(seed)
        expected = by_hand(maps, maps[""] if row.case == "c" else label)
        assert {name: getattr(row, name) for name in MEASURES} == pytest.approx(expected, nan_ok=True, abs=1e-7)
    assert found.rows[0].error_share > 0
    assert isnan(found.rows[2].errors_held)


def test_means_are_over_cases_and_leave_out_those_without_errors(folders):
    found = evaluate_calibration(*folders)
    a, b, c = (row.errors_held for row in found.rows)
    summary = summarise([a, b, c])
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["mean"]["errors_held"] == pytest.approx((a + b) / 2) == pytest.approx(summary.mean)
    assert content["intervals"]["errors_held"] == [summary.low, summary.high]
    assert content["std"]["errors_held"] == summary.std
    assert content["mean"]["error_share"] == pytest.approx(sum(row.error_share for row in found.rows) / 3)
    assert content["per_case"]["c"]["errors_held"] is None
    assert set(content["mean"]) == set(content["per_case"]["a"]) == set(MEASURES)


def test_the_confidence_is_that_of_the_class_in_the_file(folders):
    """Also where a person has since changed the prediction."""
    predictions, labels = folders
    maps, label = draw(0)
    maps[""] = (2 - maps[""]).astype(np.uint8)
    lay(predictions / "a.nii.gz", maps[""])
    row = evaluate_calibration(predictions, labels).rows[0]
    assert row.certain_ece == pytest.approx(by_hand(maps, label)["certain_ece"], abs=1e-7)


def test_one_file_against_another_finds_the_maps_beside_it(folders, tmp_path):
    predictions, labels = folders
    whole = evaluate_calibration(*folders)
    (labels / "b.nii.gz").rename(tmp_path / "truth.nii.gz")
    for name in ("score", "uncertain"):
        (predictions / f"b_{name}.nii.gz").unlink()
        lay(predictions / f"b_{name}.nii", draw(1)[0][f"_{name}"])
    assert evaluate_calibration(predictions / "b.nii.gz", tmp_path / "truth.nii.gz").rows == whole.rows[1:2]


def test_score_maps_are_no_class_maps(folders):
    assert {row.case for row in evaluate(*folders).rows} == set(CASES)


# The table


def test_csv_round_trip(folders, tmp_path):
    found = evaluate_calibration(*folders)
    found.write_csv(tmp_path / "calibration.csv")
    assert repr(Calibrations.read_csv(tmp_path / "calibration.csv")) == repr(found)
    first, *_, last = (tmp_path / "calibration.csv").read_text().splitlines()
    assert first == ",".join(("case", *MEASURES))
    assert last.split(",")[3] == ""  # no error that could be held


@pytest.mark.parametrize(
    "content", ["", "case,dice\na,1\n", "{}", ",".join(("case", *MEASURES)) + "\na,1,2\n", "\x00\x01"]
)
def test_what_is_not_a_table_is_refused(tmp_path, content):
    (tmp_path / "calibration.csv").write_text(content)
    with pytest.raises(InputError, match=r"calibration\.csv: is not a table of calibration"):
        Calibrations.read_csv(tmp_path / "calibration.csv")


def test_a_measure_that_a_table_lacks_is_not_a_number(folders, tmp_path):
    first, *others = MEASURES
    (tmp_path / "calibration.csv").write_text(f"case,{first},new\na,0.25,7\n")
    (row,) = Calibrations.read_csv(tmp_path / "calibration.csv").rows
    assert (row.case, getattr(row, first)) == ("a", 0.25)
    assert all(np.isnan(getattr(row, name)) for name in others)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        Calibrations.read_csv(tmp_path / "none.csv")


# The command


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def test_the_command_adds_to_what_it_says_without(capsys, folders, tmp_path):
    plain = run(capsys, "evaluate", *folders)[1]
    assert "uncertain" not in plain
    code, out, err = run(capsys, "evaluate", *folders, "--calibration", "--out", tmp_path / "scores.csv")
    assert code == 0
    assert out.startswith(plain)
    assert str(tmp_path / "scores_calibration.csv") in err
    found = evaluate_calibration(*folders)
    assert repr(Calibrations.read_csv(tmp_path / "scores_calibration.csv")) == repr(found)
    held = next(line for line in out.splitlines() if line.startswith("errors in the uncertain region"))
    summary = found.mean()["errors_held"]
    assert held.split()[5:] == [f"{100 * v:.2f}" for v in (summary.mean, summary.low)] + [
        "to",
        f"{100 * summary.high:.2f}",
    ]


def test_the_command_s_json(capsys, folders, tmp_path):
    plain = json.loads(run(capsys, "evaluate", *folders, "--json")[1])
    both = json.loads(run(capsys, "evaluate", *folders, "--json", "--calibration")[1])
    assert both.pop("calibration") == evaluate_calibration(*folders).to_json()
    assert both == plain
    assert not (tmp_path / "calibration.csv").exists()


def test_each_run_of_the_command_has_a_calibration_of_its_own(capsys, folders, tmp_path):
    for name in ("first", "second", "calibration"):
        assert run(capsys, "evaluate", *folders, "--calibration", "--out", tmp_path / f"{name}.csv")[0] == 0
    made = {file.name for file in tmp_path.glob("*.csv")}
    assert made == {
        f"{name}{end}" for name in ("first", "second", "calibration") for end in (".csv", "_calibration.csv")
    }


# What is refused


def test_maps_that_are_missing_are_named_once_with_the_way_to_make_them(folders):
    predictions, labels = folders
    for case in CASES:
        (predictions / f"{case}_probabilities.nii.gz").unlink()
    (predictions / "b_score.nii.gz").unlink()
    with pytest.raises(InputError) as caught:
        evaluate_calibration(predictions, labels)
    message = str(caught.value)
    assert "<case>_score.nii.gz of 1 of 3 cases (b); <case>_probabilities.nii.gz of 3 of 3 cases (a, b, c)" in message
    assert message.endswith("coranet predict RUN SCANS --out DIR --probabilities.")
    (predictions / "a_uncertain.nii.gz").unlink()
    with pytest.raises(InputError, match=r"_uncertain\.nii\.gz of 1 of 3 cases \(a\).* without --no-uncertainty\.$"):
        evaluate_calibration(predictions, labels)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("uncertain", lambda array: 2 * array, "values other than 0, certain, and 1, uncertain"),
        ("uncertain", lambda array: array * np.float32(0.5), "not whole numbers"),
        ("score", lambda array: array * nan, "scores that are not finite"),
        ("score", lambda array: array[:-1], r"grid of its prediction .*b\.nii\.gz: sizes differ: \(3, 3, 2\)"),
        ("probabilities", lambda array: 300 * array, "no probabilities"),
        ("probabilities", lambda array: array * nan, "no probabilities"),
        ("probabilities", lambda array: array[..., :2], "has 2 frames, not frame 2"),
        ("probabilities", lambda array: array[:, :2], "grid of its prediction"),
    ],
)
def test_maps_that_hold_what_they_cannot(folders, kind, change, message):
    predictions, labels = folders
    lay(predictions / f"b_{kind}.nii.gz", change(draw(1)[0][f"_{kind}"]))
    with pytest.raises(InputError, match=rf"b_{kind}\.nii\.gz: .*{message}"):
        evaluate_calibration(predictions, labels)


@pytest.mark.parametrize("kind", ["uncertain", "score", "probabilities"])
def test_maps_that_lie_elsewhere(folders, kind):
    predictions, labels = folders
    lay(predictions / f"a_{kind}.nii.gz", draw(0)[0][f"_{kind}"], shift=0.5)
    with pytest.raises(InputError, match=rf"a_{kind}\.nii\.gz: does not lie on the grid .* by up to 0\.5 voxels"):
        evaluate_calibration(predictions, labels)


def test_what_cannot_be_scored_cannot_be_calibrated(folders, tmp_path):
    with pytest.raises(InputError, match="nowhere: does not exist"):
        evaluate_calibration(tmp_path / "nowhere", folders[1])
    (folders[1] / "b.nii.gz").unlink()
    with pytest.raises(InputError, match="has no label for 1 of 3 predictions: b"):
        evaluate_calibration(*folders)


# Scores of real runs


def maps_of(folder: Path, case: str = "phantom_007"):
    """A case's maps by kind, as images."""
    names = ("", "_uncertain", "_score", "_probabilities")
    return {name: nib.load(folder / f"{case}{name}.nii.gz") for name in names}


def predicted(trained, scans, out):
    trained.predict_files(scans / "imagesTs", out, only=["phantom_007"], probabilities=True)
    return {name: np.asarray(image.dataobj) for name, image in maps_of(out).items()}


def sharpen(net):
    """Heads that hardly know anything yet, made sure of themselves: scores from 0 to 1."""
    for name, head in net.named_modules():
        if name.endswith(("heads.con", "heads.rad")):
            for parameter in head.parameters():
                parameter.data *= 40


def check_crm(uncertain, score):
    """Heads on either side of a half differ; heads on one side of it differ by a half at most.

    No more than that holds: 0.1 and 0.4 are certain, and farther apart than 0.45 and 0.55, which are not.
    """
    assert 0 < uncertain.sum() < uncertain.size
    assert (score > 0.5).any()
    assert (score[uncertain == 1] > 0).all()
    assert (uncertain[score > 0.5] == 1).all()


def test_scores_of_the_conservative_radical_module(finished, scans, tmp_path):
    trained = replace(coranet.load(finished, "cpu"), fitted=None)
    sharpen(trained.predictor.segmenter.net)
    maps = predicted(trained, scans, tmp_path)
    check_crm(maps["_uncertain"], maps["_score"])


def test_scores_of_one_network_per_object(scans, small, tmp_path):
    trained = coranet.load(train(scans, tmp_path / "run", small(steps=1, classes="binary")), "cpu")
    sharpen(trained.predictor.segmenter.net)
    maps = predicted(trained, scans, tmp_path / "p")
    check_crm(maps["_uncertain"], maps["_score"])


@pytest.mark.parametrize("name", [name for name, estimator in QUICK.items() if hasattr(estimator, "threshold")])
def test_scores_of_thresholds(scans, small, tmp_path, name):
    """No certain voxel has a larger score than an uncertain one."""
    overrides = (("method.regions", json.dumps(encode(QUICK[name]))),)
    trained = coranet.load(train(scans, tmp_path / "run", small(steps=1, overrides=overrides)), "cpu")
    middle = float(np.median(trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz").score))
    segmenter = trained.predictor.segmenter
    estimator = segmenter.estimator
    estimator = replace(estimator, threshold=middle if estimator.of_score else 1 - middle)
    halved = replace(trained.predictor, segmenter=replace(segmenter, estimator=estimator))
    maps = predicted(replace(trained, predictor=halved), scans, tmp_path / "p")
    uncertain, score = maps["_uncertain"] == 1, maps["_score"]
    assert 0.3 < uncertain.mean() < 0.7
    assert score[uncertain].min() >= score[~uncertain].max()
    if name in ("softmax", "tta", "mc_dropout"):
        np.testing.assert_allclose(score, 1 - maps["_probabilities"].max(-1), atol=1.01 / 65535)


def test_scores_lie_where_the_scan_does(finished, scans, tmp_path):
    """A scan that is turned gets its scores turned, exact to a step of its file."""
    scan = nib.load(scans / "imagesTs/phantom_007_0000.nii.gz")
    turn = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(scan.affine), nib.orientations.axcodes2ornt(("P", "R", "I"))
    )
    (tmp_path / "in").mkdir()
    nib.save(scan, tmp_path / "in/straight.nii.gz")
    nib.save(scan.as_reoriented(turn), tmp_path / "in/turned.nii.gz")
    trained = coranet.load(finished, "cpu")
    trained.predict_files(tmp_path / "in", tmp_path / "out")
    straight, turned = (nib.load(tmp_path / f"out/{name}_score.nii.gz") for name in ("straight", "turned"))
    np.testing.assert_allclose(turned.affine, scan.as_reoriented(turn).affine, atol=1e-5)
    np.testing.assert_array_equal(np.asarray(straight.as_reoriented(turn).dataobj), np.asarray(turned.dataobj))
    score = trained.predict(tmp_path / "in/straight.nii.gz").score
    np.testing.assert_allclose(score, np.asarray(straight.dataobj), atol=0.51 / 65535)


def test_scores_come_back_from_another_grid_as_probabilities_do():
    """From a store twice as coarse along one axis, beginning a voxel late: lines between, nothing outside."""
    affine = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    native = Geometry(shape=(8, 1, 1), affine=affine)
    grid = Grid(
        native=native,
        axes=(0, 1, 2),
        flips=(False, False, False),
        shape=(3, 1, 1),
        scale=(2.0, 1.0, 1.0),
        offset=(2.5, 0.0, 0.0),
    )
    restored = restore_score(np.array([4.0, 8.0, 0.0], np.float32).reshape(3, 1, 1), grid)
    np.testing.assert_allclose(restored.ravel(), [0, 0, 4, 5, 7, 6, 2, 0], atol=1e-6)


def test_scores_of_a_resized_run_are_on_the_scan_s_grid(scans, small, tmp_path):
    overrides = (("data.window.size", "[64, 64]"),)
    run = train(scans, tmp_path / "run", small(method="supervised", preset="paper", steps=1, overrides=overrides))
    maps = predicted(coranet.load(run, "cpu"), scans, tmp_path / "p")
    assert maps["_score"].shape == (32, 32, 3)
    assert ((maps["_score"] >= 0) & (maps["_score"] <= 0.75 + 1e-6)).all()


def test_from_a_run_to_its_calibration(capsys, finished, scans, tmp_path):
    out, labels = tmp_path / "p", scans / "labelsTs"
    predict = ["predict", finished, scans / "imagesTs", "--out", out, "--device", "cpu"]
    assert run(capsys, *predict, "--no-uncertainty")[0] == 0
    code, _, err = run(capsys, "evaluate", out, labels, "--calibration")
    assert code == 1
    assert "--probabilities, and without --no-uncertainty" in err
    assert run(capsys, *predict, "--probabilities")[0] == 0
    code, text, _ = run(capsys, "evaluate", out, labels, "--calibration", "--json")
    assert code == 0
    found = json.loads(text)["calibration"]["per_case"]["phantom_007"]
    maps = {name: np.asarray(image.dataobj) for name, image in maps_of(out).items()}
    wrong = maps[""] != np.asarray(nib.load(labels / "phantom_007.nii.gz").dataobj)
    assert found["error_share"] == pytest.approx(wrong.mean())
    assert found["errors_held"] == pytest.approx(maps["_uncertain"][wrong].mean())
    assert found["area_at_best"] <= found["retention_area"]


def test_a_flat_scan_is_calibrated(finished, tmp_path):
    pixels = np.random.default_rng(0).random((32, 32), np.float32)
    nib.save(nib.Nifti1Image(pixels, np.eye(4)), tmp_path / "flat.nii.gz")
    coranet.load(finished, "cpu").predict_files(tmp_path / "flat.nii.gz", tmp_path / "p", probabilities=True)
    assert nib.load(tmp_path / "p/flat_score.nii.gz").shape == (32, 32)
    nib.save(nib.Nifti1Image(np.zeros((32, 32), np.uint8), np.eye(4)), tmp_path / "truth.nii.gz")
    (row,) = evaluate_calibration(tmp_path / "p/flat.nii.gz", tmp_path / "truth.nii.gz").rows
    assert row.error_share == (np.asarray(nib.load(tmp_path / "p/flat.nii.gz").dataobj) > 0).mean()


def test_no_scores_without_uncertainty(finished, scans, tmp_path):
    alone = Trained.load(finished, torch.device("cpu"), uncertainty=False)
    alone.predict_files(scans / "imagesTs", tmp_path / "p")
    assert not list((tmp_path / "p").glob("*_score*"))
    assert alone.predict(scans / "imagesTs/phantom_007_0000.nii.gz").score is None


def test_labels_in_which_nothing_is_drawn_are_not_counted(folders):
    predictions, labels = folders
    described = {"channel_names": {"0": "MR"}, "labels": {"background": 0, "a": 1, "b": 2, "ignore": 9}}
    (labels / "dataset.json").write_text(json.dumps(described))
    lay(labels / "a.nii.gz", np.full(SHAPE, 9, np.uint8))
    assert [row.case for row in evaluate_calibration(predictions, labels).rows] == ["b", "c"]
