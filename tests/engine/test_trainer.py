"""The loop end to end on a small phantom: seeds, kills, resumption, bad numbers, full disks."""

import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coranet.data.readers import nifti
from coranet.engine import Listener, checkpoint
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.engine.setup import Setup
from coranet.engine.trainer import Trainer
from coranet.errors import DivergenceError, InputError
from coranet.feed.case_maps import read_maps
from coranet.locks import owned
from coranet.runs.launch import train
from coranet.runs.run_plan import make_run
from tests import verbs

SMALL = ["--set", "net.width=4", "--set", "net.levels=2", "--set", "train.batch=[2,2]", "--device", "cpu", "--val", "0"]
SMALL += ["--method", "coranet", "--preset", "auto", "--set", "train.watch=false"]


def state(run):
    return checkpoint.load(run / "last.pt", torch.device("cpu"))


def same(first, second):
    """Equal to the bit, whatever lies inside."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def records(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def start(scans, out, cache, *more):
    return verbs.start(["train", scans, "--out", out, "--cache", cache, *SMALL, *more], said_of(out))


def said_of(out):
    return out.with_name("said")


def wait_for(path, process):
    while not path.exists():
        assert process.is_alive(), path
        time.sleep(0.005)


def test_a_run_leaves_what_it_promises(finished):
    run = Run.read(finished)
    assert sorted(path.name for path in finished.iterdir() if not path.name.startswith("memory")) == [
        "best.pt",
        "calibration.json",
        "film",
        "last.pt",
        "log.jsonl",
        "run.json",
        "split.json",
    ]
    lines = records(finished)
    assert [line["step"] for line in lines][-1] == run.train.steps == 12
    assert {line["phase"] for line in lines} == {"pretrain", "selftrain"}
    assert set(lines[-1]["terms"]) == {"ce", "dice", "con", "rad", "certain", "consistency"}
    assert 0 <= lines[-1]["measures"]["uncertain_share"] <= 1
    assert set(lines[-1]["val"]) == {"mean", "RV", "Myo", "LV"}
    assert lines[-1]["updates"] == 3 + 3 * 9  # pre-training makes one update a step, self-training three
    assert lines[-1]["images"] == 12 * 2 + 9 * 2  # and learns from labelled images alone
    assert run.made_with["torch"] == torch.__version__
    content = state(finished)
    assert set(content["nets"]) == {"student", "teacher"}
    assert any(key.startswith("heads.con") for key in content["nets"]["student"])
    assert (finished / content["memory"]).exists()
    film = np.load(sorted((finished / "film").iterdir())[-1])
    assert {"image", "prediction", "uncertain", "conservative", "radical"} <= set(film)


def test_one_seed_one_result(scans, small, finished, tmp_path):
    again = train(scans, tmp_path / "again", small(val=1))
    assert same(state(again), state(finished))
    other = train(scans, tmp_path / "other", small(val=1, seed=1))
    assert not same(state(other)["nets"], state(finished)["nets"])


def test_resuming_after_kill_9_gives_the_same_weights_to_the_bit(scans, cache, tmp_path, small):
    killed, settings = tmp_path / "killed", ["--steps", "50", "--save-every", "3"]
    whole = train(scans, tmp_path / "whole", small(val=0, steps=50, save_every=3))
    process = start(scans, killed, cache, *settings)
    wait_for(killed / "log.jsonl", process)
    time.sleep(0.1)  # somewhere in the middle of a step, or of a save
    process.kill()
    process.join()
    step = state(killed)["step"]
    assert 0 < step < 50
    train(scans, killed, small(val=0, steps=50, save_every=3), resume=True)
    assert same(state(killed), state(whole))
    assert [line["step"] for line in records(killed)] == sorted({line["step"] for line in records(killed)})


class Kill(Listener):
    def on_begin(self, plan):
        os.kill(os.getpid(), signal.SIGKILL)


def train_and_be_killed(scans, out, options):
    torch.set_num_threads(1)
    train(scans, out, options, listeners=[Kill()])


def test_a_run_killed_before_its_first_save_is_continued_all_the_same(scans, tmp_path, small):
    out = tmp_path / "run"
    process = verbs.FORKS.Process(target=train_and_be_killed, args=(scans, out, small(val=0, save_every=1000)))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert state(out)["step"] == 0
    train(scans, out, small(val=0, save_every=1000), resume=True)
    undisturbed = train(scans, tmp_path / "undisturbed", small(val=0))
    assert same(state(out)["nets"], state(undisturbed)["nets"])


def test_a_run_killed_while_its_folder_was_made_starts_anew(scans, tmp_path, finished, small):
    out = tmp_path / "run"
    out.mkdir()
    shutil.copy(finished / "last.pt", out)
    with pytest.raises(InputError, match=r"no run\.json.*without --resume"):
        train(scans, out, small(), resume=True)
    assert same(state(train(scans, out, small(val=1)))["nets"], state(finished)["nets"])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_request_to_stop_saves_and_says_how_to_go_on(scans, cache, tmp_path, signum):
    out = tmp_path / "run"
    process = start(scans, out, cache, "--steps", "2000")
    wait_for(out / "log.jsonl", process)
    os.kill(process.pid, signum)
    process.join(60)
    said = said_of(out).read_text()
    assert process.exitcode == 128 + signum
    assert f"Stopped by {signum.name} after step" in said
    assert "--resume" in said
    assert "Traceback" not in said
    assert state(out)["step"] > 0
    assert not list(out.glob(".*"))


def test_a_run_in_training_is_left_alone_until_its_process_has_ended(scans, cache, tmp_path, small):
    out = tmp_path / "run"
    process = start(scans, out, cache, "--steps", "2000")
    wait_for(out / "log.jsonl", process)
    with pytest.raises(InputError, match=f"{out}: is in use by process {process.pid} on "):
        train(scans, out, small(val=0, steps=2000), resume=True)
    undisturbed = process.is_alive()
    process.kill()
    process.join()
    assert undisturbed
    steps = [record["step"] for record in records(out)]
    assert steps == sorted(set(steps))
    with owned(out):
        pass


def test_a_request_to_stop_is_heard_while_relabelling(scans, small, tmp_path, finished, monkeypatch):
    from coranet.engine.prediction.predictor import Predictor
    from coranet.signals import Interrupted

    over = Predictor.over
    kills = iter([False, False, True])

    def interrupted(self, pool, *share):
        for number, found in enumerate(over(self, pool, *share)):
            if number == 0 and len(pool) > 3 and next(kills, False):
                os.kill(os.getpid(), signal.SIGTERM)
            yield found

    monkeypatch.setattr(Predictor, "over", interrupted)
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(scans, out, small(val=1))
    monkeypatch.undo()
    assert 0 < state(out)["step"] < 12
    train(scans, out, small(val=1), resume=True)
    assert same(state(out)["nets"], state(finished)["nets"])


def test_a_run_is_not_overwritten(scans, small, finished, cache):
    before = (finished / "last.pt").read_bytes()
    with pytest.raises(InputError, match="holds a run already"):
        train(scans, finished, small())
    assert (finished / "last.pt").read_bytes() == before


def test_a_run_is_continued_as_it_was_begun(scans, small, finished, tmp_path):
    for changes, message in (({"steps": 50}, "--steps 50: the run was begun with 12"), ({"seed": 9}, "--seed 9")):
        with pytest.raises(InputError, match=message):
            train(scans, finished, small(**changes), resume=True)
    with pytest.raises(InputError, match="no such folder"):
        train(scans, tmp_path / "none", small(), resume=True)


def test_a_run_is_not_continued_on_other_data(scans, small, finished, tmp_path):
    other = tmp_path / "scans"
    shutil.copytree(scans, other)
    scan = nifti.read(other / "imagesTr/phantom_004_0000.nii.gz")
    nifti.write(other / "imagesTr/phantom_004_0000.nii.gz", scan.array[::-1], scan.geometry)
    with pytest.raises(InputError, match="not the data"):
        train(other, finished, small(), resume=True)


def test_starting_from_another_run(scans, small, finished, tmp_path):
    out = train(scans, tmp_path / "more", small(val=1, init=finished, steps=1, overrides=(("optim.lr", "0.0"),)))
    mine, theirs = state(out)["nets"]["student"], state(finished)["nets"]["student"]
    assert all(torch.equal(mine[key], theirs[key]) for key in mine if "running" not in key and "num" not in key)


def test_a_checkpoint_from_another_network_is_refused(scans, small, finished, tmp_path):
    shutil.copy(finished / "last.pt", tmp_path / "alone.pt")  # no run.json says how it was trained
    wider = small(init=tmp_path / "alone.pt", overrides=(("net.width", "6"),))
    with pytest.raises(InputError, match=r"alone.pt: a checkpoint from another network; .* tensors differ"):
        train(scans, tmp_path / "run", wider)
    with pytest.raises(InputError, match="no such checkpoint"):
        train(scans, tmp_path / "run", small(init=tmp_path))
    assert not (tmp_path / "run").exists()


class Explosive:
    """Runs code when unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


@pytest.mark.parametrize("content", ["pickle", "torch", "text", "empty", "other"])
def test_a_checkpoint_that_is_not_ours_is_never_unpickled(content, tmp_path, monkeypatch):
    import pickle

    monkeypatch.chdir(tmp_path)
    path = tmp_path / "last.pt"
    match content:
        case "pickle":
            path.write_bytes(pickle.dumps(Explosive()))
        case "torch":
            torch.save({"format": checkpoint.FORMAT, "nets": Explosive()}, path)
        case "other":
            torch.save({"model": torch.zeros(2)}, path)
        case _:
            path.write_text("hello" if content == "text" else "")
    with pytest.raises(InputError, match=r"last.pt: not a checkpoint of coranet"):
        checkpoint.load(path, torch.device("cpu"))
    assert not (tmp_path / "unpickled").exists()


BAD_METHOD = """
from dataclasses import dataclass, replace
import torch
from coranet.methods.supervised import Supervised

@dataclass(frozen=True, kw_only=True)
class Bad(Supervised):
    def loss(self, nets, batch, at):
        terms = super().loss(nets, batch, at)
        worse = torch.where(at.step == 5, float("nan"), 1.0) * terms.values["ce"]
        return replace(terms, values={**terms.values, "worse": worse})
"""


def test_a_term_that_is_not_finite_stops_with_step_and_name(scans, small, tmp_path):
    (tmp_path / "bad.py").write_text(BAD_METHOD)
    out = tmp_path / "run"
    with pytest.raises(DivergenceError, match=r"Step 5: the term 'worse' is no longer finite \(nan\)"):
        train(scans, out, small(method=f"{tmp_path / 'bad.py'}:Bad", save_every=4))
    assert state(out)["step"] == 4
    assert all(torch.isfinite(t).all() for t in state(out)["nets"]["student"].values())


def test_a_method_of_one_s_own_travels_with_its_run(scans, small, tmp_path):
    file = tmp_path / "bad.py"
    file.write_text(BAD_METHOD)
    out = train(scans, tmp_path / "run", small(method=f"{file}:Bad", steps=3))
    file.unlink()
    assert type(Run.read(out, trust=True).method).__name__ == "Bad"
    moved = tmp_path / "elsewhere"
    out.rename(moved)
    assert Run.read(moved, trust=True).method_source.endswith("bad.py:Bad")


def test_a_full_disk_loses_nothing(scans, cache, tmp_path, small):
    out = train(scans, tmp_path / "run", small(val=0, steps=6))
    run = json.loads((out / "run.json").read_text())
    run["train"] |= {"steps": 20, "save_every": 2}
    (out / "run.json").write_text(json.dumps(run))
    before = (out / "last.pt").read_bytes()

    command = ["train", scans, "--out", out, "--cache", cache, "--device", "cpu", "--resume"]
    assert verbs.finish(command, said_of(out), largest=len(before) // 2) == 1
    said = said_of(out).read_text()
    assert "last.pt: cannot be written (File too large). What was there before is untouched" in said
    assert "Traceback" not in said
    assert (out / "last.pt").read_bytes() == before
    assert not list(out.glob(".*.part"))


@pytest.mark.parametrize("out", ["/proc/coranet/run", "file/run"])
def test_an_unwritable_place_is_found_before_training(scans, small, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(InputError, match="Choose another --out"):
        train(scans, out, small())


def test_without_unlabelled_cases_it_trains_on_labels_and_says_so(scans, small, tmp_path):
    alone = tmp_path / "scans"
    shutil.copytree(scans, alone)
    labelled = {path.name.removesuffix(".nii.gz") for path in (alone / "labelsTr").iterdir()}
    for image in (alone / "imagesTr").iterdir():
        if image.name.removesuffix("_0000.nii.gz") not in labelled:
            image.unlink()
    heard = []
    out = train(alone, tmp_path / "run", small(), say=heard.append)
    assert any("There are no unlabelled cases: training on labels alone." in line for line in heard)
    assert any(" labelled a step, " in line for line in heard)
    assert not any("unlabelled a step" in line for line in heard)
    assert set(records(out)[-1]["terms"]) == {"ce", "dice", "con", "rad"}


def test_half_precision_is_for_gpus(scans, small, tmp_path):
    with pytest.raises(InputError, match="bf16 is for GPUs"):
        train(scans, tmp_path / "run", small(overrides=(("accel.precision", "bf16"),)))


def test_batches_do_not_depend_on_the_checkpoint(scans, small, tmp_path):
    """A longer save interval must not change what is learnt."""
    often = train(scans, tmp_path / "often", small(save_every=1))
    rarely = train(scans, tmp_path / "rarely", small())
    assert same(state(often)["nets"], state(rarely)["nets"])


def test_every_step_of_the_log_knows_its_phase(finished):
    run = Run.read(finished)
    assert replace(run, seed=1) != run
    for line in records(finished):
        assert line["phase"] == ("pretrain" if line["step"] <= 3 else "selftrain")


def test_graphs_are_for_gpus(scans, small, tmp_path):
    with pytest.raises(InputError, match=r"accel\.graphs=true is for NVIDIA GPUs"):
        train(scans, tmp_path / "run", small(overrides=(("accel.graphs", "true"),)))


@pytest.mark.parametrize(("preset", "normalised"), [("auto", True), ("paper", False)])
def test_a_step_knows_how_far_the_scans_spread(scans, small, tmp_path, preset, normalised):
    """The paper's scans are brought to [0, 1], and noise on them must be as much less."""
    run, store = make_run(scans, small(preset=preset), torch.device("cpu"))
    batch = Setup.of(run, store, torch.device("cpu")).batches.at(0)
    deviations = [store.image(name).std() for name in run.split.labelled]
    expected = 1.0 if normalised else pytest.approx(sum(deviations) / len(deviations))
    assert batch.labelled.unit == batch.unlabelled.unit == expected
    assert normalised or batch.labelled.unit < 0.5


@pytest.mark.parametrize("flush", [True, False])
def test_denormals_are_flushed_while_a_step_learns_and_only_then(scans, small, tmp_path, flush):
    def vanishes():
        return bool((torch.full((4,), 1e-30) * 1e-10 == 0).all())

    options = small(overrides=(("accel.flush", str(flush).lower()),))
    run, store = make_run(scans, options, torch.device("cpu"))
    trainer = Trainer(run, store, tmp_path, torch.device("cpu"))
    seen, learn = [], trainer.learn
    trainer.learn = lambda *work: (seen.append(vanishes()), learn(*work))[1]
    trainer.step(0, trainer.setup.timeline[0])
    assert seen == [flush]
    assert not vanishes()


@pytest.mark.parametrize("method", ["coranet", "temporal_ensembling"])
def test_scans_and_maps_on_disk_train_to_the_same_weights(scans, small, tmp_path, method):
    folders = [
        train(scans, tmp_path / name, small(method=method, overrides=overrides))
        for name, overrides in (("memory", ()), ("disk", (("accel.host_bytes", "0"),)))
    ]
    assert same(*(state(folder)["nets"] for folder in folders))


def test_the_best_weights_are_those_of_the_check_with_the_highest_dice(scans, small, tmp_path):
    overrides = (("train.checks", "4"), ("train.keep_maps", "true"))
    folder = train(scans, tmp_path / "run", small(val=1, overrides=overrides))
    checks = {line["step"]: line["val"]["mean"] for line in records(folder) if line["val"]}
    best = checkpoint.load(folder / "best.pt", torch.device("cpu"))
    assert len(checks) == 4
    assert best["step"] == max(checks, key=lambda step: (checks[step], -step))
    weights = Trained.load(folder, torch.device("cpu"), best=True).predictor.segmenter.net.state_dict()
    assert same(dict(weights), dict(best["nets"]["student"]))
    without = train(scans, tmp_path / "without", small())
    assert not (without / "best.pt").exists()
    with pytest.raises(InputError, match="without validation cases"):
        Trained.load(without, torch.device("cpu"), best=True)


def test_maps_of_every_refresh_are_kept_where_asked_for(scans, small, tmp_path):
    folder = train(scans, tmp_path / "run", small(overrides=(("train.keep_maps", "true"),)))
    files = sorted((folder / "maps").glob("*.npz"))
    assert [int(file.stem) for file in files] == [3, 5, 7, 9, 11]
    run, maps = Run.read(folder), read_maps(files[-1])
    assert {"label", "certain"} <= set(maps)
    assert tuple(maps["label"]) == run.split.unlabelled
    assert {image.shape for images in maps["label"].values() for image in images} == {(32, 32)}
    memory = next(folder.glob("memory-*.pt"))
    flat = checkpoint.load(memory, torch.device("cpu"))["maps"]["label"]
    together = [image.ravel() for images in maps["label"].values() for image in images]
    assert torch.equal(flat, torch.from_numpy(np.concatenate(together)))
    assert not (train(scans, tmp_path / "without", small()) / "maps").exists()


@pytest.mark.parametrize("absent", ["pretrain_epochs", "selftrain_epochs"])
def test_a_phase_of_no_length_is_left_out(scans, small, tmp_path, absent):
    options = small(method="coranet", steps=4, overrides=((f"method.{absent}", "0"),))
    out = train(scans, tmp_path / "run", options)
    phases = {line["phase"] for line in records(out)}
    assert phases == {"pretrain", "selftrain"} - {absent.removesuffix("_epochs")}
