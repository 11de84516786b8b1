"""Several processes that train one run: shares of batches, averaged gradients, one writer."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest
import torch

from coranet.engine.group import ALONE, Group
from coranet.errors import InputError
from coranet.nets.synchronised import synchronise
from coranet.runs.launch import train
from coranet.runs.options import Options

UPRIGHT = (
    ("data.augment.rotate", "0"),
    ("data.augment.scale", "[1, 1]"),
    ("data.augment.flip", "false"),
    ("train.batch", "[4, 4]"),
    ("train.log_every", "2"),
    ("data.augment.appearance", "null"),  # whose grain each process draws for its own images
)
"""Windows whose every pixel counts, so that a mean over a batch is the mean of its shares' means."""
INSTANCE = (*UPRIGHT, ("net.norm", "instance"))


def processes(code, *words, count=2):
    """What as many processes print that `torchrun` would start like this, and their exit status."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        said = [process.communicate(timeout=900)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return said, [process.returncode for process in started]


TRAIN = """
    import sys, signal, torch
    from pathlib import Path
    from coranet.engine.trainer import Trainer
    from coranet.runs.launch import train
    from coranet.runs.options import Options
    from coranet.signals import Interrupted
    torch.set_num_threads(1)
    scans, out, cache, method, steps, overrides, stop, resume = sys.argv[1:]
    stepped = Trainer.step
    def step(self, number, stretch):
        if number == int(stop) and self.group.leads:  # one is asked, and all stop
            signal.raise_signal(signal.SIGTERM)
        return stepped(self, number, stretch)
    Trainer.step = step
    pairs = tuple(tuple(pair.split("=")) for pair in overrides.split("|"))
    options = Options(
        preset="auto", steps=int(steps), cache=Path(cache), device="cpu", method=method, overrides=pairs
    )
    try:
        train(scans, out, options, resume=resume == "resume")
    except Interrupted as asked:
        print("stopped after", asked.step)
"""


def train_together(scans, out, options, stop=-1, resume=False):
    overrides = "|".join("=".join(pair) for pair in dict(options.overrides).items())
    words = (scans, out, options.cache, options.method, options.steps, overrides, stop, "resume" if resume else "new")
    said, ended = processes(TRAIN, *words)
    assert ended == [0, 0], "\n".join(said)
    return said


def tensors_of(file):
    """Weights, statistics and the optimizers' state, by name."""
    content, found = torch.load(file, weights_only=True), {}

    def gather(name, value):
        if isinstance(value, torch.Tensor):
            found[name] = value
        elif isinstance(value, dict):
            for key, one in value.items():
                gather(f"{name}.{key}", one)

    gather("", {"nets": content["nets"], "optimizers": content["optimizers"]})
    return found


def losses(run):
    return [json.loads(line)["terms"] for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("method", ["coranet", pytest.param("temporal_ensembling", marks=pytest.mark.slow)])
def test_two_processes_learn_what_one_learns_from_the_same_batches(scans, small, tmp_path, method):
    quiet = (("method.noise", "0"), ("method.dropout", "0")) if method == "temporal_ensembling" else ()
    options = small(method=method, steps=6, overrides=(*INSTANCE, *quiet))
    alone = train(scans, tmp_path / "alone", options)
    train_together(scans, tmp_path / "both", options)
    for one, two in zip(losses(alone), losses(tmp_path / "both"), strict=True):
        assert two == pytest.approx(one, rel=1e-4, abs=1e-6)
    assert json.loads((tmp_path / "both" / "run.json").read_text())["accel"]["processes"] == 2


@pytest.mark.slow
def test_statistics_of_batch_norms_can_be_those_of_all_processes(scans, small, tmp_path):
    options = small(method="supervised", steps=4, overrides=UPRIGHT)
    together = small(method="supervised", steps=4, overrides=(*UPRIGHT, ("accel.statistics", "synchronised")))
    alone = train(scans, tmp_path / "alone", options)
    train_together(scans, tmp_path / "both", together)
    train_together(scans, tmp_path / "apart", options)
    for one, two in zip(losses(alone), losses(tmp_path / "both"), strict=True):
        assert two == pytest.approx(one, rel=1e-4, abs=1e-6)
    mine, theirs = (tensors_of(run / "last.pt") for run in (alone, tmp_path / "both"))
    for name, values in mine.items():
        if "running" in name:
            torch.testing.assert_close(theirs[name], values, rtol=1e-3, atol=1e-4)
    assert losses(tmp_path / "apart")[-1] != pytest.approx(losses(alone)[-1], rel=1e-4)


@pytest.mark.slow
def test_a_group_stops_together_and_goes_on_to_the_same_weights(scans, small, tmp_path):
    options = small(method="coranet", steps=12, overrides=UPRIGHT)
    train_together(scans, tmp_path / "whole", options)
    said = train_together(scans, tmp_path / "parted", options, stop=5)
    assert all("stopped after 6" in words for words in said)
    with pytest.raises(InputError, match=r"was begun with 2 processes, not 1\. Continue it with torchrun --nproc"):
        train(scans, tmp_path / "parted", Options(device="cpu", cache=options.cache), resume=True)
    train_together(scans, tmp_path / "parted", options, resume=True)
    whole, parted = (tensors_of(tmp_path / name / "last.pt") for name in ("whole", "parted"))
    assert whole.keys() == parted.keys()
    assert all(torch.equal(whole[name], parted[name]) for name in whole)


LEAVE = """
    import torch
    from pathlib import Path
    from coranet.engine.group import Group
    with Group.joined(torch.device("cpu")) as group:
        weights = torch.ones(3, requires_grad=True)
        weights.sum().backward()
        group.average([weights.grad])
        torch.optim.Adam([weights]).step()
    threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    print("threads:", len(threads), "of a group:", sum("gloo" in name for name in threads))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted as Linux lists them")
def test_a_group_that_is_left_leaves_no_thread_behind():
    said, ended = processes(LEAVE)
    assert ended == [0, 0], "\n".join(said)
    assert all("of a group: 0" in words for words in said), said


def test_batches_that_cannot_be_shared_out_are_refused(scans, small, tmp_path):
    from coranet.runs.run_plan import make_run

    with pytest.raises(InputError, match="A batch of 2 images cannot be shared out evenly to 3 processes"):
        make_run(scans, small(), torch.device("cpu"), 3)


def test_one_process_is_a_group_that_changes_nothing():
    values = torch.tensor([1.0, 2.0])
    ALONE.average([values])
    assert values.tolist() == [1.0, 2.0]
    assert ALONE.together(values) is values
    assert ALONE.share(4) == slice(0, 4)
    assert Group(1, 2).share(4) == slice(2, 4)


def test_a_network_with_synchronised_norms_predicts_as_before():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Sequential(torch.nn.ReLU()))
    net(torch.randn(4, 1, 8, 8))
    image, names = torch.randn(2, 1, 8, 8), list(net.state_dict())
    before = net.eval()(image)
    synchronise(net)
    assert type(net[1]).__name__ == "SynchronisedNorm"
    assert list(net.state_dict()) == names
    torch.testing.assert_close(net(image), before)


EVERY = """
    import os, sys, torch
    from pathlib import Path
    from coranet.methods import METHODS
    from coranet.runs.launch import train
    from coranet.runs.options import Options
    torch.set_num_threads(1)
    scans, volumes, out, cache = sys.argv[1:]
    small = (("net.width", "4"), ("net.levels", "2"), ("train.batch", "[4, 4]"), ("train.log_every", "1"))
    for name in METHODS:
        for dims, data in ((2, scans), (3, volumes)):
            os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)  # a group may not use its own again
            patch = (32, 32) if dims == 2 else (16, 16, 16)
            train(data, Path(out) / f"{name}-{dims}", Options(
                steps=3, cache=Path(cache), device="cpu", method=name, dims=dims, patch=patch, overrides=small))
    print("all of them")
"""


@pytest.mark.slow
def test_every_method_trains_on_two_processes(scans, tmp_path, cache):
    from coranet.data.datasets.phantom import Phantom, write_folder
    from coranet.methods import METHODS

    volumes = write_folder(tmp_path / "volumes", Phantom(shape=(24, 24, 16)), seed=6, labelled=3, unlabelled=4, test=1)
    (tmp_path / "out").mkdir()
    said, ended = processes(EVERY, scans, volumes, tmp_path / "out", cache)
    assert ended == [0, 0], "\n".join(said)
    for name in METHODS:
        for dims in (2, 3):
            assert len(losses(tmp_path / "out" / f"{name}-{dims}")) == 3
