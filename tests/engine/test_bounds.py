"""What run.json says is believed within bounds: it may come from anyone."""

import inspect
import json
import resource
import shutil
import sys

import numpy as np
import pytest
import torch

import coranet
from coranet.engine.allowance import Allowance
from coranet.engine.prediction.trained import Trained
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.launch import train
from coranet.runs.options import Options

CPU = torch.device("cpu")


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def change(run, path, value):
    content = json.loads((run / "run.json").read_text())
    *parts, last = path.split(".")
    place = content
    for part in parts:
        place = place[part]
    place[last] = value
    (run / "run.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("net.width", 10**9, r"net\.width is between 1 and 4096, not 1000000000"),
        ("net.levels", 10**9, r"net\.levels is between 1 and 12"),
        ("data.channels", 10**9, r"data\.channels is between 1 and 1000"),
        ("data.classes", {}, r"data\.classes has 0 classes, and a run has 2 to 256"),
        ("data.classes", {"0": "a", "x": "b"}, r"data\.classes are named by their values"),
        ("data.classes", {"0": "a", "1": 5}, r"data\.classes\.1 is a str, not 5"),
        ("data.classes", "ab", r"data\.classes is an object of values by name"),
        ("data.window.size", [10**9, 10**9], r"data\.window\.size is between 1 and 16384"),
        ("data.window.size", [16384, 16384], r"data\.window\.size has at most 134217728 points"),
        ("data.preparation", {"spacing": 5}, r"data\.preparation\.spacing is a list"),
        ("data.preparation", {"size": [0, 1, 1]}, "must be positive"),
        ("method.weights", [1, "x"], r"method\.weights is a float, not 'x'"),
        ("optim.lr", None, r"optim\.lr is a float, not None"),
        ("train.steps", 10**30, r"train\.steps is between 0 and"),
        ("net.body", "monai:os", "MONAI has no network called 'os'|shrink|multiples"),
        ("net.body", "x" * 10**5, "No network is called"),
    ],
)
def test_absurd_values_are_refused_in_one_sentence(run, path, value, message):
    change(run, path, value)
    with pytest.raises(InputError, match=message):
        Trained.load(run, CPU)


def test_a_run_of_one_more_channel_is_another_network(run):
    change(run, "data.channels", 2)
    with pytest.raises(InputError, match="another network"):
        Trained.load(run, CPU)


def test_networks_are_no_larger_than_their_weights_file(run, scans, small):
    """1024 channels at four levels would be 600 MB of weights, of each of two networks."""
    change(run, "net.width", 1024)
    change(run, "net.levels", 4)
    change(run, "data.window.size", [64, 64])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"last\.pt: is far too small for the networks that run\.json describes"):
        Trained.load(run, CPU)
    with pytest.raises(InputError, match="far too small"):
        train(scans, run, Options(cache=small().cache, device="cpu"), resume=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_an_allowance_counts_before_anything_is_made():
    with Allowance(10_000, "too much"):
        torch.empty(1000)
        torch.zeros(10, 10)
        torch.empty(10**9, device="meta")
        with pytest.raises(InputError, match="too much"):
            torch.empty(10**12, 10**3)


@pytest.mark.parametrize(("field", "value"), [("spacing", [1e-6] * 3), ("size", [10**9] * 3)])
def test_a_grid_beyond_all_use_is_refused_before_memory_is_taken(run, field, value):
    change(run, "data.preparation", {field: value})
    trained = coranet.load(run, "cpu")
    with pytest.raises(InputError, match=rf"cannot be brought to the run's grid, as .*{field} .* make .* voxels"):
        trained.predict(np.zeros((32, 32, 3), np.float32), affine=np.eye(4))


def test_a_window_far_larger_than_the_scan_is_refused(run):
    change(run, "data.window.size", [8192, 8192])
    trained = coranet.load(run, "cpu")
    with pytest.raises(InputError, match="far too small for its windows of 8192 x 8192"):
        trained.predict(np.zeros((32, 32, 3), np.float32), affine=np.eye(4))


@pytest.mark.parametrize(
    ("content", "message"), [("[" * 10**5, "nests lists or objects"), ('{"seed": 1' + "0" * 5000, "digits")]
)
def test_json_without_end_is_refused(run, content, message):
    (run / "run.json").write_text(content)
    with pytest.raises(InputError, match=rf"run\.json: .*{message}"):
        Run.read(run)


def test_an_allowance_loads_no_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # whoever imports it now fails,
    monkeypatch.delattr(
        inspect.unwrap(Allowance.__torch_dispatch__), "__dynamo_disable", raising=False
    )  # or forgets it
    with Allowance(100, "too much"):
        assert len(torch.empty(25)) == 25
