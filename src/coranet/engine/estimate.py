"""How long a run will take: each kind of work is timed once, on copies, and multiplied."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from coranet.data.pools import CaseMemory
from coranet.engine.predictor import Predictor
from coranet.engine.step import backward, laid_out, progress
from coranet.engine.timeline import Stretch
from coranet.types import Nets

if TYPE_CHECKING:
    from coranet.engine.trainer import Trainer


def estimate_seconds(trainer: Trainer) -> float:
    """For the steps that are left, with relabelling and validation."""
    run, pool = trainer.run, trainer.unlabelled or trainer.labelled
    nets, memory = copy.deepcopy(trainer.nets), None
    predictor = Predictor(run.method, run.method.inference_net(nets), run.data.window, run.accel)
    index, prediction = next(predictor.over(pool))
    if trainer.unlabelled:
        memory = CaseMemory(trainer.unlabelled)
        memory.write(index, run.method.remember(prediction))
    per_image = _seconds(trainer.device, lambda: next(predictor.over(pool))) / len(index)
    seconds = 0.0
    for stretch in trainer.timeline:
        left = stretch.stop - max(stretch.start, trainer.done)
        if left > 0:
            seconds += left * _step_seconds(trainer, nets, memory, stretch)
            seconds += stretch.refreshes * left / (stretch.stop - stretch.start) * per_image * len(pool)
    share_left = 1 - trainer.done / run.train.steps
    return seconds + run.train.checks * share_left * per_image * (len(trainer.val) if trainer.val else 1)


def _step_seconds(trainer: Trainer, nets: Nets, memory: CaseMemory | None, stretch: Stretch) -> float:
    run = trainer.run

    def step() -> None:
        batch = laid_out(trainer.batches.at(stretch.start, memory), run.accel)
        at = progress(stretch.start, run.train.steps, trainer.epoch, stretch, trainer.device)
        for update in run.method.objectives(stretch.phase.name):
            backward(nets, update, batch, at, run.accel)

    step()  # warms up
    return _seconds(trainer.device, step)


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    wait()
    begin = time.monotonic()
    work()
    wait()
    return time.monotonic() - begin
