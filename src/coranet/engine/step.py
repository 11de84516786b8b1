"""One training step: all the updates that a method makes of one batch, as they come or as one CUDA graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from coranet.engine.prediction.predictor import arithmetic, in_layout
from coranet.engine.run import Accel
from coranet.engine.timeline import Stretch
from coranet.errors import InputError
from coranet.methods import Method
from coranet.types import Batch, Nets, Progress, Sample, Terms, Update


def progress(step: int, steps: int, epoch: int, stretch: Stretch, device: torch.device) -> Progress:
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

    def __call__(self, batch: Batch, at: Progress, rate: float | Tensor) -> Terms:
        """Learn from a batch at a learning rate; terms, measures and traces come back unread."""
        found: dict[str, Terms] = {}
        for update in self.method.objectives(at.phase):
            if update.name in found:
                raise InputError(
                    f"Two updates of {type(self.method).__name__} are called {update.name!r}: name them apart."
                )
            optimizer = self.optimizers[update.optimizer]
            for group in optimizer.param_groups:
                group["lr"] = update.rate * rate
            optimizer.zero_grad(set_to_none=True)
            found[update.name] = backward(self.nets, update, batch, at, self.accel)
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


WARM_UP = 3
"""Steps made as they come before one is captured: libraries choose their algorithms in them, optimizers make their state."""


class Captured:
    """The same updates as one CUDA graph, so that a step is a few copies and one launch.

    What changes from step to step comes in through tensors that stay where they are: the batch, where training stands, the
    rate. Random numbers are drawn anew in each replay, from the generator as it was seeded before. The first steps of
    a phase are made as they come, and are steps like any other: nothing is trained twice, and nothing is put back.
    """

    def __init__(self, updates: Updates) -> None:
        self.updates = updates
        self.stream = torch.cuda.Stream()
        self.kind: tuple[object, ...] = ()

    def __call__(self, batch: Batch, at: Progress, rate: float) -> Terms:
        """Learn from a batch, whose tensors are copied."""
        self._take(batch, at, rate)
        if self.warm < WARM_UP:
            self.warm += 1
            return self._apart()
        if self.graph is None:
            self._capture()
        assert self.graph is not None
        self.graph.replay()
        numbers = iter(self.numbers.clone().unbind())  # the next step overwrites the graph's own
        return replace(
            self.found,
            values=dict(zip(self.found.values, numbers, strict=False)),
            measures=dict(zip(self.found.measures, numbers, strict=True)),
        )

    def _take(self, batch: Batch, at: Progress, rate: float) -> None:
        kind = kind_of(batch, at.phase)
        if kind != self.kind:
            self.kind, self.warm = kind, 0
            self.graph: torch.cuda.CUDAGraph | None = None
            self.batch, self.at = _copied(batch), at
            self.rate = torch.full((), rate, device=at.step.device)
            return
        for (_, mine), (_, theirs) in zip(_tensors(self.batch), _tensors(batch), strict=True):
            mine.copy_(theirs)
        for mine, theirs in ((self.at.step, at.step), (self.at.phase_step, at.phase_step), (self.at.epoch, at.epoch)):
            mine.copy_(theirs)
        self.rate.fill_(rate)

    def _apart(self) -> Terms:
        """A step on the stream that is captured later, as CUDA wants it."""
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            found = self.updates(self.batch, self.at, self.rate)
        here.wait_stream(self.stream)
        return found

    def _capture(self) -> None:
        for optimizer in self.updates.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        try:
            # Of this thread alone: another may be reading the next step's scans into memory of its own.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self.found = self.updates(self.batch, self.at, self.rate)
                logged = [*self.found.values.values(), *self.found.measures.values()]
                self.numbers = torch.stack([number.float().reshape(()) for number in logged])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise InputError(
                f"A step of {type(self.updates.method).__name__} cannot be captured as a CUDA graph: "
                f"{str(error).splitlines()[0]} Train with --set accel.graphs=false."
            ) from error
        self.graph = graph


def kind_of(batch: Batch, phase: str) -> tuple[object, ...]:
    """What must stay as it is for a graph to be used again. Strides need not: what is copied in keeps its own place."""
    return (phase, *((name, x.shape, x.dtype) for name, x in _tensors(batch)))


def _tensors(batch: Batch) -> Iterator[tuple[str, Tensor]]:
    for half, sample in (("labelled", batch.labelled), ("unlabelled", batch.unlabelled)):
        if sample is not None:
            named = {"image": sample.image, "valid": sample.valid, "label": sample.label, **sample.maps}
            yield from ((f"{half}.{name}", tensor) for name, tensor in named.items() if tensor is not None)


def _copied(batch: Batch) -> Batch:
    def copied(sample: Sample) -> Sample:
        return replace(
            sample,
            image=sample.image.clone(),
            valid=sample.valid.clone(),
            label=None if sample.label is None else sample.label.clone(),
            maps={name: values.clone() for name, values in sample.maps.items()},
        )

    return Batch(
        labelled=copied(batch.labelled), unlabelled=None if batch.unlabelled is None else copied(batch.unlabelled)
    )
