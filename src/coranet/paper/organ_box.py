"""Scans about an organ alone, where a coarse network finds it; nobody has the truth of a new scan to crop to.

The network learns from the split's labelled cases and predicts every case. All that lies further from what it finds than a
margin is made as dark as the scan's darkest voxel, so that a preparation that crops to the body keeps the rest. Scans and
labels stay on their own grid: what of an organ lies outside the box counts as missed.
"""

from __future__ import annotations

from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.connected import keep_largest
from coranet.data.datasets.folder import Case, read_folder
from coranet.data.prepare.crop import around, box_of
from coranet.data.readers import Volume, nifti
from coranet.engine.prediction.trained import Trained
from coranet.paper.laid_scans import write_cases, write_once
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.opened_store import OnProgress, Say
from coranet.runs.options import Options

MARGIN, LEAST = 25.0, 96.0
"""Millimetres that are kept around the organ, and along each axis at least: voxels of the released code, which has 1 mm."""


def keep_about_organ(data: Path, place: Path, coarse: Options, say: Say, on_progress: OnProgress) -> Path:
    """A laid-out folder with the same scans, dark but for the box about the organ; written once.

    Args:
        data: a folder in nnU-Net's layout.
        place: where the other one goes; the coarse network's run lies beside it.
        coarse: how that network is trained, and on which split.
        say: who is told in words.
        on_progress: who is told how far it has come.
    """

    def told(done: int, total: int, name: str) -> None:
        on_progress("looking for the organ", done, total)

    def write(beside: Path) -> None:
        dataset, found = read_folder(data), beside / "found"
        run = place.with_name(f"{place.name}-coarse")
        say(f"{place.name}: a coarse network looks for the organ first ({run}).")
        train(data, run, coarse, resume=(run / "run.json").exists(), say=say, on_progress=on_progress)
        trained = Trained.load(run, find_device(coarse.device), uncertainty=False)
        for part in sorted({case.part for case in dataset.cases}):
            names = [case.name for case in dataset.cases if case.part == part]
            trained.predict_files(data / f"images{part}", found, only=names, on_progress=told)
        kept = {value: name for value, name in dataset.classes.items() if value}
        write_cases(dataset, beside / "made", kept=kept, made_of=str(data.resolve()), see=partial(_seen, found, say))

    return write_once(place, str(data.resolve()), write)


def _seen(found: Path, say: Say, case: Case, image: Volume) -> NDArray[Any]:
    """A scan as it is inside the box, and dark outside."""
    label = nifti.read(found / f"{case.name}.nii.gz").array
    box = box_of(keep_largest((label > 0).astype(np.uint8)))
    if box is None:
        say(f"{case.name}: the coarse network finds nothing, so all of the scan is kept.")
        return image.array
    sizes = zip(box, image.array.shape, image.geometry.spacing, strict=True)
    ranges = (around(one, 1, size, ceil(MARGIN / mm), ceil(LEAST / mm)) for one, size, mm in sizes)
    inside = tuple(slice(*one) for one in ranges)
    dark = np.full_like(image.array, image.array.min())
    dark[inside] = image.array[inside]
    return dark
