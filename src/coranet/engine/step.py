"""One training step: all the updates that a method makes of one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from coranet.engine.group import ALONE, Group
from coranet.engine.prediction.predictor import arithmetic, in_layout
from coranet.engine.run import Accel
from coranet.engine.timeline import Stretch
from coranet.errors import InputError
from coranet.methods import Method
from coranet.types import Batch, Nets, Progress, Terms, Update


def progress(
    step: int, steps: int, epoch: int, labelled_epoch: int, stretch: Stretch, device: torch.device
) -> Progress:
    """Where a step stands, as tensors on the device."""

    def number(value: float) -> Tensor:
        return torch.full((), float(value), device=device)

    inside = step - stretch.start
    return Progress(
        step=number(step),
        steps=steps,
        phase=stretch.phase.name,
        phase_step=number(inside),
        phase_steps=stretch.stop - stretch.start,
        epoch=number(inside / epoch),
        passes=number(step / labelled_epoch),
    )


def backward(nets: Nets, update: Update, batch: Batch, at: Progress, accel: Accel) -> Terms:
    """Evaluate an update's loss and leave its gradients in the networks it trains; all others are frozen meanwhile."""
    for name in update.trains:
        if not nets[name].training:
            nets[name].train()
    with frozen(net for name, net in nets.items() if name not in update.trains):
        with arithmetic(accel, batch.labelled.image.device):
            terms = update.loss(nets, batch, at)
        torch.autograd.backward(terms.total)
    return Terms(
        values={name: value.detach() for name, value in terms.values.items()},
        measures={name: value.detach() for name, value in terms.measures.items()},
        traces={name: replace(trace, values=trace.values.detach()) for name, trace in terms.traces.items()},
    )


def learnt(nets: Nets, update: Update) -> list[Tensor]:
    """What one pass of an update leaves behind: gradients of the networks it trains, and running statistics of all."""
    parameters = (parameter for name in update.trains for parameter in nets[name].parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    buffers = (buffer for net in nets.values() for buffer in net.buffers())
    return [*gradients, *(buffer for buffer in buffers if buffer.is_floating_point())]


@contextmanager
def frozen(nets: Iterable[nn.Module]) -> Iterator[None]:
    """Meanwhile nothing in these networks learns; after it what learnt before learns again."""
    learning = [parameter for net in nets for parameter in net.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad = True


def laid_out(batch: Batch, accel: Accel) -> Batch:
    """The batch in the memory layout the networks are in."""
    labelled = replace(batch.labelled, image=in_layout(batch.labelled.image, accel))
    if batch.unlabelled is None:
        return Batch(labelled=labelled)
    return Batch(
        labelled=labelled, unlabelled=replace(batch.unlabelled, image=in_layout(batch.unlabelled.image, accel))
    )


@dataclass(frozen=True)
class Updates:
    """Every optimizer step of one training step, and what moves after them."""

    method: Method
    nets: Nets
    optimizers: dict[str, torch.optim.Optimizer]
    accel: Accel
    group: Group = ALONE

    def __call__(self, batch: Batch, at: Progress, rate: float | Tensor) -> Terms:
        """Learn from a batch at a learning rate; terms, measures and traces come back unread."""
        found: dict[str, Terms] = {}
        for update in self.method.objectives(at.phase):
            if update.name in found:
                raise InputError(
                    f"Two updates of {type(self.method).__name__} are called {update.name!r}: name them apart."
                )
            optimizer = self.optimizers[update.optimizer]
            for group in optimizer.param_groups if update.adam is None else ():
                group["lr"] = update.rate * rate
            optimizer.zero_grad(set_to_none=True)
            found[update.name] = backward(self.nets, update, batch, at, self.accel)
            self.group.average(learnt(self.nets, update))
            optimizer.step()
        self.method.after_step(self.nets, at)
        return joined(found)


def joined(found: Mapping[str, Terms]) -> Terms:
    """What all updates of a step found, by the updates' names.

    A term that several have is told apart by the update's name, a measure that several have is averaged.
    """
    owners = Counter(name for terms in found.values() for name in terms.values)
    values = {
        name if owners[name] == 1 else f"{update}.{name}": value
        for update, terms in found.items()
        for name, value in terms.values.items()
    }
    measures: dict[str, list[Tensor]] = {}
    for terms in found.values():
        for name, measure in terms.measures.items():
            measures.setdefault(name, []).append(measure)
    return Terms(
        values=values,
        measures={name: each[0] if len(each) == 1 else torch.stack(each).mean() for name, each in measures.items()},
        traces={name: trace for terms in found.values() for name, trace in terms.traces.items()},
    )
