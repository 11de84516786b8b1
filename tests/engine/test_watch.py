"""A run whose pseudo-labels lose an object goes back to labels alone, says so, and is the run on labels alone to the bit."""

import json

import pytest
import torch

from coranet.engine import checkpoint
from coranet.engine.log import Listener
from coranet.engine.watch import Watch
from coranet.methods.coranet_plus import CoraNetPlus
from coranet.runs.launch import train
from coranet.runs.options import Options
from tests.engine.test_trainer import records, same

STEPS = 40
SMALL = (("net.width", "4"), ("net.levels", "2"), ("train.batch", "[2, 2]"), ("train.log_every", "5"))


@pytest.fixture
def forgetful(monkeypatch):
    """A teacher that calls everything background, and is sure of it."""
    honest = CoraNetPlus.guide

    def guide(self, teacher, sample):
        said = honest(self, teacher, sample)
        nothing = torch.zeros_like(said.target)
        nothing[:, 0] = 1
        return said._replace(label=torch.zeros_like(said.label), weight=torch.ones_like(said.weight), target=nothing)

    monkeypatch.setattr(CoraNetPlus, "guide", guide)


@pytest.fixture
def options(cache):
    def asked(warm_up=0.5, **more):
        sudden = (("method.warm_up", str(warm_up)), ("method.ramp", "0"), *more.pop("overrides", ()))
        return Options(val=0, steps=STEPS, cache=cache, device="cpu", overrides=(*SMALL, *sudden), **more)

    return asked


class Heard(Listener):
    """Remembers what it is told; stops a run at a step of the log, or when it goes back."""

    def __init__(self, stop=None):
        self.events, self.stop = [], stop

    def on_record(self, record):
        if record.step == self.stop:
            raise KeyboardInterrupt

    def on_fall_back(self, event):
        self.events.append(event)
        if self.stop == "back":
            raise KeyboardInterrupt


def learnt(run):
    content = checkpoint.load(run / "last.pt", torch.device("cpu"))
    return {name: content[name] for name in ("step", "updates", "nets", "optimizers")}


def story(run):
    return json.loads((run / "watch.json").read_text())


def test_a_run_that_loses_an_object_becomes_the_run_on_labels_alone(forgetful, scans, options, tmp_path):
    heard = Heard()
    run = train(scans, tmp_path / "run", options(), listeners=[heard])
    alone = train(scans, tmp_path / "alone", options(1.0))
    (event,) = heard.events
    assert event.back_to == STEPS / 2 < event.step
    assert event.lost
    assert same(learnt(run), learnt(alone))
    told = story(run)
    assert told["fell_back"] == {"after": event.step, "to": event.back_to, "lost": list(event.lost)}
    assert told["looks"][-1]["lost"] == list(event.lost)
    lines = records(run)
    assert sorted({line["step"] for line in lines}) == [line["step"] for line in lines]
    assert [line["fell_back"] for line in lines] == [line["step"] > event.back_to for line in lines]
    assert {line["phase"] for line in lines} == {"labels"}
    assert not (run / "labels.pt").exists()
    for stop in ("back", 30):  # just after it went back, and in the middle of what follows
        again = tmp_path / f"again-{stop}"
        with pytest.raises(KeyboardInterrupt):
            train(scans, again, options(save_every=4), listeners=[Heard(stop)])
        train(scans, again, options(save_every=4), resume=True)
        assert same(learnt(again), learnt(run))


def test_watching_changes_nothing_where_nothing_is_lost(scans, options, tmp_path, monkeypatch):
    monkeypatch.setattr(Watch, "judge", lambda self, seen, late: ())
    watched = train(scans, tmp_path / "watched", options())
    free = train(scans, tmp_path / "free", options(overrides=(("train.watch", "false"),)))
    assert same(learnt(watched), learnt(free))
    looks = story(watched)["looks"]
    assert [look["step"] for look in looks] == [24, 28, 32, 36, 40]
    assert all(set(looks[0][what]) == {"RV", "Myo", "LV"} for what in ("now", "agreement", "fit"))
    assert all(0 <= dice <= 1 for dice in looks[0]["fit"].values())
    assert len({str(look["fit"]) for look in looks}) == 1  # of the network as it was on labels alone
    assert {line["phase"] for line in records(watched)} == {"labels", "joint"}
    assert not (free / "watch.json").exists()


HELD = {"RV": 100.0, "LV": 50.0}


@pytest.mark.parametrize(
    ("now", "then", "agreement", "fit", "late", "lost"),
    [
        ((90, 40), (80, 45), (0.8, 0.7), (0.8, 0.6), True, ()),
        ((90, 9), (80, 45), (0.8, 0.3), (0.8, 0.6), False, ("LV",)),
        ((90, 9), (80, 20), (0.8, 0.3), (0.8, 0.6), False, ()),  # little of it was found then, too
        ((90, 9), (80, 10), (0.8, 0.3), (0.8, 0.6), True, ("LV",)),  # and it is late
        ((90, 40), (80, 45), (0.05, 0.7), (0.8, 0.6), False, ("RV",)),  # as much, elsewhere
        ((90, 40), (80, 45), (0.05, 0.7), (0.3, 0.6), False, ()),  # and nobody knew then where RV lies
        ((90, 40), (500, 45), (0.05, 0.7), (0.8, 0.6), False, ()),  # what was found then was no RV
        ((0, 0), (80, 45), (0.0, 0.0), (0.8, 0.6), False, ("RV", "LV")),
    ],
)
def test_what_is_lost(now, then, agreement, fit, late, lost):
    watch = Watch(setup=None, folder=None, last=None)
    vars(watch)["labelled"] = HELD
    seen = {name: dict(zip(HELD, values, strict=True)) for name, values in (("now", now), ("then", then))}
    seen |= {"agreement": dict(zip(HELD, agreement, strict=True)), "fit": dict(zip(HELD, fit, strict=True))}
    assert watch.judge(seen, late=late) == lost
