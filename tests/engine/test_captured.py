"""Steps as one CUDA graph, whose recording is stood in for here: what is recorded, launched again, and refused.

What a GPU makes of it is in test_gpu.py and tests/methods/test_gpu_steps.py.
"""

import copy
import random
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from coranet.cli.terminal.display import TrainingDisplay
from coranet.engine.captured import WARM_UP, Captured
from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Accel, Optim
from coranet.engine.step import Updates
from coranet.methods.supervised import Supervised
from coranet.runs.run_plan import make_run
from tests import tiny

OWN = """
from dataclasses import dataclass
from coranet.methods.supervised import Supervised

@dataclass(frozen=True, kw_only=True)
class Mine(Supervised):
    pass
"""


def updates_of(method):
    torch.manual_seed(0)
    nets = method.nets(tiny.make_net())
    return Updates(method, nets, make_optimizers(method, nets, Optim()), Accel())


@pytest.fixture
def cuda(monkeypatch):
    """Streams that do nothing, and graphs that record without learning and learn when they are launched."""
    seen = SimpleNamespace(recorded=0, launched=0, learner=None, error=None)
    stream = SimpleNamespace(wait_stream=lambda other: None)

    class Graph:
        def replay(self):
            seen.launched += 1
            learner = seen.learner
            found = learner.updates(learner.batch, learner.at, learner.rate)
            learner.numbers.copy_(torch.stack([*found.values.values(), *found.measures.values()]))

    @contextmanager
    def recording(graph, **how):
        assert how["capture_error_mode"] == "thread_local"
        seen.recorded += 1
        updates = seen.learner.updates
        learning = [*updates.nets.values(), *updates.optimizers.values()]
        before = [copy.deepcopy(one.state_dict()) for one in learning]
        yield
        for one, state in zip(learning, before, strict=True):
            one.load_state_dict(state)
        if seen.error:
            raise seen.error

    for name, value in {
        "Stream": lambda: stream,
        "current_stream": lambda: stream,
        "stream": lambda one: nullcontext(),
        "CUDAGraph": Graph,
        "graph": recording,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return seen


def learnt(learn, updates, steps=WARM_UP + 4):
    """The terms of some steps, and the weights after them."""
    terms = []
    for step in range(steps):
        found = learn(tiny.batch(seed=step), tiny.at("train", step), 2**-10)
        terms.append({name: float(value.detach()) for name, value in found.values.items()})
    return terms, updates.nets["student"].state_dict()


def captured(cuda, method, **how):
    updates, said = updates_of(method), []
    cuda.learner = Captured(updates, say=said.append, **how)
    return *learnt(cuda.learner, updates), said


def assert_same(cuda, method, **how):
    """Captured or not, the same is learnt; returns what was said."""
    plain = updates_of(method)
    terms, weights = learnt(plain, plain)
    found, here, said = captured(cuda, method, **how)
    assert found == terms
    assert all(torch.equal(value, here[key]) for key, value in weights.items())
    return said


@pytest.mark.parametrize("wary", [False, True])
def test_a_step_is_recorded_once_and_then_launched(cuda, wary):
    assert assert_same(cuda, Supervised(), wary=wary) == []
    assert (cuda.recorded, cuda.launched) == (1, 4)


def test_what_cannot_be_captured_is_made_as_it_comes_and_said_once(cuda):
    cuda.error = RuntimeError("operation not permitted when stream is capturing\nmore of it")
    (said,) = assert_same(cuda, Supervised(), wary=True)
    assert said == (
        "A step of Supervised cannot be captured as a CUDA graph, so that steps are launched kernel by kernel, which is "
        "slower: operation not permitted when stream is capturing"
    )
    assert (cuda.recorded, cuda.launched) == (1, 0)
    cuda.error = torch.OutOfMemoryError("no memory")
    with pytest.raises(torch.OutOfMemoryError):
        captured(cuda, Supervised())


@dataclass(frozen=True, kw_only=True)
class Drawing(Supervised):
    """Draws chance where it should not."""

    by: str = "python"

    def loss(self, nets, batch, at):
        {"python": random.random, "numpy": np.random.rand, "torch": lambda: torch.rand(1)}[self.by]()
        return super().loss(nets, batch, at)


@pytest.mark.parametrize("by", ["python", "numpy", "torch"])
def test_a_method_of_ones_own_that_draws_outside_the_device_is_not_captured(cuda, by):
    *_, (said,) = captured(cuda, Drawing(by=by), wary=True)
    assert "A step of Drawing cannot be captured" in said
    assert "draws chance outside the device" in said
    assert cuda.recorded == 0


def test_methods_of_ones_own_are_captured_on_a_gpu(scans, small, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    (tmp_path / "mine.py").write_text(OWN)
    options = small(method=f"{tmp_path / 'mine.py'}:Mine", device=None)
    run, _ = make_run(scans, options, torch.device("cuda"))
    assert run.accel.graphs
    assert run.method_source
    run, _ = make_run(scans, small(method=options.method), torch.device("cpu"))
    assert not run.accel.graphs


def test_remarks_reach_a_person(capsys):
    TrainingDisplay().on_remark("A sentence.")
    assert "A sentence." in capsys.readouterr().err


@dataclass(frozen=True, kw_only=True)
class Paced(Supervised):
    """Weighs its terms by all that `Progress` says of a step."""

    def loss(self, nets, batch, at):
        terms = super().loss(nets, batch, at)
        pace = at.step + 10 * at.phase_step + 100 * at.epoch + 1000 * at.passes
        return replace(terms, values={**terms.values, "pace": pace.detach().float()})


def test_a_graph_hears_all_that_changes_from_step_to_step(cuda):
    """Each of the tensors of `Progress`, such as how often images were seen, which `coranet:plus` counts by."""
    assert assert_same(cuda, Paced()) == []
    assert cuda.launched == 4
    paces = [float(tiny.at("train", step).passes) for step in range(9)]
    assert len(set(paces)) == 9, "tiny.at must move passes for this test to say anything"
