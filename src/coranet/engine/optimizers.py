"""Optimizers as a method's updates ask for them, and the rate at each step."""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch

from coranet.engine.run import Optim
from coranet.methods import Method
from coranet.types import Nets

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def _eager(kind: type[Kind]) -> type[Kind]:
    """The same optimizer without PyTorch's compiler, which takes more than a second to load and which no run uses.

    These methods of the plain one load it, to be ready for being compiled; what they wrap does not.
    """
    waiting = ("add_param_group", "zero_grad", "state_dict", "load_state_dict", "step")
    bare = {name: inspect.unwrap(getattr(kind, name)) for name in waiting}
    return type(kind.__name__, (kind,), {**bare, "step": torch.no_grad()(bare["step"])})


_ADAM, _ADAMW, _SGD = _eager(torch.optim.Adam), _eager(torch.optim.AdamW), _eager(torch.optim.SGD)


def make_optimizers(
    method: Method, nets: Nets, optim: Optim, *, captured: bool = False
) -> dict[str, torch.optim.Optimizer]:
    """One for each name that any update of any phase gives, over all the networks it ever moves.

    With `captured` they can be part of a CUDA graph: their rate is a tensor and all their state lies on the device.
    """
    owners: dict[str, list[str]] = {}
    kinds: dict[str, Optim] = {}
    for phase in method.phases:
        for update in method.objectives(phase.name):
            known = owners.setdefault(update.optimizer, [])
            known += [name for name in update.trains if name not in known]
            kinds[update.optimizer] = optim if update.adam is None else _own_adam(optim, update.adam)
    return {
        name: _make_optimizer([p for net in names for p in nets[net].parameters()], kinds[name], captured)
        for name, names in owners.items()
    }


def _own_adam(optim: Optim, lr: float) -> Optim:
    return Optim(kind="adam", lr=lr, betas=optim.betas)


def rate(optim: Optim, step: int, steps: int) -> float:
    """The learning rate of a step."""
    return optim.lr if optim.decay == "none" else optim.lr * float(1 - step / steps) ** 0.9


def _make_optimizer(parameters: list[torch.nn.Parameter], optim: Optim, captured: bool) -> torch.optim.Optimizer:
    if optim.kind != "sgd":
        kind = _ADAM if optim.kind == "adam" else _ADAMW
        return kind(parameters, optim.lr, optim.betas, weight_decay=optim.weight_decay, fused=True, capturable=captured)
    # Fused only where it must be: it fails where a head gets its first gradient later than the others, unless every
    # momentum is there from the start.
    made = _SGD(
        parameters,
        optim.lr,
        optim.momentum,
        weight_decay=optim.weight_decay,
        nesterov=optim.nesterov,
        fused=captured,
    )
    if captured and optim.momentum:
        for parameter in parameters:
            made.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return made
