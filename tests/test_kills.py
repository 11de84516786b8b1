"""Every verb killed at random moments and given again: nothing is lost, all is as without a kill, no file stays."""

import json
import random
import time

import numpy as np
import pytest
import torch

from tests.verbs import files_in, finish, start

SETTINGS = ("net.width=4", "net.levels=2", "train.batch=[2,2]", "train.checks=3")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu"]
STEPS = ["--steps", 8, "--save-every", 2]


def commands(verb, scans, run, home):
    """The words of a verb that works in a folder of its own, cache and all."""
    cache = ["--cache", home / "cache"]
    return {
        "train": [scans, "--out", home / "run", "--val", 1, *STEPS, *cache, *SMALL],
        "prepare": [scans, "--out", home / "store", "--jobs", 1],
        "prepare in two processes": [scans, "--out", home / "store", "--jobs", 2],
        "compare": [scans, "--methods", "supervised", "--seeds", 1, "--out", home / "out", *STEPS, *cache, *SMALL],
        "predict": [run, scans / "imagesTr", "--out", home / "out", "--masks", "--device", "cpu"],
        "evaluate": [home.parent / "predictions", scans / "labelsTs", "--out", home / "scores.csv", "--per-slice"],
    }[verb]


def words(verb, scans, run, home):
    """The same command, which for a training that was begun has one word more."""
    more = ["--resume"] if verb == "train" and (home / "run/run.json").exists() else []
    return [verb.split()[0], *commands(verb, scans, run, home), *more]


def content(path):
    """What a file says but for times."""
    match path.suffix:
        case ".pt":
            return _plain(torch.load(path, weights_only=True))
        case ".npz":
            with np.load(path) as arrays:
                return {name: arrays[name].tolist() for name in arrays.files}
        case ".jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
        case ".csv" if path.name != "table.csv":
            return path.read_text()
        case ".gz" | ".bin":
            return path.read_bytes()
        case ".json":
            return _without_origin(json.loads(path.read_text()))
    return None


def _plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _without_origin(value):
    if isinstance(value, dict):
        return {name: _without_origin(inner) for name, inner in value.items() if name not in ("data", "commit")}
    return value


def kill_and_go_on(verb, scans, run, tmp_path, times, seed):
    if verb == "evaluate":
        assert finish(["predict", run, scans / "imagesTs", "--out", tmp_path / "predictions"], tmp_path / "said") == 0
    whole, said = tmp_path / "whole", tmp_path / "said"
    whole.mkdir()
    began = time.monotonic()
    assert finish(words(verb, scans, run, whole), said) == 0, said.read_text()
    length = time.monotonic() - began
    chance = random.Random(f"{verb} {seed}")
    for number in range(times):
        home = tmp_path / f"killed{number}"
        home.mkdir()
        for _ in range(chance.choice((1, 1, 2, 3))):
            process = start(words(verb, scans, run, home), said)
            time.sleep(length * chance.random())
            process.kill()
            process.join()
            if process.exitcode == 0:
                break
        if process.exitcode != 0 and finish(words(verb, scans, run, home), said) != 0:
            assert f"{home / 'store'}: is a prepared store already" in said.read_text()  # killed at the very end
        assert files_in(home) == files_in(whole), number
        for name in files_in(whole):
            assert content(home / name) == content(whole / name), (number, name)


VERBS = ("train", "prepare", "compare", "predict", "evaluate")


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_killed_goes_on_as_if_nothing_had_been(scans, finished, tmp_path, verb):
    kill_and_go_on(verb, scans, finished, tmp_path, 1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("verb", [*VERBS, "prepare in two processes"])
def test_thirty_kills_of_a_verb_lose_nothing(scans, finished, tmp_path, verb):
    kill_and_go_on(verb, scans, finished, tmp_path, 30, seed=1)
