"""How long a run will take: each kind of work is timed once, on copies, and multiplied."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from coranet.engine.setup import Setup
from coranet.engine.step import backward
from coranet.engine.timeline import Stretch
from coranet.feed.pools import CaseMemory
from coranet.ops.warp import cut
from coranet.types import Nets


def estimate_seconds(setup: Setup, done: int = 0) -> float:
    """For the steps that are left, with relabelling and validation."""
    nets, train = copy.deepcopy(setup.nets), setup.run.train
    ahead = [(s, s.stop - max(s.start, done)) for s in setup.timeline if s.stop > max(s.start, done)]
    per_window, memory = _look(setup, nets)
    seconds = sum(left * _step_seconds(setup, nets, memory, stretch) for stretch, left in ahead)
    predictor = setup.predictor()
    if setup.unlabelled:
        refreshes = sum(stretch.refreshes * left / (stretch.stop - stretch.start) for stretch, left in ahead)
        seconds += refreshes * per_window * predictor.windows(setup.unlabelled)
    checks = train.checks * (1 - done / train.steps)
    return seconds + checks * per_window * (1 + (predictor.windows(setup.val) if setup.val else 0))


def _look(setup: Setup, nets: Nets) -> tuple[float, CaseMemory | None]:
    """How long one window takes to predict, and a memory that holds what would be kept of a few."""
    run, pool = setup.run, setup.shown
    predictor = replace(setup.predictor(), segmenter=run.method.segmenter(nets))
    index = torch.arange(min(len(pool), 2))
    some = torch.stack([cut(pool.image(i), [0] * run.data.window.dims, run.data.window.size) for i in index.tolist()])
    prediction = predictor(some)
    memory = CaseMemory(setup.unlabelled, replace(setup.room)) if setup.unlabelled else None
    if memory is not None:
        memory.write(index, run.method.remember(prediction))
    return _seconds(setup.device, lambda: predictor(some)) / len(index), memory


def _step_seconds(setup: Setup, nets: Nets, memory: CaseMemory | None, stretch: Stretch) -> float:
    def step() -> None:
        batch, at = setup.batch(stretch.start, memory), setup.progress(stretch.start, stretch)
        for update in setup.run.method.objectives(stretch.phase.name):
            backward(nets, update, batch, at, setup.run.accel)

    step()  # warms up
    return _seconds(setup.device, step)


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    wait()
    begin = time.monotonic()
    work()
    wait()
    return time.monotonic() - begin
