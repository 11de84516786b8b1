"""What each kind of work of a run takes: done once, on copies, and timed."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from coranet.engine.captured import WARM_UP, Captured
from coranet.engine.optimizers import make_optimizers, rate
from coranet.engine.setup import Setup
from coranet.engine.step import Updates
from coranet.engine.timeline import Stretch
from coranet.engine.timing.forecast import Prices
from coranet.engine.watch import Watch
from coranet.feed.pools import CaseMemory, Pool
from coranet.ops.space.warp import cut
from coranet.types import Nets

_TIMES, _ENOUGH = 5, 2.0
"""How often work is timed at most, and the seconds after which that is not done once more."""


def estimate_prices(setup: Setup, done: int = 0, *, captured: bool = False) -> Prices:
    """Of the work that is left after so many steps; with `captured`, steps are one CUDA graph where the run says so."""
    nets = copy.deepcopy(setup.nets)
    times = _times(setup, done)
    ahead = [stretch for stretch in setup.timeline if stretch.stop > max(stretch.start, done)]
    per_window, memory = _look(setup, nets, times)
    learn, warm = _learner(setup, nets, captured and setup.run.accel.graphs)
    steps = {stretch.phase.name: _step_seconds(setup, learn, warm, memory, stretch, times) for stretch in ahead}
    predictor, watch = setup.predictor(), Watch.of(setup, Path())

    def whole(pool: Pool | None) -> float:
        return per_window * predictor.windows(pool) if pool else 0.0

    return Prices(
        steps=steps,
        relabel=whole(setup.unlabelled),
        score=whole(setup.val),
        look=per_window * (1 + (watch.predictor.windows(watch.pool) if watch else 0)),
        close=0.0 if setup.val else whole(setup.labelled),
    )


def _times(setup: Setup, done: int) -> int:
    """Several, as a machine stumbles now and then; but a short run does not wait for its forecast longer than for its steps.

    Processes that wait for each other time their work once.
    """
    left = setup.run.train.steps - done
    return max(1, min(_TIMES, left // 10)) if setup.group.size == 1 else 1


def _look(setup: Setup, nets: Nets, times: int) -> tuple[float, CaseMemory | None]:
    """How long one window takes to predict, and a memory that holds what would be kept of a few."""
    run, pool = setup.run, setup.shown
    predictor = replace(setup.predictor(), segmenter=run.method.segmenter(nets))
    index = torch.arange(min(len(pool), 2))
    some = torch.stack([cut(pool.image(i), [0] * run.data.window.dims, run.data.window.size) for i in index.tolist()])
    prediction = predictor(some)
    memory = CaseMemory(setup.unlabelled, replace(setup.room)) if setup.unlabelled else None
    if memory is not None:
        memory.write(index, run.method.remember(prediction))
    return _seconds(setup, lambda: predictor(some), times) / len(index), memory


def _learner(setup: Setup, nets: Nets, captured: bool) -> tuple[Callable[..., object], int]:
    """What makes a step with copies of the networks, and how many steps it takes to warm up."""
    run = setup.run
    updates = Updates(run.learning, nets, make_optimizers(run.learning, nets, run.optim, captured=captured), run.accel)
    return (Captured(updates), WARM_UP + 1) if captured else (updates, 1)


def _step_seconds(
    setup: Setup, learn: Callable[..., object], warm: int, memory: CaseMemory | None, stretch: Stretch, times: int
) -> float:
    run = setup.run

    def step() -> None:
        batch, at = setup.batch(stretch.start, memory), setup.progress(stretch.start, stretch)
        torch.set_flush_denormal(run.accel.flush)
        try:
            learn(batch, at, rate(run.optim, stretch.start, run.train.steps))
        finally:
            torch.set_flush_denormal(False)

    for _ in range(warm):
        step()
    return _seconds(setup, step, times)


def _seconds(setup: Setup, work: Callable[[], object], times: int) -> float:
    """The median of so many times."""
    taken: list[float] = []
    while len(taken) < times and sum(taken) < _ENOUGH:
        begin = time.monotonic()
        work()
        if setup.device.type == "cuda":
            torch.cuda.synchronize(setup.device)
        taken.append(time.monotonic() - begin)
    return median(taken)
