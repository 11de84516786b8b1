"""What a step of a method costs, counted rather than timed: multiplications of its networks, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.flop_counter import flop_registry

from coranet.engine.run import Accel
from coranet.engine.step import backward, progress
from coranet.engine.timeline import Stretch
from coranet.methods import Method
from coranet.nets import MakeNet, Net
from coranet.types import Batch, Sample

if TYPE_CHECKING:
    from typing import Self

    class _Dispatch:
        """As PyTorch's, which has no types."""

        def __enter__(self) -> Self: ...
        def __exit__(self, *details: object) -> None: ...
else:
    from torch.utils._python_dispatch import TorchDispatchMode as _Dispatch

SHAPE, IMAGES, CLASSES = (16, 16), 2, 2
MAKE_NET = MakeNet(Net(width=16, levels=2), dims=2, channels=1, classes=CLASSES)


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Floating-point operations of convolutions and products of matrices in one step."""

    forward: int
    backward: int

    @property
    def step(self) -> int:
        """Both."""
        return self.forward + self.backward


def tiny_nets(method: Method) -> dict[str, nn.Module]:
    """Its networks, as small as they are still told apart; two classes, two dimensions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return method.nets(MAKE_NET)


@cache
def step_cost(method: Method) -> StepCost:
    """Of one step of the last phase, with as many labelled as unlabelled images; refreshes of stored maps are left out."""
    nets, phase = tiny_nets(method), method.phases[-1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batch = _batch(method, nets)
        method.begin_phase(nets, phase.name)
        at = progress(5, 20, 4, 4, Stretch(phase, 0, 20, None), torch.device("cpu"))
        with Counter() as counter:
            for update in method.objectives(phase.name):
                backward(nets, update, batch, at, Accel())
            method.after_step(nets, at)
    return StepCost(forward=counter.forward, backward=counter.backward)


class Counter(_Dispatch):
    """Counts what PyTorch knows the cost of.

    Only convolutions have an operation of their own for the way back; that of other layers, which have far fewer
    weights, counts as forward. PyTorch's own counter also tells modules apart, and fails where gradients of inputs are
    taken within a loss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forward = self.backward = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if (count := flop_registry.get(func._overloadpacket)) is not None:
            operations = int(count(*args, **(kwargs or {}), out_val=out))
            if "backward" in str(func):
                self.backward += operations
            else:
                self.forward += operations
        return out


def _batch(method: Method, nets: dict[str, nn.Module]) -> Batch:
    """Noise, and what the method would have kept of it."""
    valid = torch.ones(IMAGES, *SHAPE, dtype=torch.bool)
    images = torch.randn(2, IMAGES, 1, *SHAPE)
    segmenter = method.segmenter(nets)
    segmenter.net.eval()
    with torch.no_grad():
        kept = method.remember(segmenter(images[1]))
    return Batch(
        labelled=Sample(image=images[0], valid=valid, label=torch.randint(CLASSES, (IMAGES, *SHAPE))),
        unlabelled=Sample(image=images[1], valid=valid, maps=kept),
    )
