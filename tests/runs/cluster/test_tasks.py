"""Tasks of a cluster: what is handed over, to whom, how it stands, and that a run is never done twice."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from coranet.cli import main
from coranet.errors import InputError
from coranet.processes import machine, start_of
from coranet.runs.cluster import standing
from coranet.runs.cluster.cluster_options import ClusterOptions, ShardOptions
from coranet.runs.cluster.fleet import fleet, way_back
from coranet.runs.cluster.ledger import Entry, Ledger, TaskNote, make_place, output_of, place_of, write_outcome
from coranet.runs.cluster.standing import TaskStanding, standings
from coranet.runs.cluster.waiting import in_short, wait_for
from coranet.runs.cluster.worker import FailedTaskError, Worker

SETTINGS = ("net.width=4", "net.levels=2", "train.batch=[2,2]", "train.checks=1")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu"]
BROKEN = (
    "from dataclasses import dataclass\nfrom coranet.methods.supervised import Supervised\n\n"
    "@dataclass(frozen=True, kw_only=True)\nclass Broken(Supervised):\n"
    "    def after_step(self, nets, at):\n        raise RuntimeError('no such luck')\n"
)


def command(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main([*map(str, words)])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def table(out):
    """What a comparison ends in, but for seconds."""
    return [{**row, "seconds": ""} for row in csv.DictReader((out / "table.csv").read_text().splitlines())]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # submitit lets go of its processes
def test_a_comparison_by_local_tasks_is_that_of_one_process(scans, cache, tmp_path, capsys):
    own = tmp_path / "broken.py"
    own.write_text(BROKEN)
    rows = f"supervised,{own}:Broken"
    words = ["compare", scans, "--methods", rows, "--seeds", 1, "--steps", 4, "--cache", cache, *SMALL]
    assert command(capsys, *words, "--out", tmp_path / "here")[0] == 1
    cluster = ["--out", tmp_path / "there", "--cluster", "local", "--at-once", 2]
    code, _, err = command(capsys, *words, *cluster)
    assert (code, "2 tasks handed over" in err) == (1, True)
    assert table(tmp_path / "here") == table(tmp_path / "there")
    here, there = ((tmp_path / name / "supervised-seed0/scores.csv").read_bytes() for name in ("here", "there"))
    assert here == there
    code, out, _ = command(capsys, "status", tmp_path / "there", "--all")
    assert code == 1
    assert "1 finished, 1 failed" in out
    assert "no such luck" in out
    assert f"tail -f {place_of(tmp_path / 'there')}" in out
    entry, _ = json.loads(command(capsys, "status", tmp_path / "there", "--json")[1])
    assert (entry["name"], entry["state"]) == ("supervised-seed0", "finished")


@pytest.mark.parametrize(
    ("text", "minutes"), [("90", 90), ("90:30", 90), ("1:30:00", 90), ("2-12", 3600), ("1-00:30:00", 1470)]
)
def test_times_are_read_as_slurm_reads_them(text, minutes):
    assert ClusterOptions(cluster="slurm", slurm=(("time", text),)).minutes == minutes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cluster": "slurm", "slurm": (("time", "soon"),)}, "is no time"),
        ({"cluster": "slurm", "slurm": (("time", "0:10"),)}, "less than a minute"),
        ({"cluster": "slurm", "slurm": (("gpu",),)}, "KEY=VALUE"),
        ({"cluster": "slurm", "slurm": (("--ntasks-per-node", "2"),)}, "ntasks-per-node: is set for every task"),
        ({"slurm": (("partition", "gpu"),)}, "Add --cluster slurm"),
        ({"cluster": "local", "at_once": 0}, "at least one"),
        ({"cluster": "local", "shard": "1/2"}, "is what a task does"),
        ({"shards": 0}, "at least one"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        ShardOptions(**options)


def test_without_submitit_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("coranet.runs.cluster.submission.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'coranet"), _fleet(tmp_path / "out", "local"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_slurm_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no SLURM here"), _fleet(tmp_path / "out", "slurm"):
        pass
    assert list(tmp_path.iterdir()) == []


def _fleet(out, cluster):
    return fleet(out, ClusterOptions(cluster=cluster), ["predict"])


def test_tasks_are_told_the_command_without_the_cluster(tmp_path):
    words = ["predict", "RUN", "--cluster", "slurm", "--slurm=mem=4G", "--slurm", "time=1", "--at-once", "3", "--masks"]
    with fleet(tmp_path / "out", ClusterOptions(cluster="local"), words) as tasks:
        assert tasks.words == ("predict", "RUN", "--masks")
    assert "Nothing was handed over" in way_back(tmp_path / "out", ClusterOptions(cluster="slurm"))


@pytest.fixture
def place(tmp_path):
    """Four tasks of SLURM: one is finished, one failed, one runs, one is nowhere, one was never handed over."""
    place = make_place(tmp_path / "out")
    entries = {name: Entry(token=name, job=f"7_{number}") for number, name in enumerate("abcd")} | {
        "e": Entry(token="e")
    }
    Ledger(cluster="slurm", entries=entries, minutes=60).write(place)
    for name, state in (("a", "finished"), ("b", "failed"), ("c", "running"), ("d", "running")):
        write_outcome(place, name, TaskNote(token=name, state=state, error="out of luck" if state == "failed" else ""))
    return place


def squeue(monkeypatch, text, code=0, error=""):
    answer = SimpleNamespace(stdout=text, returncode=code, stderr=error)
    monkeypatch.setattr(standing.subprocess, "run", lambda *words, **how: answer)


def test_how_tasks_stand_is_told_without_accounting(place, monkeypatch, capsys):
    squeue(monkeypatch, "7_2|RUNNING|59:00|None|node3\n")
    stand = {one.name: one for one in standings(place)}
    assert [one.state for one in stand.values()] == ["finished", "failed", "runs", "cut off", "cut off"]
    assert (stand["c"].left, stand["c"].where, stand["b"].note) == ("59:00", "node3", "out of luck")
    assert "never began" not in stand["d"].note
    (place / "d.json").unlink()
    assert f"It never began. Does its machine see {place}?" in standings(place)[3].note
    squeue(monkeypatch, "7_2|PENDING|1:00:00|Priority|\n")
    assert [(one.state, one.note) for one in standings(place)][2] == ("waits", "Priority")
    squeue(monkeypatch, "", 1, "slurm_load_jobs error: Unable to contact slurm controller")
    assert [one.state for one in standings(place)][2:4] == [
        "unknown",
        "unknown",
    ]  # and so they are not handed over again
    squeue(monkeypatch, "", 1, "slurm_load_jobs error: Invalid job id specified")
    monkeypatch.setattr("coranet.runs.cluster.waiting._SURE", 0)
    assert set(wait_for(place, ["a", "b", "c", "d"], lambda line: None)) == {"b", "c", "d"}
    assert "scancel 7" in way_back(place.with_name("out"), ClusterOptions(cluster="slurm"))


def test_many_tasks_that_stand_alike_are_counted_and_those_that_failed_are_named(tmp_path):
    news = [TaskStanding(name=f"t{number}", state="waits", output=tmp_path) for number in range(100)]
    news += [TaskStanding(name="bad", state="failed", note="no luck", output=tmp_path)]
    assert in_short(news) == ["100 tasks: waits", "bad: failed. no luck"]
    assert in_short(news[:2]) == ["t0: waits", "t1: waits"]


def test_local_tasks_live_as_long_as_their_process(place, monkeypatch):
    number = os.getpid()
    ours = Entry(token="c", job=str(number), machine=machine(), start=start_of(number))
    entries = {"c": ours, "d": replace(ours, token="d", job="1", start="0")}
    Ledger(cluster="local", entries=entries, minutes=60).write(place)
    runs, gone = standings(place)
    assert (runs.state, gone.state) == ("runs", "cut off")
    assert runs.left.startswith("59:")


def worker(place, token, *words):
    return Worker(str(place), "c", token, words, str(place), slots=None, grace=1)


def test_a_task_works_only_where_it_is_the_one_that_is_meant(place, monkeypatch):
    worker(place, "of another time", "--version")()
    assert not output_of(place, "c").exists()
    worker(place, "c", "--version")()
    assert output_of(place, "c").read_text().startswith("coranet ")
    squeue(monkeypatch, "")
    assert standings(place)[2].state == "finished"


def test_a_task_that_fails_says_why_and_one_that_is_stopped_comes_back(place, monkeypatch):
    with pytest.raises(FailedTaskError):
        worker(place, "c", "report", "nowhere")()
    squeue(monkeypatch, "")
    assert "nowhere" in standings(place)[2].note
    stopped = worker(place, "c")
    stopped.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    again = stopped.checkpoint()
    assert stopped.child.wait() < 0
    assert again.function is stopped
    squeue(monkeypatch, "7_2|PENDING|1:00:00|BeginTime|\n")
    assert standings(place)[2].state == "waits"


def test_status_of_a_folder_without_tasks_says_so(tmp_path, capsys):
    code, _, err = command(capsys, "status", tmp_path)
    assert (code, "no tasks were handed over" in err) == (1, True)
