"""How long a run will take: each kind of work is timed once, on copies, and multiplied."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from coranet.engine.step import backward, laid_out, progress
from coranet.engine.timeline import Stretch
from coranet.feed.pools import CaseMemory
from coranet.ops.warp import cut
from coranet.types import Nets

if TYPE_CHECKING:
    from coranet.engine.trainer import Trainer


def estimate_seconds(trainer: Trainer) -> float:
    """For the steps that are left, with relabelling and validation."""
    nets, timeline, train = copy.deepcopy(trainer.nets), trainer.timeline, trainer.run.train
    ahead = [(s, s.stop - max(s.start, trainer.done)) for s in timeline if s.stop > max(s.start, trainer.done)]
    per_window, memory = _look(trainer, nets)
    seconds = sum(left * _step_seconds(trainer, nets, memory, stretch) for stretch, left in ahead)
    predictor = trainer.predictor()
    if trainer.unlabelled:
        refreshes = sum(stretch.refreshes * left / (stretch.stop - stretch.start) for stretch, left in ahead)
        seconds += refreshes * per_window * predictor.windows(trainer.unlabelled)
    checks = train.checks * (1 - trainer.done / train.steps)
    return seconds + checks * per_window * (1 + (predictor.windows(trainer.val) if trainer.val else 0))


def _look(trainer: Trainer, nets: Nets) -> tuple[float, CaseMemory | None]:
    """How long one window takes to predict, and a memory that holds what would be kept of a few."""
    run, pool = trainer.run, trainer.unlabelled or trainer.labelled
    predictor = replace(trainer.predictor(), segmenter=run.method.segmenter(nets))
    index = torch.arange(min(len(pool), 2))
    some = torch.stack([cut(pool.image(i), [0] * run.data.window.dims, run.data.window.size) for i in index.tolist()])
    prediction = predictor(some)
    memory = CaseMemory(trainer.unlabelled, replace(trainer.room)) if trainer.unlabelled else None
    if memory is not None:
        memory.write(index, run.method.remember(prediction))
    return _seconds(trainer.device, lambda: predictor(some)) / len(index), memory


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
