"""Label maps in formats of other programs, beside the NIfTI that is always written. One format a module.

A writer looks at all cases before the first is predicted, so that what cannot be written is said at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.folder import Case
from coranet.geometry import Geometry

__all__ = ["ENDINGS", "LabelWriter"]

ENDINGS = (".seg.nrrd", ".seg.dcm")
"""Of what they write, as `<case><ending>`."""


class LabelWriter(Protocol):
    """Writes label maps in one more format."""

    def check(self, case: Case) -> None:
        """Refuse a case whose label map cannot be written so.

        Raises:
            InputError: it cannot, or a library is missing.
        """

    def write(self, out: Path, case: Case, label: NDArray[np.uint8], geometry: Geometry) -> Path:
        """The label map `(x, y, z)` of a case, to a file of its name in a folder."""
