"""Optimizers move weights as their papers say."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch

from coranet.engine.optimizers import make_optimizers
from coranet.engine.run import Optim
from coranet.methods import METHODS
from coranet.methods.critics import Adversarial
from coranet.methods.supervised import Supervised
from tests import tiny


def moved(optim: Optim, gradients: list[float]) -> float:
    """Where a weight of 1 is after such gradients."""
    nets = Supervised().nets(tiny.make_net())
    made = make_optimizers(Supervised(), nets, optim)["main"]
    weight = next(nets["student"].parameters())
    with torch.no_grad():
        weight.fill_(1.0)
    for gradient in gradients:
        weight.grad = torch.full_like(weight, gradient)
        made.step()
    value = float(weight.detach().flatten()[0])
    assert torch.equal(weight, torch.full_like(weight, value))
    return value


def test_adamw_decays_weights_apart_from_the_gradient() -> None:
    """Loshchilov & Hutter, ICLR 2019: θ ← θ - η λ θ - η m̂ / (√v̂ + ε); the first step of Adam is one rate long."""
    rate, decay = 0.01, 0.1
    apart = moved(Optim(kind="adamw", lr=rate, weight_decay=decay), [0.5])
    assert apart == pytest.approx(1 - rate * decay - rate, abs=1e-6)
    mixed = moved(Optim(kind="adam", lr=rate, weight_decay=decay), [0.5])
    assert mixed == pytest.approx(1 - rate, abs=1e-6)


def test_nesterov_looks_ahead() -> None:
    """With velocity v: v ← μ v + g, θ ← θ - η (g + μ v) (Sutskever et al., ICML 2013)."""
    rate, momentum, gradients = 0.1, 0.9, [0.5, -0.25, 1.0]
    velocity, ahead, plain = 0.0, 1.0, 1.0
    for gradient in gradients:
        velocity = momentum * velocity + gradient
        ahead -= rate * (gradient + momentum * velocity)
        plain -= rate * velocity
    assert moved(Optim(kind="sgd", lr=rate, nesterov=True), gradients) == pytest.approx(ahead, abs=1e-6)
    assert moved(Optim(kind="sgd", lr=rate), gradients) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_no_optimizer_loads_the_compiler(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # whoever imports it now fails,
    for method in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):  # and whoever has it forgets it
        bare = inspect.unwrap(getattr(torch.optim.Optimizer, method))
        monkeypatch.delattr(bare, "__dynamo_disable", raising=False)
    nets = Supervised().nets(tiny.make_net())
    made = make_optimizers(Supervised(), nets, Optim(kind=kind))["main"]
    made.zero_grad()
    weights = list(nets["student"].parameters())
    sum(weight.sum() for weight in weights).backward()
    before = weights[0].detach().clone()
    made.step()
    made.load_state_dict(made.state_dict())
    assert not torch.equal(weights[0], before)


CRITICAL = [name for name, method in METHODS.items() if issubclass(method, Adversarial)]


@pytest.mark.parametrize("name", CRITICAL)
@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_critics_learn_by_adam_whatever_the_run_s_optimizer(name: str, kind: str) -> None:
    """The authors of DAN, ADVENT and SASSNet give critics Adam at 1e-4; by the run's SGD they stay at chance."""
    method = METHODS[name]()
    optim = Optim(kind=kind, lr=0.01, weight_decay=1e-4, decay="poly")
    made = make_optimizers(method, method.nets(tiny.make_net()), optim)
    (group,) = made["critic"].param_groups
    assert isinstance(made["critic"], torch.optim.Adam)
    assert not isinstance(made["critic"], torch.optim.AdamW)
    assert (group["lr"], group["weight_decay"]) == (1e-4, 0.0)
    assert made["main"].param_groups[0]["lr"] == 0.01
    assert len(CRITICAL) == 4
