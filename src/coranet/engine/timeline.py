"""Which phase a step belongs to, and when stored maps are made anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coranet.types import Phase

FEWEST_REFRESHES = 4


@dataclass(frozen=True)
class Stretch:
    """A phase laid over steps `start` to `stop`."""

    phase: Phase
    start: int
    stop: int
    interval: int | None
    """Steps between refreshes."""

    def before(self, step: int) -> int:
        """How many of its steps come before this one."""
        return max(min(step, self.stop) - self.start, 0)

    def refreshes_at(self, step: int) -> bool:
        """Whether maps are made anew before this step."""
        return self.interval is not None and (step - self.start) % self.interval == 0

    def refreshes_from(self, step: int) -> int:
        """How often that happens from this step on, which is one of the stretch's."""
        if self.interval is None:
            return 0
        return -(-(self.stop - self.start) // self.interval) + (self.start - step) // self.interval


def natural_steps(phases: Sequence[Phase], epoch: int) -> int:
    """How many steps the phases take as they stand, an epoch having so many."""
    return max(round(sum(phase.epochs for phase in phases) * epoch), 1)


def lay_out(phases: Sequence[Phase], steps: int, epoch: int, relabellings: int | None = None) -> tuple[Stretch, ...]:
    """Lay phases over a run of that many steps, in proportion to their epochs.

    Maps are refreshed as often as the phase says, counted in real epochs, and at least four times in a shorter run; but
    never more than `relabellings` times.
    """
    total = sum(phase.epochs for phase in phases)
    stretches, done, start = [], 0.0, 0
    for phase in phases:
        done += phase.epochs
        stop = round(steps * done / total)
        interval = None
        if phase.refresh_every is not None:
            interval = max(min(round(phase.refresh_every * epoch), _interval_for(stop - start)), 1)
            interval = max(interval, -(-(stop - start) // relabellings) if relabellings else 1)
        stretches.append(Stretch(phase, start, stop, interval))
        start = stop
    return tuple(stretches)


def _interval_for(steps: int) -> int:
    """The widest even interval at which maps are refreshed as often as they have to be."""
    wide = -(-steps // FEWEST_REFRESHES)
    return wide if wide and -(-steps // wide) >= FEWEST_REFRESHES else steps // FEWEST_REFRESHES
