"""Successive halving: what is paused, kept, resumed and refused, and that no test case takes part."""

import csv
import json
from itertools import pairwise

import pytest
import torch

from coranet.cli import main
from coranet.errors import InputError
from coranet.runs.comparison import Job
from coranet.runs.launch import train
from coranet.runs.search.halving import Halving
from coranet.runs.search.rung import Rung, ranked
from coranet.runs.search.search_record import SearchRecord
from tests.runs.search.test_grids import SMALL, compare


def test_a_paused_run_goes_on_as_if_it_had_never_paused(scans, small, tmp_path):
    options = small(steps=6, val=1, overrides=(("train.checks", "2"), ("optim.decay", "poly")))
    train(scans, tmp_path / "whole", options)
    for resume, until in ((False, 2), (True, 4), (True, None)):
        train(scans, tmp_path / "paused", options, resume=resume, until=until)
    whole, paused = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("whole", "paused"))
    tensors = list(_tensors(whole))
    assert len(tensors) > 10
    assert all(torch.equal(one, other) for one, other in zip(tensors, _tensors(paused), strict=True))
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
    assert "A search stops early what does worse on validation cases" in (out / "report.html").read_text()
    code, printed = compare(capsys, *arguments, "--halving", "1,3")
    assert code == 1
    assert "was begun with another search" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--halving", "2,1"], "steps rise"),
        (["--halving", "4"], "end before those of --steps 4"),
        (["--halving", "half"], "such as 500,1000"),
        (["--val", "0"], "no validation cases to choose by. Keep some labelled ones out of training with --val N"),
        (["--set", "train.steps=4"], "Give --steps in place of train.steps"),
        (["--against", "supervised"], "is none of the rows"),
        (["--cluster", "local"], "Use --jobs N"),
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
    (tmp_path / "compare.json").write_text("{}")
    with pytest.raises(InputError, match="begun without this search"):
        SearchRecord(how="halving", varied="", asked={}).begun(tmp_path)


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
