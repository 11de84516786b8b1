"""Predictions that stand out before there is a label to hold them against: missing, odd in size or place, of odd scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, log
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
        return median(self.sizes.get(name) or (0.0,))


def class_flags(name: str, facts: ClassFacts, usual: Usual) -> tuple[str, ...]:
    """What stands out in one object of a case."""
    expected, seen = usual.expects(name), [size for size in usual.sizes.get(name, ()) if size > 0]
    if facts.millilitres <= NEARLY_NONE * expected:
        smallest = min(seen, default=0.0)
        may_be = bool(smallest) and facts.radical > FAR_SMALLER * smallest
        return (MISSING,) if expected or (not facts.millilitres and may_be) else ()
    flags = []
    if expected:
        ratio = facts.millilitres / expected
        fivefold = not FAR_SMALLER <= ratio <= 1 / FAR_SMALLER
        if fivefold or is_far(log(facts.millilitres), [log(size) for size in seen], _GRAIN["size"]):
            flags.append(ODD_SIZE)
    places = usual.places.get(name, ())
    if facts.centre and any(
        is_far(here, [place[axis] for place in places], _GRAIN["place"]) for axis, here in enumerate(facts.centre)
    ):
        flags.append(ODD_PLACE)
    return tuple(flags)


def scan_flags(facts: CaseFacts, usual: Usual) -> tuple[str, ...]:
    """What stands out in the scan itself."""
    odd = any(is_far(value, usual.looks.get(name, ()), _GRAIN["look"]) for name, value in facts.look.items())
    return (UNLIKE,) if odd else ()


def is_far(value: float, seen: Sequence[float], grain: float) -> bool:
    """Whether a value lies outside what the next one of a normal sample would, but for one in a thousand.

    By Student's t with n - 1 degrees of freedom: of three cases hardly anything is odd, of thirty much more.
    """
    if len(seen) < 3:
        return False
    from scipy.special import stdtrit  # takes longer to load than all else here

    n = len(seen)
    reach = float(stdtrit(n - 1, 1 - 0.5 / _ONE_IN)) * (1 + 1 / n) ** 0.5
    with np.errstate(over="ignore", invalid="ignore"):  # a run may come from anyone, and hold numbers beyond all use
        return bool(abs(value - np.mean(seen)) > reach * hypot(float(np.std(seen, ddof=1)), grain))
