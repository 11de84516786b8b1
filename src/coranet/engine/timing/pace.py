"""How many steps a run is given, so that it takes about as long as a person has time for.

Each kind of work is done a few times, on copies, and timed. Then steps, checks and relabellings are set, before the run is
written down: it is one frozen value like any other, and continues as it was begun, however fast the machine is by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch

from coranet.data.store import Store
from coranet.engine.group import ALONE, Group
from coranet.engine.run import Run, Train
from coranet.engine.setup import Setup
from coranet.engine.timeline import lay_out
from coranet.engine.timing.estimate import estimate_prices
from coranet.engine.timing.forecast import Forecast, Prices
from coranet.methods.other_voice import Voices
from coranet.types import Phase

SHARE = 0.1
"""Of the time, at most, for relabelling, and as much for checks; but each is done once at least."""
FEWEST, MOST = 20, 10**7
"""Steps of any run."""


def paced(
    run: Run,
    store: Store,
    device: torch.device,
    minutes: float,
    group: Group = ALONE,
    voices: Voices | None = None,
    keep: Collection[str] = (),
    say: Callable[[str], None] = lambda message: None,
) -> Run:
    """The run with as many steps as take so long on this machine, checks and relabelling counted.

    Fields that a person has set are named in `keep`, as `train.checks` is, and stay as they are.
    """
    setup = Setup.of(run, store, device, group, voices)
    with setup.memory():
        prices = _agreed(estimate_prices(setup, captured=True), group)
    train = fit_steps(run.train, run.method.phases, setup.epoch, prices, 60 * minutes, keep)
    seconds = _lasts(train, run.method.phases, setup.epoch, prices)
    words = f"As measured now, {train.steps} steps take about {seconds / 60:.3g} minutes"
    say(
        f"{words}."
        if seconds <= 60 * minutes
        else f"{words}, and fewer are no use: --minutes {minutes:g} is too short."
    )
    return replace(run, train=train)


def fit_steps(
    train: Train,
    phases: Sequence[Phase],
    epoch: int,
    prices: Prices,
    seconds: float,
    keep: Collection[str] = (),
) -> Train:
    """As many steps as such work takes so many seconds for, with checks and relabellings that leave them the most of it."""
    check = prices.score + prices.look
    checks = min(train.checks, max(int(SHARE * seconds / check), 1)) if check else train.checks
    times = sum(phase.refresh_every is not None for phase in phases) * prices.relabel
    often = max(int(SHARE * seconds / times), 1) if times else None
    fitted = train if "train.checks" in keep else replace(train, checks=checks)
    fitted = fitted if "train.relabellings" in keep else replace(fitted, relabellings=often)
    steps = bisect_right(
        range(1, MOST),
        seconds,
        key=lambda count: _lasts(replace(fitted, steps=count), phases, epoch, prices),
    )
    return replace(fitted, steps=max(steps, FEWEST))


def _lasts(train: Train, phases: Sequence[Phase], epoch: int, prices: Prices) -> float:
    """Seconds; validation cases are looked at once more when all is trained, to fit what uncertainty is worth."""
    timeline = lay_out(phases, train.steps, train.epoch or epoch, train.relabellings)
    return Forecast(timeline, prices, train.checks).left(0) + prices.score


def _agreed(prices: Prices, group: Group) -> Prices:
    """The mean of what all processes measured: they must take the same number of steps."""
    steps = group.mean(prices.steps)
    rest = group.mean({kind: getattr(prices, kind) for kind in ("relabel", "score", "look", "close")})
    return Prices(steps=steps, **rest)
