"""All the updates of a training step as one CUDA graph."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from coranet.engine.step import Updates
from coranet.types import Batch, Progress, Sample, Terms

WARM_UP = 3
"""Steps made as they come before one is captured: libraries choose their algorithms in them, optimizers make their state."""


class Captured:
    """The same updates as one CUDA graph, so that a step is a few copies and one launch.

    What changes from step to step comes in through tensors that stay where they are: the batch, where training stands, the
    rate. Random numbers are drawn anew in each replay, from the generator as it was seeded before. The first steps of
    a phase are made as they come, and are steps like any other: nothing is trained twice, and nothing is put back. Where a
    step cannot be captured all are made as they come, and `say` hears why.
    """

    def __init__(self, updates: Updates, *, wary: bool = False, say: Callable[[str], None] = lambda text: None) -> None:
        self.updates, self.say = updates, say
        self.stream = torch.cuda.Stream()
        self.kind: tuple[object, ...] = ()
        self.wary = wary
        """Whether to look if chance is drawn outside the device, which a graph would draw once for ever."""
        self.refused = False

    def __call__(self, batch: Batch, at: Progress, rate: float) -> Terms:
        """Learn from a batch, whose tensors are copied."""
        self._take(batch, at, rate)
        if not self.refused and self.warm >= WARM_UP and self.graph is None:
            self._capture()
        if self.graph is None:
            self.warm += 1
            return self._apart()
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
        for mine, theirs in zip(_moving(self.at), _moving(at), strict=True):
            mine.copy_(theirs)
        self.rate.fill_(rate)

    def _apart(self) -> Terms:
        """A step on the stream that is captured later, as CUDA wants it."""
        before = host_chance() if self.wary and not self.refused else None
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            found = self.updates(self.batch, self.at, self.rate)
        here.wait_stream(self.stream)
        if before is not None and host_chance() != before:
            self._refuse("It draws chance outside the device, which a graph would draw once for ever.")
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
            self._refuse(str(error).splitlines()[0])
            return
        self.graph = graph

    def _refuse(self, why: str) -> None:
        self.refused = True
        self.say(
            f"A step of {type(self.updates.method).__name__} cannot be captured as a CUDA graph, so that steps are launched "
            f"kernel by kernel, which is slower: {why}"
        )


def host_chance() -> tuple[object, ...]:
    """Where the generators stand that are not the device's: Python's, NumPy's common one and PyTorch's of the CPU."""
    numpy = np.random.get_state(legacy=False)["state"]
    return random.getstate(), numpy["key"].tobytes(), numpy["pos"], torch.get_rng_state().numpy().tobytes()


def kind_of(batch: Batch, phase: str) -> tuple[object, ...]:
    """What must stay as it is for a graph to be used again. Strides need not: what is copied in keeps its own place."""
    return (phase, *((name, x.shape, x.dtype) for name, x in _tensors(batch)))


def _tensors(batch: Batch) -> Iterator[tuple[str, Tensor]]:
    for half, sample in (("labelled", batch.labelled), ("unlabelled", batch.unlabelled)):
        if sample is not None:
            named = {
                "image": sample.image,
                "valid": sample.valid,
                "label": sample.label,
                "extent": sample.extent,
                **sample.maps,
            }
            yield from ((f"{half}.{name}", tensor) for name, tensor in named.items() if tensor is not None)


def _moving(at: Progress) -> list[Tensor]:
    """What changes from step to step."""
    return [value for value in (getattr(at, field.name) for field in fields(at)) if isinstance(value, Tensor)]


def _copied(batch: Batch) -> Batch:
    def copied(sample: Sample) -> Sample:
        return replace(
            sample,
            image=sample.image.clone(),
            valid=sample.valid.clone(),
            label=None if sample.label is None else sample.label.clone(),
            extent=None if sample.extent is None else sample.extent.clone(),
            maps={name: values.clone() for name, values in sample.maps.items()},
        )

    return Batch(
        labelled=copied(batch.labelled), unlabelled=None if batch.unlabelled is None else copied(batch.unlabelled)
    )
