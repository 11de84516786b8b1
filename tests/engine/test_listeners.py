"""Listeners: when each event comes, what may be changed in it, and whose time is counted."""

import ast
import time
from pathlib import Path

import pytest
import torch

import coranet
from coranet.engine import checkpoint
from coranet.engine.log import Clock, Listener
from coranet.engine.run import Run
from coranet.engine.trainer import Trainer
from coranet.feed.case_maps import read_maps
from coranet.runs.launch import train
from coranet.runs.run_plan import make_run


class Diary(Listener):
    """Writes down what it hears."""

    def __init__(self):
        self.heard = []

    def on_open(self, run, store):
        self.heard.append(("open", len(store.cases)))

    def on_begin(self, plan):
        self.heard.append(("begin", plan.first))

    def on_record(self, record):
        self.heard.append(("record", record.step))

    def on_prediction(self, refresh, index, planes, prediction):
        self.heard.append(("prediction", refresh.step))

    def on_refresh(self, refresh):
        self.heard.append(("refresh", refresh.step))

    def on_check(self, check):
        self.heard.append(("check", check.step))


class Swap(Listener):
    """Takes no pixel for certain."""

    marks = {"swapped": "yes"}  # noqa: RUF012 - as a listener says it

    def on_refresh(self, refresh):
        refresh.memory.flat["certain"].fill_(0)


def test_events_come_in_the_order_of_a_training(scans, small, tmp_path):
    diary = Diary()
    train(
        scans, tmp_path / "run", small(overrides=(("train.checks", "2"), ("train.log_every", "4"))), listeners=[diary]
    )
    kinds = [event for event in diary.heard if event[0] != "prediction"]
    assert kinds[:2] == [("open", 7), ("begin", 0)]
    assert [step for kind, step in kinds if kind == "refresh"] == [3, 5, 7, 9, 11]
    assert [step for kind, step in kinds if kind == "check"] == [6, 12]
    assert [step for kind, step in kinds if kind == "record"] == [4, 6, 8, 12]
    assert kinds.index(("record", 6)) < kinds.index(("check", 6)) < kinds.index(("refresh", 7))
    assert diary.heard.index(("prediction", 3)) < diary.heard.index(("refresh", 3))


def test_what_a_listener_changes_is_learnt_from_saved_kept_and_said(scans, small, tmp_path):
    options = small(overrides=(("train.keep_maps", "true"),))
    plain = train(scans, tmp_path / "plain", options)
    swapped = train(scans, tmp_path / "swapped", options, listeners=[Swap()])
    assert Run.read(swapped).made_with["swapped"] == "yes"
    assert "swapped" not in Run.read(plain).made_with
    memory = checkpoint.load(next(swapped.glob("memory-*.pt")), torch.device("cpu"))["maps"]
    assert not memory["certain"].any()
    for run, somewhere in ((swapped, False), (plain, True)):
        maps = read_maps(sorted((run / "maps").glob("*.npz"))[0])
        assert any(image.any() for images in maps["certain"].values() for image in images) == somewhere
    ours, theirs = (
        checkpoint.load(run / "last.pt", torch.device("cpu"))["nets"]["student"] for run in (swapped, plain)
    )
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_trainer_keeps_no_pictures_by_itself(scans, small, tmp_path):
    run, store = make_run(scans, small(overrides=(("train.keep_maps", "true"),)), torch.device("cpu"))
    Trainer(run, store, tmp_path, torch.device("cpu")).fit()
    names = {path.name for path in tmp_path.iterdir()}
    assert not {"film", "maps"} & names
    assert {"last.pt", "log.jsonl"} <= names


def test_a_pause_is_not_counted():
    clock = Clock()
    with clock.paused():
        time.sleep(0.05)
    assert clock.seconds < 0.04


@pytest.mark.parametrize("name", ["Trainer", "Setup", "State"])
def test_studies_listen_and_have_no_trainer_of_their_own(name):
    files = Path(coranet.__file__).parent.rglob("*.py")
    classes = (
        node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert not [c.name for c in classes if any(isinstance(b, ast.Name) and b.id == name for b in c.bases)]
