"""Verbs that meet in one folder: one does its work, the other says who is there and ends."""

import json
import os

import pytest
import torch

from coranet.cli import main
from coranet.engine import checkpoint
from coranet.engine.log import Listener
from coranet.engine.run import Run
from coranet.locks import holding, owned
from coranet.runs import comparison, jobs
from coranet.runs.launch import train
from tests import verbs

SETTINGS = ("net.width=4", "net.levels=2", "train.batch=[2,2]", "train.checks=1")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu"]


def weights(run):
    return checkpoint.load(run / "last.pt", torch.device("cpu"))["nets"]["student"]


def race(arguments, folder):
    """Two at once; exit statuses and what was said."""
    gate = verbs.FORKS.Barrier(2)
    said = [folder / f"said{number}" for number in range(2)]
    processes = [verbs.start(words, file, gate) for words, file in zip(arguments, said, strict=True)]
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes], [file.read_text() for file in said]


def trainings_at_once(scans, cache, tmp_path, times):
    command = ["train", scans, "--cache", cache, "--steps", 2, "--val", 0, *SMALL]
    alone = [tmp_path / f"alone{seed}" for seed in range(2)]
    for seed, out in enumerate(alone):
        assert verbs.finish([*command, "--out", out, "--seed", seed], tmp_path / "said") == 0
    for turn in range(times):
        folder = tmp_path / f"turn{turn}"
        folder.mkdir()
        out = folder / "run"
        codes, said = race([[*command, "--out", out, "--seed", seed] for seed in range(2)], folder)
        assert sorted(codes) == [0, 1], said
        last = said[codes.index(1)].splitlines()[-1]
        assert f"{out}: is in use by process " in last or f"{out}: holds a run already" in last
        assert "Traceback" not in "".join(said)
        seed = Run.read(out).seed
        assert seed == codes.index(0)
        mine, theirs = weights(out), weights(alone[seed])
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
        assert [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()] == [2]
        assert verbs.files_in(out) == verbs.files_in(alone[seed])


def test_of_two_trainings_started_at_once_one_trains(scans, cache, tmp_path):
    trainings_at_once(scans, cache, tmp_path, 3)


@pytest.mark.slow
def test_of_two_trainings_started_at_once_one_trains_always(scans, cache, tmp_path):
    trainings_at_once(scans, cache, tmp_path, 40)


def test_the_folder_of_a_training_is_its_own_before_anything_is_read(scans, small, tmp_path):
    class Look(Listener):
        def on_open(self, run, store):
            assert (tmp_path / "run/.lock").exists()
            assert not (tmp_path / "run/run.json").exists()

    train(scans, tmp_path / "run", small(steps=1, val=0), listeners=[Look()])
    assert not (tmp_path / "run/.lock").exists()


@pytest.mark.parametrize("verb", ["train", "compare", "reproduce", "prepare", "predict", "demo"])
def test_of_two_that_share_an_out_the_second_is_told(scans, cache, finished, tmp_path, capsys, verb):
    out = tmp_path / "out"
    arguments = {
        "train": [scans, "--cache", cache],
        "compare": [scans, "--methods", "supervised", "--cache", cache],
        "reproduce": ["table9", "--short", "--cache", cache],
        "prepare": [scans, "--jobs", 1],
        "predict": [finished, scans / "imagesTs", "--device", "cpu"],
        "demo": [],
    }[verb]
    lock = tmp_path / ".out.lock" if verb == "prepare" else out / ".lock"
    with holding(lock, out), pytest.raises(SystemExit) as ended:
        main([verb, *map(str, arguments), "--out", str(out)])
    assert ended.value.code == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(f"coranet: {out}: is in use by process {os.getpid()} on ")
    assert len(said) == (2 if verb == "predict" else 1)  # which has said before what it loaded
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_leaves_a_run_alone_that_another_process_trains(scans, small, tmp_path):
    made = comparison.prepare(scans, tmp_path / "out", "supervised", 1, small(steps=2), print, lambda *_: None)
    (job,) = made.jobs
    with owned(made.folder(job)):
        error = jobs.attempt(made, job, say=lambda line: None)
        assert error.startswith(f"{made.folder(job)}: is in use by process")
        assert verbs.files_in(made.folder(job)) == [".lock"]
