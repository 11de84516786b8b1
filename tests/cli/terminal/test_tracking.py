"""Curves of a run in the hands of TensorBoard, MLflow and Weights & Biases, without a network."""

import sys

import pytest

from coranet.cli import main


def train(scans, cache, out, *track):
    words = ["train", scans, "--out", out, "--cache", cache, "--steps", 2, "--device", "cpu", "--track", *track]
    small = ["--set", "net.width=4", "--set", "net.levels=2", "--method", "supervised"]
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, [*words, *small])))
    return stop.value.code


def test_tensorboard_has_the_curves(scans, cache, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert not train(scans, cache, tmp_path / "run", "tensorboard")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"rate", "terms/ce"} <= set(events.Tags()["scalars"])


def test_mlflow_has_the_curves_in_files_of_the_run(scans, cache, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="needs coranet[mlflow]")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert not train(scans, cache, tmp_path / "run", "mlflow")
    (curve,) = (tmp_path / "run" / "mlruns").glob("*/*/metrics/terms/ce")
    assert [line.split()[2] for line in curve.read_text().splitlines()] == ["1", "2"]


def test_weights_and_biases_has_the_curves_offline(scans, cache, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs coranet[wandb]")
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert not train(scans, cache, tmp_path / "run", "wandb")
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"terms/ce" in file.read_bytes()


@pytest.mark.parametrize(("name", "module"), [("mlflow", "mlflow.tracking"), ("wandb", "wandb")])
def test_a_tracker_that_is_not_installed_is_named_with_its_extra(
    scans, cache, tmp_path, monkeypatch, capsys, name, module
):
    monkeypatch.setitem(sys.modules, module, None)
    assert train(scans, cache, tmp_path / "run", name) == 1
    assert f"--track {name}: it is not installed. pip install 'coranet[{name}]'" in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()
