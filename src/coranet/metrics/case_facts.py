"""What is known of a predicted case without its truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import Any

Place = tuple[float, float, float]
"""As shares of the scan's extent to the right, to the front and up."""


@dataclass(frozen=True, kw_only=True)
class ClassFacts:
    """One object of a case."""

    millilitres: float
    radical: float = nan
    """Millilitres of the radical mask: all that may belong to the object. NaN where there is none."""
    expected: float = nan
    """The Dice that it would have if every voxel were wrong as often as its score says; NaN where nobody asked for it."""
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

    def to_row(self) -> dict[str, Any]:
        """As plain values, None for NaN."""
        classes = {name: {key: _plain(value) for key, value in asdict(of).items()} for name, of in self.classes.items()}
        return {"classes": classes, "uncertain": self.uncertain, "look": dict(self.look)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CaseFacts | None:
        """What `to_row` gave; None where it is something else."""
        try:
            return cls(
                classes={str(name): _class_of(of) for name, of in row["classes"].items()},
                uncertain=float(row["uncertain"]),
                look={str(name): float(value) for name, value in row["look"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def _class_of(row: Mapping[str, Any]) -> ClassFacts:
    x, y, z = row["centre"] or (nan, nan, nan)
    numbers = {name: nan if value is None else float(value) for name, value in row.items() if name != "centre"}
    return ClassFacts(centre=(float(x), float(y), float(z)) if row["centre"] else None, **numbers)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and isnan(value) else value
