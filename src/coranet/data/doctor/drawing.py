"""How much of a label was drawn, and whether it looks as if only some slices were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3
"""Slices, each alone, from which on objects that come and go look like a drawing of some slices."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """How much of a label was drawn, where some of it was not."""

    share: float
    """Of its voxels."""
    planes: int
    """Slices with something drawn, along the axis on which they are the fewest."""
    of: int
    """Slices along that axis."""
    axis: str
    """Of the file: x, y or z."""

    def __str__(self) -> str:
        where = f", in {self.planes} of {self.of} slices along {self.axis}" if self.planes < self.of else ""
        return f"{100 * self.share:.3g} % of its voxels{where}"


def drawn_of(label: NDArray[Any], ignore: int | None) -> Drawn | None:
    """How much of a label map `(x, y, z)` was drawn; None where all of it was."""
    if ignore is None or ignore not in label:
        return None
    drawn = label != ignore
    along = [int(np.count_nonzero(_shown(drawn, axis))) for axis in range(3)]
    axis = min(range(3), key=lambda axis: along[axis] / label.shape[axis])
    return Drawn(share=float(drawn.mean()), planes=along[axis], of=label.shape[axis], axis="xyz"[axis])


def seems_sparse(label: NDArray[Any]) -> tuple[int, int, str] | None:
    """Slices with an object, each between slices without, of how many there are from the first to the last, and the axis.

    None where objects do not come and go so. Which slices were drawn cannot be told from it: no object is a label too.
    """
    for axis in range(3):
        where = np.flatnonzero(_shown(label > 0, axis))
        if len(where) >= _FEWEST and np.diff(where).min() > 1:
            return len(where), int(where[-1] - where[0]) + 1, "xyz"[axis]
    return None


def _shown(mask: NDArray[np.bool_], axis: int) -> NDArray[np.bool_]:
    """Which planes of an axis show something."""
    return np.array(mask.any(axis=tuple(other for other in range(3) if other != axis)))
