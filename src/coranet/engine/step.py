"""The parts of one training step, shared by the loop and by the estimate of its time."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from coranet.engine.predictor import arithmetic, in_layout
from coranet.engine.run import Accel
from coranet.engine.timeline import Stretch
from coranet.types import Batch, Nets, Progress, Terms, Update


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
    for name, net in nets.items():
        net.requires_grad_(name in update.trains)
        if name in update.trains:
            net.train()
    with arithmetic(accel, batch.labelled.image.device):
        terms = update.loss(nets, batch, at)
    torch.autograd.backward(terms.total)
    return Terms(
        values={name: value.detach() for name, value in terms.values.items()},
        measures={name: value.detach() for name, value in terms.measures.items()},
        traces={name: replace(trace, values=trace.values.detach()) for name, trace in terms.traces.items()},
    )


def laid_out(batch: Batch, accel: Accel) -> Batch:
    """The batch in the memory layout the networks are in."""
    labelled = replace(batch.labelled, image=in_layout(batch.labelled.image, accel))
    if batch.unlabelled is None:
        return Batch(labelled=labelled)
    return Batch(
        labelled=labelled, unlabelled=replace(batch.unlabelled, image=in_layout(batch.unlabelled.image, accel))
    )
