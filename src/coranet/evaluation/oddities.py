"""Predictions that stand out before there is a label to hold them against: missing, odd in size or place, of odd scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import hypot, inf, log
from statistics import median

import numpy as np

from coranet.metrics.case_facts import CaseFacts, ClassFacts, Place

MISSING, ODD_SIZE, ODD_PLACE, UNLIKE = "missing", "odd size", "odd place", "unlike the training scans"
FLAGS = (MISSING, UNLIKE, ODD_PLACE, ODD_SIZE)
"""The gravest first."""

FAR_SMALLER = 0.2
"""Of the usual size: below it, and above its inverse, a size is odd. Organs of grown patients seldom differ fivefold."""
NEARLY_NONE = 0.02
"""Of the usual size: below it an object counts as missing."""
_ONE_IN = 1000
"""Of usual values so many, or fewer, would be called odd."""
_GRAIN = {"size": 0.1, "place": 0.03, "look": 0.05}
"""Spread that values have at least, however alike the training cases are: of logarithms, shares and grey levels."""


@dataclass(frozen=True)
class Range:
    """Where the next value of a normal sample lies, but for one in a thousand."""

    middle: float = 0.0
    reach: float = inf

    @classmethod
    def of(cls, seen: Sequence[float], grain: float) -> Range:
        """By Student's t with n - 1 degrees of freedom: of three values hardly anything is odd, of thirty much more."""
        if len(seen) < 3:
            return cls()
        from scipy.special import stdtrit  # takes longer to load than all else here

        n = len(seen)
        wide = float(stdtrit(n - 1, 1 - 0.5 / _ONE_IN)) * (1 + 1 / n) ** 0.5
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a run may come from anyone, and hold numbers beyond all use
            return cls(float(np.mean(seen)), wide * hypot(float(np.std(seen, ddof=1)), grain))

    def holds(self, value: float) -> bool:
        """Whether a value is a usual one."""
        return not abs(value - self.middle) > self.reach


@dataclass(frozen=True, kw_only=True)
class Usual:
    """What the cases were like that a run was trained on."""

    sizes: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Millilitres of each class in the labelled cases."""
    places: Mapping[str, Sequence[Place]] = field(default_factory=dict)
    """Where each class lies in those that have it."""
    looks: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What scans look like, labelled and unlabelled."""

    def or_of(self, cases: Sequence[CaseFacts]) -> Usual:
        """With the sizes of predictions themselves, where those of labelled cases are not known."""
        names = cases[0].classes if cases else ()
        return Usual(
            sizes={name: self.sizes.get(name) or [case.classes[name].millilitres for case in cases] for name in names},
            places=self.places,
            looks=self.looks,
        )

    def expects(self, name: str) -> float:
        """The usual millilitres of a class; 0 of one that most cases do not have, such as a tumour."""
        return self._expected.get(name, 0.0)

    # Made once: there may be very many cases to hold against them.

    @cached_property
    def _expected(self) -> dict[str, float]:
        return {name: median(sizes or (0.0,)) for name, sizes in self.sizes.items()}

    @cached_property
    def smallest(self) -> dict[str, float]:
        """Of the cases that have a class."""
        return {name: min((size for size in sizes if size > 0), default=0.0) for name, sizes in self.sizes.items()}

    @cached_property
    def logarithms(self) -> dict[str, Range]:
        """Of the sizes of a class."""
        return {
            name: Range.of([log(size) for size in sizes if size > 0], _GRAIN["size"])
            for name, sizes in self.sizes.items()
        }

    @cached_property
    def axes(self) -> dict[str, list[Range]]:
        """Along each axis, where a class lies."""
        return {
            name: [Range.of(along, _GRAIN["place"]) for along in zip(*places, strict=True)]
            for name, places in self.places.items()
        }

    @cached_property
    def looking(self) -> dict[str, Range]:
        """Of what scans look like."""
        return {name: Range.of(values, _GRAIN["look"]) for name, values in self.looks.items()}


def class_flags(name: str, facts: ClassFacts, usual: Usual) -> tuple[str, ...]:
    """What stands out in one object of a case."""
    expected, smallest = usual.expects(name), usual.smallest.get(name, 0.0)
    if facts.millilitres <= NEARLY_NONE * expected:
        may_be = bool(smallest) and facts.radical > FAR_SMALLER * smallest
        return (MISSING,) if expected or (not facts.millilitres and may_be) else ()
    flags = []
    if expected:
        ratio = facts.millilitres / expected
        fivefold = not FAR_SMALLER <= ratio <= 1 / FAR_SMALLER
        if fivefold or not usual.logarithms[name].holds(log(facts.millilitres)):
            flags.append(ODD_SIZE)
    axes = usual.axes.get(name, [])
    if facts.centre and not all(axis.holds(here) for axis, here in zip(axes, facts.centre, strict=False)):
        flags.append(ODD_PLACE)
    return tuple(flags)


def scan_flags(facts: CaseFacts, usual: Usual) -> tuple[str, ...]:
    """What stands out in the scan itself."""
    known = {name: value for name, value in facts.look.items() if name in usual.looking}
    return () if all(usual.looking[name].holds(value) for name, value in known.items()) else (UNLIKE,)
