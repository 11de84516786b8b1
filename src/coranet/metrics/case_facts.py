"""What is known of a predicted case without its truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan

Place = tuple[float, float, float]
"""As shares of the scan's extent to the right, to the front and up."""


@dataclass(frozen=True, kw_only=True)
class ClassFacts:
    """One object of a case."""

    millilitres: float
    radical: float = nan
    """Millilitres of the radical mask: all that may belong to the object. NaN where there is none."""
    expected: float = nan
    """The Dice that it would have if every voxel were wrong as often as its score says; NaN where none is expected."""
    agreement: float = nan
    """Dice of the conservative and the radical mask; NaN where there are none, or both are empty."""
    centre: Place | None = None
    """Of mass; None where nothing was found."""


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """All objects of a case."""

    classes: Mapping[str, ClassFacts]
    """By name, without the background."""
    uncertain: float
    """Millilitres of the uncertain region."""
    look: Mapping[str, float]
    """What the prepared scan looks like, in a few numbers."""

    @property
    def sizes(self) -> dict[str, float]:
        """Millilitres of each class."""
        return {name: of.millilitres for name, of in self.classes.items()}

    @property
    def doubt(self) -> float:
        """The uncertain volume over the predicted one: per organ, not per image. Infinite where nothing was found."""
        found = sum(self.sizes.values())
        return self.uncertain / found if found else float("inf")
