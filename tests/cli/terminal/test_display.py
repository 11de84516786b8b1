"""What a person reads before, during and after a training."""

import gc
import sys
from io import StringIO

import pytest

import coranet
from coranet.cli import main
from coranet.cli.terminal import show
from coranet.cli.terminal.display import TrainingDisplay
from coranet.engine.log import Outcome, Plan, Record
from coranet.engine.prediction.predictor import Predictor
from coranet.engine.timeline import Stretch
from coranet.engine.timing.forecast import Forecast, Prices
from coranet.types import Phase

TIMELINE = (
    Stretch(Phase(name="pretrain", epochs=1), 0, 40, None),
    Stretch(Phase(name="selftrain", epochs=3, refresh_every=1), 40, 160, 30),
)


def plan(step, relabel, device="cpu"):
    """Of 160 steps with four relabellings, on a clock that stands still."""
    prices = Prices(steps={"pretrain": step, "selftrain": step}, relabel=relabel)
    forecast = Forecast(TIMELINE, prices, checks=1, clock=lambda: 0.0)
    stretches = tuple((s.phase.name, s.start, s.stop - s.start) for s in TIMELINE)
    return Plan(steps=160, first=0, forecast=forecast, device=device, parameters=10**6, stretches=stretches)


def test_hours_on_a_cpu_come_with_advice(capsys):
    TrainingDisplay().on_begin(plan(60, 600))
    said = capsys.readouterr().err
    assert "about 3.3 h." in said
    for way in ("coranet prepare", "--spacing", "--patch", "--steps", "--split"):
        assert way in said
    assert "relabelling is 40 min of it" in said
    for short in (plan(1, 60), plan(60, 600, "cuda")):
        TrainingDisplay().on_begin(short)
        assert "To shorten it" not in capsys.readouterr().err
    TrainingDisplay().on_begin(plan(60, 0))
    assert "relabelling" not in capsys.readouterr().err


def test_the_time_left_that_is_shown_counts_self_training(capsys):
    display = TrainingDisplay()
    display.on_begin(plan(1, 60))
    display.on_record(Record(step=32, phase="pretrain", updates=1, images=1, seconds=32, lr=1, terms={}))
    assert "6 min left" in capsys.readouterr().err  # 128 s of steps and 240 s of relabelling


def test_dice_on_cases_that_were_trained_on_is_said_to_be_that(capsys):
    display = TrainingDisplay()
    display.on_end(Outcome(dice={"mean": 0.5, "LV": 0.6, "RV": 0.4}, cases=3, seen=True))
    said = capsys.readouterr().err
    assert "Dice 50.0 (LV 60.0, RV 40.0) on the 3 cases it was trained on." in said
    assert "WARNING" not in said
    display.on_end(Outcome(dice={"mean": 0.5, "LV": 0.5}, cases=2, seen=False))
    assert capsys.readouterr().err == ""  # was watched all along


def test_a_class_that_no_case_shows_is_not_missed():
    assert Outcome(dice={"mean": 0.3, "LV": float("nan"), "RV": 0.0}, cases=3, seen=False).missed == ("RV",)


@pytest.mark.parametrize(("val", "where"), [("0", "3 cases it was trained on"), ("1", "1 validation case")])
def test_a_training_that_finds_nothing_ends_in_a_warning(scans, cache, tmp_path, capsys, monkeypatch, val, where):
    blind = {"mean": 0.0, "RV": 0.0, "Myo": 0.0, "LV": 0.0}
    monkeypatch.setattr(Predictor, "dice", lambda self, pool, classes: blind)
    settings = ("--set", "net.width=4", "--set", "net.levels=2", "--set", "train.batch=[2,2]", "--val", val)
    with pytest.raises(SystemExit) as caught:
        main(
            [
                "train",
                str(scans),
                "--out",
                str(tmp_path),
                "--cache",
                str(cache),
                "--steps",
                "2",
                "--device",
                "cpu",
                *settings,
            ]
        )
    assert caught.value.code == 0
    said = capsys.readouterr().err
    assert f"WARNING: next to nothing was found of RV, Myo, LV in the {where}" in said
    assert "--steps" in said
    assert said.rstrip().endswith(f"Trained, but it does not find RV, Myo, LV: {tmp_path}")


def test_training_from_python_shows_how_far_it_is_unless_asked_not_to(scans, small, tmp_path, capsys):
    options = {name: value for name, value in vars(small(steps=2)).items() if value is not None}
    coranet.train(scans, tmp_path / "loud", **options)
    said = capsys.readouterr().err
    assert "2 steps" in said
    assert "step 2/2" in said
    assert "on the 3 cases it was trained on" in said
    coranet.train(scans, tmp_path / "silent", progress=False, **options)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_what_stands_for_standard_error_flushes_nothing_when_it_is_collected(monkeypatch):
    """Python may have taken the module apart by then, and from 3.13 on says so."""

    class Counting(StringIO):
        flushed = 0

        def flush(self):
            self.flushed += 1

    monkeypatch.setattr(sys, "stderr", counting := Counting())
    beside = show._Beside()
    beside.flush()
    del beside
    gc.collect()
    assert counting.flushed == 1
