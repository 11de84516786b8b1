"""Optuna's search: what it tries, how it goes on, and that validation cases alone choose."""

import csv
import json
import sys

import pytest

from coranet.errors import InputError
from coranet.runs.search.grids import read_axes
from coranet.runs.search.rung import Rung
from coranet.runs.search.trials import STORAGE, Trials
from tests.runs.search.test_grids import SMALL, compare

GRID = ["--grid", "net.width=2,4,6", "--grid", "optim.lr=1e-3,1e-4"]


def test_a_search_is_chosen_by_validation_cases_and_goes_on(scans, cache, tmp_path, capsys):
    pytest.importorskip("optuna")
    out = tmp_path / "out"
    words = ["--methods", "supervised", *GRID, "--set", "train.batch=[1,1]", "--steps", 1, "--val", 1, "--out", out]
    code, printed = compare(capsys, scans, *words, "--cache", cache, *SMALL, "--search", 2)
    assert code == 0, printed
    first = json.loads((out / "search.json").read_text())
    code, printed = compare(capsys, scans, *words, "--cache", cache, *SMALL, "--search", 3)
    assert code == 0, printed
    record = json.loads((out / "search.json").read_text())
    (found,) = record["rounds"]
    assert len(found["trials"]) == 3
    assert found["trials"][:2] == first["rounds"][0]["trials"]
    assert record["chosen"] == max(found["dice"], key=lambda row: found["dice"][row][0])
    assert "phantom_007" not in record["validation"]["0"]
    assert record["validation"]["0"]
    tested = [file.parent for file in out.glob("*/scores.csv")]
    assert 1 <= len(tested) <= 2  # the one chosen of two, and the one chosen of three
    assert [row["run"] for row in csv.DictReader((out / "table.csv").read_text().splitlines())] == [record["chosen"]]
    assert (out / STORAGE).exists()
    assert "search.png, beside this page" in (out / "report.html").read_text()
    assert (out / "search.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_searched_is_refused(monkeypatch):
    axes = read_axes((("net.width", "2,4"), ("optim.lr", "1,2")))
    for count, steps, message in ((4, 10, "there are 4 combinations"), (0, 10, "at least one"), (2, None, "--steps")):
        with pytest.raises(InputError, match=message):
            Trials.of(count, steps, ["supervised"], axes)
    with pytest.raises(InputError, match="there is nothing to search"):
        Trials.of(2, 10, ["supervised"], ())
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"pip install 'coranet\[search\]'"):
        Trials.of(2, 10, ["supervised"], axes)


def test_every_value_is_looked_at_before_the_search():
    axes = read_axes((("net.width", "2,4"), ("method.regions.alpha", "1,2")))
    made = Trials(count=1, steps=1, rows=("supervised", "coranet"), axes=axes)
    assert {"supervised[net.width=4]", "coranet[regions.alpha=2]", "coranet[net.width=2]"} < set(made.samples)
    assert "supervised[regions.alpha=2]" not in made.samples


def test_a_trial_that_was_cut_off_is_tried_again_and_failures_are_named(tmp_path):
    pytest.importorskip("optuna")
    axes, tried = read_axes((("net.width", "2,4,6"),)), []
    trials = Trials.of(2, 10, ["supervised"], axes)
    made = Rung(data=tmp_path, out=tmp_path, rows=("supervised",), seeds=1, options=None, exam=None)
    record = trials.record(made, "")

    def power_cut(rung):
        tried.extend(rung.rows)
        raise KeyboardInterrupt

    def attempt(rung):
        tried.extend(rung.rows)
        if len(tried) == 2:
            return {rung.rows[0]: "seed 0: no such luck"}
        rung.folder(rung.jobs[0]).mkdir()
        line = json.dumps({"step": 10, "val": {"mean": float("nan")}})
        (rung.folder(rung.jobs[0]) / "log.jsonl").write_text(f"{line}\n")
        return {}

    with pytest.raises(KeyboardInterrupt):
        trials.choose(made, record, power_cut, print)
    found = trials.choose(made, record, attempt, print)
    assert tried[0] == tried[1]
    (facts,) = found.rounds
    assert facts["trials"] == [[tried[1], None], [tried[2], -1.0]]
    assert found.chosen == tried[2]
    assert facts["importance"] == {}


def test_trials_that_are_asked_for_together_are_one_rung(tmp_path):
    pytest.importorskip("optuna")
    trials = Trials.of(5, 10, ["supervised"], read_axes((("net.width", "2,3,4,5,6,7,8,9"),)), 3)
    made, rungs = Rung(data=tmp_path, out=tmp_path, rows=("supervised",), seeds=1, options=None, exam=None), []

    def attempt(rung):
        rungs.append(rung.rows)
        for job in rung.jobs:
            rung.folder(job).mkdir(exist_ok=True)
            line = json.dumps({"step": 10, "val": {"mean": int(job.row[-2]) / 10}})
            (rung.folder(job) / "log.jsonl").write_text(f"{line}\n")
        return {}

    found = trials.choose(made, trials.record(made, ""), attempt, print)
    assert len(rungs) == 2
    assert len(rungs[0]) > 1
    assert [row for row, _ in found.rounds[0]["trials"][:3]] == list(rungs[0])
    assert len(found.rounds[0]["trials"]) == 5
    assert found.chosen == max((row for row, _ in found.rounds[0]["trials"]), key=lambda row: row[-2])
