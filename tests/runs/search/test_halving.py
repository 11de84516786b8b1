"""Successive halving: what is paused, kept, resumed and refused, and that no test case takes part."""

import csv
import json
import re
from itertools import pairwise

import pytest
import torch

from coranet.cli import main
from coranet.engine.state import State
from coranet.errors import InputError
from coranet.runs.cluster.cluster_options import ClusterOptions
from coranet.runs.cluster.fleet import Fleet
from coranet.runs.comparison import Job
from coranet.runs.launch import train
from coranet.runs.search.halving import Halving
from coranet.runs.search.ranking import ranked
from coranet.runs.search.rung import Rung
from coranet.runs.search.search_record import SearchRecord
from tests.runs.search.test_grids import SMALL, compare


def test_a_paused_run_goes_on_as_if_it_had_never_paused(scans, small, tmp_path, monkeypatch):
    looked = {"whole": [], "paused": []}
    keep = State.save_best
    monkeypatch.setattr(
        State, "save_best", lambda self, dice: looked[self.folder.name].append(self.done) or keep(self, dice)
    )
    options = small(steps=6, val=1, overrides=(("train.checks", "2"), ("optim.decay", "poly")))
    train(scans, tmp_path / "whole", options)
    for resume, until in ((False, 2), (True, 4), (True, None)):
        train(scans, tmp_path / "paused", options, resume=resume, until=until)
    for name in ("last.pt", "best.pt"):
        whole, paused = (torch.load(tmp_path / run / name, weights_only=True) for run in ("whole", "paused"))
        tensors = list(_tensors(whole))
        assert len(tensors) > 10
        assert all(torch.equal(one, other) for one, other in zip(tensors, _tensors(paused), strict=True))
    assert looked == {"whole": [3, 6], "paused": [3, 6]}  # for the best; a rung is no choice of weights
    lines = [json.loads(line) for line in (tmp_path / "paused/log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["val"]] == [2, 3, 4, 6]


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from _tensors(value[key])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)


@pytest.fixture(scope="module")
def halved(scans, cache, tmp_path_factory):
    """Three widths, two rungs: exit code, what was said, folder and arguments."""
    out = tmp_path_factory.mktemp("halved") / "out"
    words = ["--methods", "supervised", "--grid", "net.width=2,4,6", "--set", "train.batch=[1,1]", "--halving", "1,2"]
    return out, [scans, *words, "--steps", 4, "--val", 1, "--out", out, "--cache", cache, *SMALL]


def test_the_better_half_goes_on_and_the_best_alone_is_tested(halved, capsys):
    out, arguments = halved
    code, printed = compare(capsys, *arguments)
    assert code == 0, printed
    said = " ".join(printed.split())
    assert "3 to step 1, 2 to step 2, 1 to step 4; 7 steps at most, where all in full would take 12" in said
    record = json.loads((out / "search.json").read_text())
    assert [one["step"] for one in record["rounds"]] == [1, 2, 4]
    assert [len(one["dice"]) for one in record["rounds"]] == [3, 2, 1]
    for one, after in pairwise(record["rounds"]):
        assert one["kept"] == ranked(one["dice"])[: len(after["dice"])] == list(after["dice"])
    folders = {row: out / f"supervised-net.width={row}-seed0" for row in (2, 4, 6)}
    scored = [f"supervised[net.width={row}]" for row, folder in folders.items() if (folder / "predictions").exists()]
    assert scored == [record["chosen"]] == record["rounds"][-1]["kept"]
    steps = [json.loads((one / "log.jsonl").read_text().splitlines()[-1])["step"] for one in folders.values()]
    assert sorted(steps) == [1, 2, 4]
    (cases,) = record["validation"].values()
    assert cases == json.loads((folders[2] / "run.json").read_text())["split"]["val"]
    assert not {"phantom_007", "phantom_008"} & set(cases)
    assert [row["run"] for row in csv.DictReader((out / "table.csv").read_text().splitlines())] == [record["chosen"]]
    page = (out / "report.html").read_text()
    assert f"Chosen by these alone: {record['chosen']}" in page
    assert cases[0] in page


def test_again_nothing_is_trained_and_another_search_is_refused(halved, capsys):
    out, arguments = halved
    logs = {file: file.read_bytes() for file in out.glob("*/log.jsonl")}
    kept = (out / "search.json").read_bytes()
    code, printed = compare(capsys, *arguments)
    assert code == 0, printed
    assert (out / "search.json").read_bytes() == kept
    assert {file: file.read_bytes() for file in out.glob("*/log.jsonl")} == logs
    with pytest.raises(SystemExit) as caught:
        main(["report", str(out)])
    assert caught.value.code == 0
    page = (out / "report.html").read_text()
    record = json.loads(kept)
    assert "Searched by halving: net.width = 2, 4, 6." in page
    assert f"Chosen by these alone: {record['chosen']}" in page
    assert record["validation"]["0"][0] in page
    assert "Not finished yet: supervised-net.width=" in page
    assert "A search stops early what does worse" in page
    code, printed = compare(capsys, *arguments, "--halving", "1,3")
    assert code == 1
    assert "was begun with another search" in " ".join(printed.split())


def _in_this_process(monkeypatch):
    """Tasks that are done where they are handed over."""

    def send(self, tasks):
        for more in tasks.values():
            with pytest.raises(SystemExit):
                main([*self.words, *more])

    monkeypatch.setattr(Fleet, "send", send)
    monkeypatch.setattr(Fleet, "wait", lambda self, names: {})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # submitit lets go of its processes
@pytest.mark.parametrize("truly", [pytest.param(True, marks=pytest.mark.slow), False])
def test_rungs_that_are_tasks_end_as_those_of_one_process(scans, cache, tmp_path, capsys, monkeypatch, truly):
    if not truly:
        _in_this_process(monkeypatch)
    words = [scans, "--methods", "supervised", "--grid", "net.width=2,4", "--set", "train.batch=[1,1]", "--steps", 3]
    words += ["--halving", "1", "--val", 1, "--cache", cache, *SMALL]
    assert compare(capsys, *words, "--out", tmp_path / "here")[0] == 0
    there = tmp_path / "there"
    code, printed = compare(capsys, *words, "--out", there, "--cluster", "local", "--at-once", 2)
    assert code == 0, printed
    for name in ("search.json", "*/log.jsonl", "*/scores.csv"):
        one, other = ([_timeless(file) for file in sorted((tmp_path / out).glob(name))] for out in ("here", "there"))
        assert one == other
    if truly:
        tasks = json.loads((tmp_path / ".there-cluster/tasks.json").read_text())["tasks"]
        assert [name.rpartition("-")[2] for name in tasks] == ["seed0@1", "seed0@1", "seed0@3", "seed0"]
    logs = {file: file.read_bytes() for file in there.glob("*/log.jsonl")}
    assert compare(capsys, *words, "--out", there, "--cluster", "local")[0] == 0
    assert {file: file.read_bytes() for file in there.glob("*/log.jsonl")} == logs


def _timeless(file):
    """What a file says, but for seconds."""
    return re.sub(r'"seconds": [^,}]+', "", file.read_text())


def test_a_task_that_was_cut_off_is_not_judged_and_one_that_failed_is(tmp_path, monkeypatch):
    rung = Rung(data=tmp_path, out=tmp_path, rows=("cut", "bad"), seeds=1, options=None, exam=None, until=5)
    assert [rung.task_of(job) for job in rung.jobs] == ["cut-seed0@5", "bad-seed0@5"]
    (tmp_path / "bad-seed0").mkdir()
    (tmp_path / "bad-seed0/error.txt").write_text("no such luck\n")
    monkeypatch.setattr(Fleet, "send", lambda self, tasks: None)
    monkeypatch.setattr(Fleet, "wait", lambda self, names: dict.fromkeys(names, "It ended without a word: killed?"))
    tasks = Fleet(place=tmp_path, options=ClusterOptions(cluster="slurm"), words=(), say=print)
    with pytest.raises(InputError, match=r"cut: is not judged, .*killed.*Give the same command again"):
        tasks.attempt_rung(rung)
    assert tasks.attempt_rung(Rung.of(rung, ["bad"], 5)) == {"bad": "seed 0: no such luck"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--halving", "2,1"], "steps rise"),
        (["--halving", "4"], "end before those of --steps 4"),
        (["--halving", "half"], "such as 500,1000"),
        (["--val", "0"], "no validation cases to choose by. Keep some labelled ones out of training with --val N"),
        (["--set", "train.steps=4"], "Give --steps in place of train.steps"),
        (["--against", "supervised"], "is none of the rows"),
    ],
)
def test_refusals_come_before_any_training(halved, tmp_path, capsys, changes, message):
    code, printed = compare(capsys, *halved[1], "--out", tmp_path / "out", *changes)
    assert code == 1
    assert message in " ".join(printed.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_of_plain_runs_is_no_search(tmp_path):
    (tmp_path / "supervised-seed0").mkdir()
    (tmp_path / "supervised-seed0/run.json").write_text("{}")
    with pytest.raises(InputError, match="begun without this search"):
        SearchRecord(how="halving", varied="", asked={}).begun(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"how": "halving"}', '{"other": 1}'])
def test_a_record_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "search.json").write_text(text)
    with pytest.raises(InputError, match=r"search\.json: "):
        SearchRecord.read(tmp_path)


def test_the_page_names_the_best_of_many_rows_and_what_is_not_chosen_yet():
    dice = {f"row{number}": [number / 10] for number in range(8)}
    record = SearchRecord(how="optuna", varied="", asked={}, rounds=[{"step": 3, "dice": dice}])
    notes = record.notes()
    assert "At step 3: row7 0.700, row6 0.600, row5 0.500, row4 0.400, row3 0.300, and 3 that did worse." in notes
    assert "No row is chosen yet" in notes[-1]


def test_rows_that_fail_are_left_behind_and_named(tmp_path):
    def attempt(rung):
        for job in rung.jobs:
            value = {"good": 0.5, "better": 0.7, "odd": float("nan")}.get(job.row, 0) + job.seed / 10
            rung.folder(job).mkdir(exist_ok=True)
            with (rung.folder(job) / "log.jsonl").open("a") as file:
                file.write(json.dumps({"step": rung.until, "val": {"mean": value}}) + "\n")
        return {"broken": "seed 0: no such luck"} if "broken" in rung.rows else {}

    rows = ("broken", "odd", "good", "better")
    made = Rung(data=tmp_path, out=tmp_path, rows=rows, seeds=2, options=None, exam=None)
    halving, said = Halving.from_text("10,20", 40), []
    record = halving.choose(made, halving.record(made, ""), attempt, said.append)
    assert record.chosen == "better"
    assert [one["kept"] for one in record.rounds] == [["better", "good"], ["better"], ["better"]]
    assert record.rounds[0]["failed"] == {"broken": "seed 0: no such luck"}
    assert record.rounds[0]["dice"]["better"] == pytest.approx([0.7, 0.8])
    assert record.asked["budget_steps"] == 2 * (4 * 10 + 2 * 10 + 1 * 20) == halving.budget(4, 2)
    assert Rung.of(made, ["better"], 20).finished(Job("better", 1))
    assert not Rung.of(made, ["good"], 40).finished(Job("good", 1))
    again = halving.choose(made, record, lambda rung: pytest.fail("was judged again"), said.append)
    assert again == record
