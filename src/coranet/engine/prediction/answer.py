"""What a run says of one scan, in memory and as files beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.connected import keep_largest
from coranet.data.datasets.names import MAPS
from coranet.data.readers.nifti import write
from coranet.geometry import Geometry
from coranet.metrics.case_facts import CaseFacts


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a run says of one scan, on the scan's own grid."""

    label: NDArray[np.uint8]
    """`(x, y, z)`."""
    uncertain: NDArray[np.uint8] | None
    """`(x, y, z)`, 1 where the prediction should be looked at."""
    score: NDArray[np.float32] | None
    """`(x, y, z)` between 0 and 1, larger where less certain: where the run has a fit, the probability of being wrong."""
    probabilities: NDArray[np.float32] | None
    """`(K, x, y, z)`, where they were asked for."""
    masks: Mapping[str, NDArray[np.uint8]]
    """What else the method can show, such as its conservative and radical label maps."""
    facts: CaseFacts | None = None
    """What the case is like; None of a prepared scan."""
    picture: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)
    """Draws it as PNG, where a person is to see it."""

    def _repr_png_(self) -> bytes | None:
        """How notebooks show it."""
        return self.picture and self.picture()

    def largest(self) -> Answer:
        """With the largest connected part of each class alone. What is removed is uncertain: a person should see it."""
        label = keep_largest(self.label)
        uncertain = None if self.uncertain is None else self.uncertain | (label != self.label).astype(np.uint8)
        return replace(self, label=label, uncertain=uncertain)

    def write(self, out: Path, case: str, geometry: Geometry, *, flat: bool = False, masks: bool = False) -> list[Path]:
        """To `<case>.nii.gz` and, for each further map there is, `<case>_<map>.nii.gz`; no other map of the case stays.

        Args:
            out: the folder.
            case: its name.
            geometry: how the scan lies in the world.
            flat: whether the scan is a picture, and the maps are to be.
            masks: write what else the method shows, too.

        Returns:
            The files.
        """
        maps = {"uncertain": self.uncertain, **(self.masks if masks else {})}
        files = {name: values for name, values in maps.items() if values is not None}
        places = {name: out / f"{case}_{name}.nii.gz" for name in files}
        for name, values in files.items():
            write(places[name], values, geometry, flat=flat)
        if self.score is not None:
            places["score"] = out / f"{case}_score.nii.gz"
            write(places["score"], self.score, geometry, flat=flat, probabilities=True)
        if self.probabilities is not None:
            classes_last = np.moveaxis(self.probabilities, 0, -1)
            places["probabilities"] = out / f"{case}_probabilities.nii.gz"
            write(places["probabilities"], classes_last, geometry, probabilities=True)
        label = out / f"{case}.nii.gz"
        write(label, self.label, geometry, flat=flat)  # last: where it is, all is
        for name in MAPS:  # of an earlier prediction, which says something else
            if name not in places:
                (out / f"{case}_{name}.nii.gz").unlink(missing_ok=True)
        return [label, *places.values()]
