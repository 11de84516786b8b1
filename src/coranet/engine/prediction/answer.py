"""What a run says of one scan, in memory and as files beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.readers.nifti import write
from coranet.geometry import Geometry


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a run says of one scan, on the scan's own grid."""

    label: NDArray[np.uint8]
    """`(x, y, z)`."""
    uncertain: NDArray[np.uint8] | None
    """`(x, y, z)`, 1 where the prediction should be looked at."""
    score: NDArray[np.float32] | None
    """`(x, y, z)`, larger where less certain, where it was asked for."""
    probabilities: NDArray[np.float32] | None
    """`(K, x, y, z)`, where they were asked for."""
    masks: Mapping[str, NDArray[np.uint8]]
    """What else the method can show, such as its conservative and radical label maps."""

    def write(self, out: Path, case: str, geometry: Geometry, *, flat: bool = False, masks: bool = False) -> list[Path]:
        """To `<case>.nii.gz` and, for each further map there is, `<case>_<map>.nii.gz`.

        Args:
            out: the folder.
            case: its name.
            geometry: how the scan lies in the world.
            flat: whether the scan is a picture, and the maps are to be.
            masks: write what else the method shows, too.

        Returns:
            The files.
        """
        maps = {"uncertain": self.uncertain, "score": self.score, **(self.masks if masks else {})}
        files = [out / f"{case}.nii.gz"]
        write(files[0], self.label, geometry, flat=flat)
        for name, values in maps.items():
            if values is not None:
                files.append(out / f"{case}_{name}.nii.gz")
                write(files[-1], values, geometry, flat=flat)
        if self.probabilities is not None:
            classes_last = np.moveaxis(self.probabilities, 0, -1)
            files.append(out / f"{case}_probabilities.nii.gz")
            write(files[-1], classes_last, geometry, probabilities=True)
        return files
