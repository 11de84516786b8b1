"""The time that is left of a run: what each kind of work takes, times how often it is still to be done.

A run is no even row of steps. Self-training takes longer than pretraining, and between steps every unlabelled image is
relabelled and validation cases are scored. Each kind of work has its price, at first as estimated, then as measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from coranet.engine.timeline import Stretch

_RECENT = 10
"""Measurements that count: a machine may grow busy, or idle."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Seconds that each kind of work takes."""

    steps: Mapping[str, float]
    """One step of a phase, by its name."""
    relabel: float = 0.0
    """Making the maps of all unlabelled images anew."""
    score: float = 0.0
    """Scoring the validation cases."""
    look: float = 0.0
    """Keeping a picture."""
    close: float = 0.0
    """Scoring labelled cases at the end, where there are none for validation."""


class Forecast:
    """Knows what is left to do, hears how long things take, and says how long the rest will."""

    def __init__(
        self,
        timeline: Sequence[Stretch],
        prices: Prices,
        checks: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeline, self.checks, self.clock = timeline, max(checks, 1), clock
        self.steps = timeline[-1].stop
        self.estimated = {_steps_of(name): price for name, price in prices.steps.items()} | {
            kind: getattr(prices, kind) for kind in ("relabel", "score", "look", "close")
        }
        self.measured: dict[str, list[float]] = {kind: [] for kind in self.estimated}
        self.since = clock()

    def begin(self) -> None:
        """Steps are timed from now on."""
        self.since = self.clock()

    @contextmanager
    def timing(self, kind: str) -> Iterator[None]:
        """The block is work of one of the kinds that `Prices` has beside steps."""
        began = self.clock()
        yield
        took = self.clock() - began
        self.measured[kind].append(took)
        self.since += took  # no part of the steps around it

    def count_steps(self, phase: str, count: int) -> None:
        """So many steps of a phase were done since this was last said, other work left out."""
        now = self.clock()
        if count:
            self.measured.setdefault(_steps_of(phase), []).append((now - self.since) / count)
        self.since = now

    def left(self, done: int) -> float:
        """Seconds, after so many steps."""
        return sum(self.seconds_of(kind, done) for kind in self.estimated)

    def seconds_of(self, kind: str, done: int) -> float:
        """Seconds that one kind of work will take, after so many steps."""
        return self._often(kind, done) * self._price(kind)

    def _often(self, kind: str, done: int) -> float:
        ahead = [(stretch, max(stretch.start, done)) for stretch in self.timeline if stretch.stop > done]
        match kind:
            case "relabel":
                return sum(stretch.refreshes_from(first) for stretch, first in ahead)
            case "score" | "look":
                every = max(self.steps // self.checks, 1)
                return self.steps // every - done // every + (self.steps % every > 0)
            case "close":
                return 1
            case _:
                return sum(s.stop - first for s, first in ahead if _steps_of(s.phase.name) == kind)

    def _price(self, kind: str) -> float:
        """As measured lately; what was not done yet is as much off its estimate as the rest was."""
        known = self._mean(kind)
        return self.estimated.get(kind, 0.0) * self._pace() if known is None else known

    def _pace(self) -> float:
        """How much longer than estimated work takes on this machine today, by all that was measured."""
        means = {kind: self._mean(kind) for kind, estimate in self.estimated.items() if estimate > 0}
        known = {kind: mean for kind, mean in means.items() if mean is not None}
        return sum(known.values()) / sum(self.estimated[kind] for kind in known) if known else 1.0

    def _mean(self, kind: str) -> float | None:
        """Of the latest measurements; the first of several was done by a cold machine."""
        times = self.measured[kind]
        times = (times[1:] or times)[-_RECENT:]
        return sum(times) / len(times) if times else None


def _steps_of(phase: str) -> str:
    return f"steps of {phase}"
