"""Whether the judge can be trusted: what is bad is called bad, in the process itself and from outside."""

import os
import signal
import time

import numpy as np
import pytest

from coranet.errors import InputError
from tests.attacks.arena import Arena
from tests.attacks.attack import Attack, Kind, Outcome, Refused, Skipped, Trial, Wrong
from tests.attacks.bytewise import DAMAGES, damaged
from tests.attacks.honest_scans import honest_scans
from tests.attacks.json_damage import CHANGES, changed, places
from tests.attacks.table import as_markdown, bad_ones
from tests.attacks.verdict import judge, sentence_of, verb
from tests.attacks.world import World


def raising(error):
    def act():
        raise error

    return act


def out_of_memory():
    try:
        raise MemoryError
    except MemoryError as error:
        raise InputError("scan.nii: does not fit into memory. Close other programs.") from error


@pytest.mark.parametrize(
    ("act", "fate"),
    [
        (lambda: None, "accepted"),
        (raising(InputError("scan.nii: is cut short. Copy it again.")), "refused"),
        (raising(Refused("scan.nii: is cut short. Copy it again.")), "refused"),
        (raising(Refused("scan.nii: is cut short.\nCopy it again.")), "bad"),
        (raising(Refused("scan\x1b[2J.nii: is cut short. Copy it again.")), "bad"),
        (raising(Refused("9" * 5000)), "bad"),
        (raising(InputError("")), "bad"),
        (out_of_memory, "bad"),
        (raising(Wrong("another answer")), "bad"),
        (raising(KeyError("nets")), "bad"),
        (raising(MemoryError()), "bad"),
        (raising(RecursionError()), "bad"),
        (raising(SystemExit(70)), "bad"),
        (raising(Skipped("no tmpfs")), "skipped"),
    ],
)
def test_each_end_has_its_verdict(act, fate):
    assert judge(Attack(what="", act=act))[0] == fate


def test_what_must_be_refused_is_bad_when_it_is_accepted():
    assert judge(Attack(what="", act=lambda: None, must_refuse=True))[0] == "bad"


def test_a_command_is_refused_in_one_sentence_or_in_a_list_of_files():
    assert sentence_of("12 cases.\ncoranet: a: is wrong. Mend it.\n") == "a: is wrong. Mend it."
    assert (
        sentence_of("coranet: a: cannot be used:\n  b: is wrong.\n  c: too.\n")
        == "a: cannot be used: b: is wrong. c: too."
    )
    for said in ("", "Traceback", "coranet: a\nmore", "coranet: a\ncoranet: b"):
        with pytest.raises(Wrong):
            sentence_of(said)


def test_a_verb_is_judged_by_what_it_prints(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with capfd.disabled():
        assert "supervised" in verb("methods")
        with pytest.raises(Refused, match="nowhere: does not exist"):
            verb("prepare", "nowhere", "--out", "store")
        with pytest.raises(Wrong, match="ended with 2"):
            verb("no such verb")


def crash(scene):
    return Attack(what="crash", act=lambda: os.kill(os.getpid(), signal.SIGKILL))


def wait(scene):
    return Attack(what="wait", act=lambda: time.sleep(30))


def work(scene):
    def act():
        while True:
            pass

    return Attack(what="work", act=act)


def eat(scene):
    kept = []
    return Attack(what="eat", act=lambda: [kept.append(np.ones(1 << 20)) for _ in range(400)] and time.sleep(30))


def broken(scene):
    raise ZeroDivisionError


def fine(scene):
    return Attack(what="fine", act=lambda: None)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_the_arena_survives_what_kills_a_process(tmp_path):
    kinds = {
        act.__name__: Kind(make=act, count=1, few=1, seconds=20 if act is eat else 1, megabytes=1500)
        for act in (crash, wait, work, eat, broken, fine)
    }
    world = World(root=tmp_path, scans={})
    found = {one.trial.kind: one for one in Arena(world, kinds, 3).run(Trial(name, 0, 0) for name in kinds)}
    assert {name: one.fate for name, one in found.items()} == dict.fromkeys(kinds, "bad") | {"fine": "accepted"}
    reasons = {name: one.reason for name, one in found.items()}
    assert "SIGKILL" in reasons["crash"]
    assert "hangs" in reasons["wait"]
    assert "hangs" in reasons["work"]
    assert "too much memory" in reasons["eat"]
    assert "the attack itself is broken" in reasons["broken"]
    assert list(tmp_path.iterdir()) == []


def test_one_name_one_attack():
    trial = Trial.parse("kill train:3:17")
    assert trial == Trial("kill train", 3, 17)
    content = bytes(range(256)) * 8
    assert damaged(content, trial.rng) == damaged(content, trial.rng)
    assert len({damaged(content, Trial("nifti", 0, number).rng)[1] for number in range(200)}) > 150
    assert honest_scans()["mat"][0].files == honest_scans()["mat"][0].files


def test_every_damage_changes_something():
    content = bytes(range(1, 200)) * 4
    for damage in DAMAGES:
        assert any(damage(content, Trial(damage.__name__, 0, number).rng) != content for number in range(5))


def test_every_change_of_json_changes_one_place():
    document = {"a": {"b": [1, 2]}, "c": "word"}
    assert list(places(document)) == [("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("c",)]
    texts = [changed(document, place, change) for place in places(document) for change in CHANGES]
    assert len(set(texts)) > 0.8 * len(texts)
    assert changed(document, ("c",), "twice").count('"c"') == 2
    assert '"a": NaN' in changed(document, ("a",), "NaN")


def test_the_table_counts_and_names_the_way_to_repeat_one():
    outcomes = [
        Outcome(trial=Trial("nifti", 0, 1), fate="refused", megabytes=300, seconds=0.5),
        Outcome(trial=Trial("nifti", 0, 2), fate="bad", what="a header that lies", reason="hangs", megabytes=400),
    ]
    assert "| nifti | 2 | 1 | 0 | 1 | 0 | 400 | 0.5 |" in as_markdown(outcomes, "make attack")
    assert "python -m tests.attacks --repeat 'nifti:0:2'" in bad_ones(outcomes)
