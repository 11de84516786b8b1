"""What only a GPU can show: half precision, determinism there, and the same answer as on a CPU."""

import numpy as np
import pytest
import torch

import coranet
from coranet.engine import captured as graphs
from coranet.engine import checkpoint
from coranet.engine.run import Run
from coranet.methods import METHODS
from coranet.runs.launch import train

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def weights(run):
    nets = checkpoint.load(run / "last.pt", torch.device("cpu"))["nets"]
    return {f"{net}.{key}": value for net, state in nets.items() for key, value in state.items()}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_in_half_precision_and_repeats_itself(method, scans, small, tmp_path):
    runs = [train(scans, tmp_path / name, small(method=method, device="cuda")) for name in ("first", "second")]
    assert Run.read(runs[0]).accel.precision == "bf16"
    first, second = map(weights, runs)
    assert all(torch.isfinite(value).all() for value in first.values())
    assert all(torch.equal(value, second[key]) for key, value in first.items())


def test_a_gpu_and_a_cpu_say_the_same(finished, scans):
    scan = scans / "imagesTs/phantom_007_0000.nii.gz"
    gpu, cpu = (coranet.load(finished, device).predict(scan) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(gpu.probabilities, cpu.probabilities, atol=2e-3)


@pytest.mark.parametrize(
    "method",
    ["coranet", "coranet:plus", "mean_teacher", "unimatch", "temporal_ensembling", "vat", "bcp", "sassnet", "dct_seg"],
)
def test_a_captured_step_is_the_step_itself(method, scans, small, tmp_path, monkeypatch):
    options = small(method=method, device="cuda", steps=20)
    captured = train(scans, tmp_path / "captured", options)
    assert Run.read(captured).accel.graphs
    monkeypatch.setattr(graphs, "WARM_UP", 1000)
    eager = weights(train(scans, tmp_path / "eager", options))
    assert all(torch.equal(value, eager[key]) for key, value in weights(captured).items())
