"""What each kind of work of a run takes: done once, on copies, and timed."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from coranet.engine.forecast import Prices
from coranet.engine.setup import Setup
from coranet.engine.step import backward
from coranet.engine.timeline import Stretch
from coranet.feed.pools import CaseMemory, Pool
from coranet.ops.space.warp import cut
from coranet.types import Nets


def estimate_prices(setup: Setup, done: int = 0) -> Prices:
    """Of the work that is left after so many steps."""
    nets = copy.deepcopy(setup.nets)
    ahead = [stretch for stretch in setup.timeline if stretch.stop > max(stretch.start, done)]
    per_window, memory = _look(setup, nets)
    steps = {stretch.phase.name: _step_seconds(setup, nets, memory, stretch) for stretch in ahead}
    predictor = setup.predictor()

    def whole(pool: Pool | None) -> float:
        return per_window * predictor.windows(pool) if pool else 0.0

    return Prices(
        steps=steps,
        relabel=whole(setup.unlabelled),
        score=whole(setup.val),
        look=per_window,
        close=0.0 if setup.val else whole(setup.labelled),
    )


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
