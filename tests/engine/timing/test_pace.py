"""A run has as many steps as a person has minutes for, and continues with them."""

from dataclasses import replace

import pytest
import torch

from coranet.engine.group import Group
from coranet.engine.run import Run, Train
from coranet.engine.timeline import lay_out
from coranet.engine.timing import pace
from coranet.engine.timing.forecast import Prices
from coranet.engine.timing.pace import FEWEST, fit_steps, paced
from coranet.errors import InputError
from coranet.methods.coranet import CoraNet
from coranet.runs.launch import train
from coranet.runs.run_plan import make_run
from coranet.types import Phase

CPU = torch.device("cpu")
PLAIN = (Phase(name="train", epochs=1),)
CHEAP = Prices(steps={"pretrain": 0.25, "selftrain": 0.75, "train": 0.5})


def seconds(train, prices, phases, epoch=10):
    """Added up by hand: steps, relabellings, and checks, with one more in the end."""
    spent = 0.0
    for stretch in lay_out(phases, train.steps, epoch, train.relabellings):
        spent += (stretch.stop - stretch.start) * prices.steps[stretch.phase.name]
        spent += stretch.refreshes_from(stretch.start) * prices.relabel
    return spent + train.checks * (prices.score + prices.look) + prices.score + prices.close


@pytest.mark.parametrize("phases", [PLAIN, CoraNet().phases])
@pytest.mark.parametrize("length", [60.0, 600.0, 36_000.0])
def test_steps_fill_the_time(phases, length):
    prices = replace(CHEAP, relabel=2.0, score=0.4, look=0.1, close=0.3)
    fitted = fit_steps(Train(steps=1), phases, 10, prices, length)
    assert 0.9 * length < seconds(fitted, prices, phases) <= 1.02 * length


def test_relabelling_and_checks_take_a_tenth_each_at_most():
    slow = replace(CHEAP, relabel=9.0, score=11.0, look=1.0)
    fitted = fit_steps(Train(steps=1), CoraNet().phases, 1, slow, 600.0)
    selftrain = lay_out(CoraNet().phases, fitted.steps, 1, fitted.relabellings)[1]
    assert selftrain.refreshes_from(selftrain.start) == fitted.relabellings == 6  # every five steps if it were let
    assert fitted.checks == 5


def test_what_takes_longer_than_its_share_is_done_once():
    fitted = fit_steps(Train(steps=1), CoraNet().phases, 1, replace(CHEAP, relabel=100.0, score=100.0), 600.0)
    assert (fitted.relabellings, fitted.checks) == (1, 1)
    assert fitted.steps == pytest.approx((600 - 3 * 100) / (30 / 130 * 0.25 + 100 / 130 * 0.75), abs=2)


def test_what_a_person_set_stays():
    slow, asked = replace(CHEAP, relabel=9.0, score=11.0), Train(steps=1, checks=7, relabellings=8)
    fitted = fit_steps(asked, CoraNet().phases, 1, slow, 600.0, keep=("train.checks", "train.relabellings"))
    assert (fitted.checks, fitted.relabellings) == (7, 8)
    assert fitted.steps < fit_steps(asked, CoraNet().phases, 1, slow, 600.0).steps


def test_methods_without_maps_are_left_alone():
    assert fit_steps(Train(steps=1), PLAIN, 1, replace(CHEAP, relabel=100.0), 600.0).relabellings is None


def test_maps_are_made_at_most_so_often():
    (stretch,) = lay_out([Phase(name="only", epochs=1, refresh_every=1)], 100, 2, relabellings=3)
    assert [step for step in range(100) if stretch.refreshes_at(step)] == [0, 34, 68]


@pytest.fixture
def priced(monkeypatch):
    """Everything has a price that no machine decides on; what was estimated is counted."""
    asked = []

    def prices(setup, done=0, *, captured=False):
        asked.append(captured)
        return CHEAP

    monkeypatch.setattr(pace, "estimate_prices", prices)
    return asked


def test_a_run_of_minutes_is_frozen_and_continues_with_its_steps(scans, small, tmp_path, priced):
    options = small(steps=None, minutes=0.25, val=1, overrides=(("train.relabellings", "4"),))
    heard = []
    train(scans, tmp_path / "run", options, say=heard.append)
    run = Run.read(tmp_path / "run")
    assert run.train.steps == fit_steps(run.train, run.method.phases, 6, CHEAP, 15.0).steps == 24
    assert run.made_with["minutes"] == 0.25
    assert any(said.startswith("As measured now, 24 steps take about 0.2") for said in heard)
    train(scans, tmp_path / "run", options, resume=True)  # the same command
    train(scans, tmp_path / "run", small(val=1, steps=24), resume=True)
    assert len(priced) == 1
    assert Run.read(tmp_path / "run") == run
    with pytest.raises(InputError, match=r"--minutes 3: the run was begun with 0\.25"):
        train(scans, tmp_path / "run", replace(options, minutes=3), resume=True)


def test_too_little_time_is_said(scans, small, priced):
    run, store = make_run(scans, small(steps=None, minutes=0.01), CPU)
    heard = []
    assert paced(run, store, CPU, 0.01, say=heard.append).train.steps == FEWEST
    assert "--minutes 0.01 is too short" in heard[0]


def test_processes_agree_on_the_steps(scans, small, priced, monkeypatch):
    """Each measures for itself, and all take the mean."""
    run, store = make_run(scans, small(steps=None, minutes=1), CPU)
    alone = paced(run, store, CPU, 1).train.steps
    monkeypatch.setattr(Group, "mean", lambda self, numbers: {name: 2 * value for name, value in numbers.items()})
    assert paced(run, store, CPU, 1).train.steps == pytest.approx(alone / 2, abs=1)


def test_steps_are_measured_on_copies(scans, small):
    run, store = make_run(scans, small(steps=None, minutes=0.05), CPU)
    torch.manual_seed(3)
    found = paced(run, store, CPU, 0.05)
    assert found.train.steps >= FEWEST
    assert replace(found, train=run.train) == run
