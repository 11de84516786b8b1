"""Runs that were recorded before methods had their fields of today: read as what they meant, or refused."""

import json
from dataclasses import replace

import pytest

from coranet.engine.codec import decode
from coranet.errors import InputError
from coranet.methods import METHODS, Method
from coranet.methods.coranet import CoraNet
from coranet.methods.coranet_plus import CoraNetPlus
from coranet.methods.coranet_released import ReleasedCoraNet
from coranet.methods.coranet_repaired import RepairedCoraNet
from coranet.methods.one_vs_rest import OneVsRest
from coranet.uncertainty import CRM

TEXT = {
    "dice": 1.0,
    "regions": {"kind": "crm", "alpha": 2.0},
    "self_training": True,
    "mean_teacher": True,
    "mask": True,
    "consistency_on": "uncertain",
    "weights": [1.0, 0.5],
    "normalise": "image",
    "updates": "alternate",
    "masks": "stored",
    "view": 0.0,
    "beta": 0.98,
    "pretrain_epochs": 3,
    "selftrain_epochs": 10,
    "refresh_every": 2,
}
"""What every variant wrote."""
VIEWS = {"views": 0, "cutmix": 0.5, "mirror": 0.0, "turns": False, "feature_dropout": 0.0, "pseudo_dice": 0.0}
REPAIRED = TEXT | VIEWS | {"view": 0.5, "guide": "student", "ramp": 0.0}
RELEASED = TEXT | {"updates": "joint", "ramp_epochs": 40, "dice": 0.0}
STRONG = REPAIRED | {"updates": "joint", "masks": "online", "views": 2, "guide": "teacher", "ramp": 0.3}

SHARED = {
    "dice": 1.0,
    "regions": CRM(alpha=2.0),
    "weights": (1.0, 0.5),
    "beta": 0.98,
    "pretrain_epochs": 3.0,
    "selftrain_epochs": 10.0,
}
ONE_VIEW = RepairedCoraNet(**SHARED, refresh_every=2.0)
AS_RELEASED = ReleasedCoraNet(**SHARED, refresh_every=2.0)
PLUS = {"soft": False, "region": "crm", "views": 2, "prior": None, "predicts": "teacher", "turn": 50, "teachers": 1}
PLUS |= {
    "labels": "main",
    "band": None,
    "candidates": 0.0,
    "boxes": "random",
    "wait": 0.0,
    "beta_end": None,
    "warm_up": 0.15,
}
AS_PLUS = CoraNetPlus(region="crm", views=2, prior=None, beta_end=0.99, passes=0.0)
OFF = {"self_training": False, "mean_teacher": False}


def read(kind, fields):
    return decode(Method, json.loads(json.dumps({"kind": kind, **fields})), "run.json: method")


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("coranet", TEXT, CoraNet(**SHARED, refresh_every=2.0)),
        ("coranet", TEXT | {"mask": False}, CoraNet(**SHARED, refresh_every=2.0, mask=False)),
        ("coranet", TEXT | {"view": 0.5}, ONE_VIEW),
        ("coranet:repaired", REPAIRED, ONE_VIEW),
        ("coranet:repaired", TEXT | {"view": 0.5}, ONE_VIEW),
        ("coranet:repaired", REPAIRED | {"cutmix": 0.9, "ramp": 0.3}, ONE_VIEW),
        ("coranet:repaired", REPAIRED | {"self_training": False}, replace(ONE_VIEW, weights=(0.0, 0.5))),
        ("coranet:repaired", REPAIRED | OFF, ONE_VIEW.on_labels_alone()),
        ("coranet:released", RELEASED, AS_RELEASED),
        ("coranet:released", RELEASED | OFF, AS_RELEASED.on_labels_alone()),
        ("coranet:plus", PLUS, AS_PLUS),
        ("coranet:plus", PLUS | {"soft": True}, replace(AS_PLUS, region="soft")),
        ("coranet:plus", PLUS | {"passes": 25.0}, replace(AS_PLUS, passes=25.0)),
        ("coranet:plus", {"views": 2}, CoraNetPlus(views=2)),
    ],
)
def test_a_run_from_before_is_read_as_what_it_was(kind, fields, expected):
    assert read(kind, fields) == expected
    wrapped = {"inner": {"kind": kind, **fields}, "objects": 3}
    assert read("one_vs_rest", wrapped) == OneVsRest(inner=expected, objects=3)


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        ("coranet", TEXT | {"view": 0.5, "mask": False}, "mask"),
        ("coranet:repaired", REPAIRED | {"updates": "joint"}, "updates"),
        ("coranet:repaired", REPAIRED | {"normalise": "region"}, "normalise"),
        ("coranet:repaired", STRONG, "views"),
        ("coranet:released", RELEASED | {"masks": "online"}, "masks"),
        ("coranet:plus", PLUS | {"teachers": 2}, "teachers"),
        ("coranet:plus", PLUS | {"predicts": "student"}, "predicts"),
    ],
)
def test_what_no_method_does_any_more_is_refused_in_one_sentence(kind, fields, field):
    with pytest.raises(InputError, match=rf"^run\.json: method\.{field}: .* no longer trained .*\. Use the version"):
        read(kind, fields)


@pytest.mark.parametrize("kind", METHODS)
def test_what_is_written_today_is_left_alone(kind):
    assert read(kind, {}) == METHODS[kind]()
    if kind == "coranet:released":
        assert read(kind, {"dice": 0.0}).dice == 0.0


def test_a_critic_s_share_of_the_run_s_rate_is_read_as_its_own_rate():
    fields = {"kind": "dan", "critic_rate": 0.1}
    assert decode(Method, fields, "run.json.method") == METHODS["dan"]()
    with pytest.raises(InputError, match=r"run\.json\.method\.critic_rate: dan is no longer trained so"):
        decode(Method, {**fields, "critic_rate": 0.5}, "run.json.method")
