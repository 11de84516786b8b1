"""From a run over its folds to calibration.json, and from there to predictions."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import coranet
from coranet.cli import main
from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split
from coranet.engine.prediction.fitted import FITTED, Fitted
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.evaluation.quality import read_qualities
from coranet.methods.other_voice import VOICE
from coranet.runs.fitting import Calibrate, calibrate_run
from coranet.runs.held_out import deal, train_fold
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run
from coranet.uncertainty.wrongness import PRIOR

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def calibrated(scans, small, cache, tmp_path_factory):
    """A run without validation cases, after three folds of a few steps."""
    folder = train(scans, tmp_path_factory.mktemp("fitting") / "run", small())
    assert not (folder / FITTED).exists()
    arguments = ["calibrate", folder, "--folds", 3, "--steps", 6, "--device", "cpu", "--cache", cache]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in arguments])
    assert stop.value.code == 0
    return folder


def test_each_patient_is_held_out_once_and_then_takes_no_part():
    split = Split(labelled=("a1", "a2", "b", "c", "d"), unlabelled=("u", "a3"), test=("t",))
    patients = {"a1": "a", "a2": "a", "a3": "a", "b": "b", "c": "c", "d": "d", "u": "u", "t": "t"}
    dealt = deal(split, patients, 3, 0)
    assert sorted(case for fold in dealt for case in fold.val) == ["a1", "a2", "b", "c", "d"]
    for fold in dealt:
        apart = {patients[case] for case in fold.val}
        assert not apart & {patients[case] for case in (*fold.labelled, *fold.unlabelled)}
        assert fold.test == split.test
    for folds in (1, 5):
        with pytest.raises(InputError, match="between 2 and 4, as 4 patients are labelled"):
            deal(split, patients, folds, 0)
    with pytest.raises(InputError, match="Only one patient is labelled"):
        deal(replace(split, labelled=split.labelled[:1]), patients, 2, 0)


def test_folds_are_fitted_written_and_cleared_away(calibrated, scans):
    run = Run.read(calibrated)
    fitted = Fitted.of(calibrated, run.identity)
    assert fitted is not None
    assert fitted.voxels.weights != PRIOR
    assert fitted.cases is not None
    assert (fitted.folds, fitted.steps) == (3, 6)
    assert sorted(fitted.held_out) == sorted(run.split.labelled)
    assert all(0 <= dice <= 1 for classes in fitted.held_out.values() for dice in classes.values())
    assert not (calibrated / "folds").exists()


def test_a_broken_fit_is_made_anew(finished, scans, cache, tmp_path, capsys):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    (run / FITTED).write_text("{")
    with pytest.raises(InputError, match=r"calibration\.json"):
        Trained.load(run, CPU)
    words = ["calibrate", run, "--folds", 2, "--steps", 2, "--device", "cpu", "--cache", cache]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 0
    said = capsys.readouterr()
    assert "Dice of 3 cases that were not trained on" in said.out  # both folds, and the validation case
    assert "WARNING: with 2 of the run's 12 steps a fold knows less than the run" in said.err
    assert Trained.load(run, CPU).fitted is not None


def test_without_uncertainty_no_fit_is_asked_for(finished, scans, tmp_path, capsys):
    words = ["predict", finished, scans / "imagesTs", "--out", tmp_path, "--device", "cpu", "--no-uncertainty"]
    with pytest.raises(SystemExit):
        main([str(word) for word in words])
    said = capsys.readouterr().err
    assert "calibrate" not in said
    assert "uncertain is" not in said


def test_predictions_use_the_fit(calibrated, scans, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["predict", str(calibrated), str(scans / "imagesTs"), "--out", str(tmp_path), "--device", "cpu"])
    rows = read_qualities(tmp_path)
    whole = [row for row in rows if row.whole]
    assert [row.case for row in whole] == [row.case for row in sorted(whole, key=lambda row: row.expected)]
    assert {row.class_name for row in rows} == {"all", "RV", "Myo", "LV"}
    said = capsys.readouterr().err
    assert "Look at these first" in said
    assert f"{whole[0].case}: expected Dice {whole[0].expected:.2f}" in said
    trained = coranet.load(calibrated, "cpu")
    answer = trained.predict(scans / "imagesTs/phantom_007_0000.nii.gz")
    confidence = answer.probabilities.max(axis=0).clip(1e-6, 1 - 1e-6)
    weights, z = trained.fitted.voxels.weights, np.log(confidence / (1 - confidence))
    if weights[-1] == 0:
        odds = weights[0] + weights[1] * z + weights[2] * (z - 2).clip(0)
        np.testing.assert_allclose(answer.score, 1 / (1 + np.exp(-odds)), atol=1e-4)
    written = nifti.read(tmp_path / "phantom_007_score.nii.gz").array
    np.testing.assert_allclose(written, answer.score, atol=1 / 65535)
    assert trained.fitted.voxels is not None


def test_validation_cases_are_a_fit_at_the_end_of_training(finished):
    fitted = Fitted.of(finished, Run.read(finished).identity)
    assert fitted is not None
    assert fitted.folds == 0
    assert list(fitted.held_out) == list(Run.read(finished).split.val)
    assert fitted.cases is None  # one case is none to expect anything by


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"voxels": {"weights": [0, 1e30, 0, 0]}}, "4 weights"),
        ({"voxels": {"weights": [0, "x", 0, 0]}}, "weights is a float"),
        ({"cases": {"spread": -3.0}}, "fit of Dice"),
        ({"folds": 99}, "checksum"),
        ({"run": "another"}, "checksum"),
        ({"format": "coranet-calibration-9"}, "another version"),
        ({"extra": 1}, "no field extra"),
    ],
)
def test_a_stranger_s_file_is_refused_with_the_way_out(calibrated, tmp_path, change, match):
    content = json.loads((calibrated / FITTED).read_text()) | change
    (tmp_path / FITTED).write_text(json.dumps(content))
    with pytest.raises(InputError, match=match) as caught:
        Fitted.of(tmp_path, Run.read(calibrated).identity)
    assert "coranet calibrate" in str(caught.value)


def test_a_fit_of_another_run_is_refused(calibrated, finished, tmp_path):
    with pytest.raises(InputError, match="belongs to another run"):
        Fitted.of(calibrated, Run.read(finished).identity)
    (tmp_path / FITTED).write_text("[" * 200)
    with pytest.raises(InputError, match=r"calibration\.json"):
        Fitted.of(tmp_path, "")


def test_a_run_without_a_fit_says_so(scans, small, tmp_path, capsys):
    folder = train(scans, tmp_path / "run", small(steps=2, method="supervised"))
    with pytest.raises(SystemExit):
        main(["predict", str(folder), str(scans / "imagesTs"), "--out", str(tmp_path / "p"), "--device", "cpu"])
    said = capsys.readouterr().err
    assert "coranet calibrate RUN fits it" in said
    assert "what is uncertain is" in said or "missing" in said
    assert all(np.isnan(row.expected) for row in read_qualities(tmp_path / "p"))
    alone = Trained.load(folder, CPU, uncertainty=False)
    assert all(
        np.isnan(of.expected)
        for of in alone.predict_files(scans / "imagesTs", tmp_path / "q")["phantom_007"].classes.values()
    )


def test_a_finished_run_that_is_resumed_keeps_its_fit(finished, scans, small, tmp_path):
    """That of `coranet calibrate` costs several trainings; one that is missing is made."""
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    better = replace(Fitted.of(run, Run.read(run).identity), folds=3, steps=12)
    better.write(run)
    train(scans, run, small(val=1), resume=True)
    assert Fitted.of(run, Run.read(run).identity).folds == 3
    (run / FITTED).unlink()
    train(scans, run, small(val=1), resume=True)
    assert Fitted.of(run, Run.read(run).identity).folds == 0


def test_the_best_weights_are_not_judged_by_the_fit_of_the_last_ones(finished, tmp_path):
    run = Path(shutil.copytree(finished, tmp_path / "run"))
    shutil.copy(run / "last.pt", run / "best.pt")
    assert Trained.load(run, CPU).fitted is not None
    assert Trained.load(run, CPU, best=True).fitted is None


def test_a_run_that_was_trained_on_with_corrections_is_calibrated(finished, scans, cache, tmp_path):
    labels = tmp_path / "corrections/labelsTr"
    labels.mkdir(parents=True)
    shutil.copy(scans / "dataset.json", labels.parent)
    free = next(case for case in read_folder(scans).cases if case.label is None and case.part == "Tr")
    scan = free.images[0].read()
    label = np.zeros(scan.array.shape, np.uint8)
    label[8:24, 8:24] = 1
    nifti.write(labels / f"{free.name}.nii.gz", label, scan.geometry)
    options = Options(init=finished, labels=labels.parent, cache=cache, device="cpu", steps=2)
    run = train(scans, tmp_path / "on", options)
    _, dice = calibrate_run(
        Calibrate(run=run, folds=2, steps=2, device="cpu", cache=cache),
        say=lambda message: None,
        on_progress=lambda what, done, total: None,
    )
    assert dice.n == len(Run.read(run).split.labelled) + len(Run.read(run).split.val)


def test_folds_hear_other_models_of_their_unlabelled_cases(finished, scans, small, cache, tmp_path, monkeypatch):
    run, store = make_run(scans, small(), CPU)
    heard = {}

    class Stub:
        def __init__(self, *given, voices):
            heard.update(voices[VOICE])
            raise InputError("heard")

    monkeypatch.setattr("coranet.runs.held_out.Trainer", Stub)
    split = replace(run.split, unlabelled=run.split.unlabelled[:1])
    voices = {VOICE: {case: np.zeros(1, np.uint8) for case in run.split.unlabelled}}
    with pytest.raises(InputError, match="heard"):
        train_fold(run, split, 2, store, tmp_path / "fold", CPU, (), voices)
    assert set(heard) == set(split.unlabelled)
