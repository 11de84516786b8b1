"""What a published set is known to hold, and how a copy of it differs: said, never a reason to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coranet.data.problem import Problem, warning

Range = tuple[int, int]
"""The least and the most."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The numbers of a whole copy."""

    title: str
    patients: int
    labelled: int
    """Cases that have a label."""
    shape: tuple[Range, Range, Range] | None = None
    """Sizes of scans along the array's axes, x, y and z."""

    def check_shapes(self, shapes: Mapping[Path, tuple[int, int, int]]) -> list[Problem]:
        """Scans, by file, of sizes that the set does not have."""
        odd = [file for file, shape in shapes.items() if not self._is_known(shape)]
        if not odd or self.shape is None:
            return []
        known = " x ".join(str(low) if low == high else f"{low} to {high}" for low, high in self.shape)
        others = f", and {len(odd) - 1} other scans have unknown sizes too" if len(odd) > 1 else ""
        message = f"is {' x '.join(map(str, shapes[odd[0]]))} voxels large{others}; {self.title} has {known}"
        return [warning(odd[0], message, "Check that these are the original scans, neither resized nor turned")]

    def _is_known(self, shape: tuple[int, int, int]) -> bool:
        ranges = self.shape or [(size, size) for size in shape]
        return all(low <= size <= high for size, (low, high) in zip(shape, ranges, strict=True))

    def check_counts(self, root: Path, patients: int, labelled: int) -> list[Problem]:
        """What there is more or less of than in a whole copy."""
        if (patients, labelled) == (self.patients, self.labelled):
            return []
        found = f"has {patients} patients and {labelled} labelled cases"
        message = f"{found}, a whole copy of {self.title} has {self.patients} and {self.labelled}"
        if patients > self.patients or labelled > self.labelled:
            return [warning(root, message, "Check that nothing lies there twice")]
        return [warning(root, message, "Nothing to do where a part is meant; published protocols need all")]
