"""Which cases and slices are shown, and what files say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

import numpy as np

from coranet.data.datasets.names import scans, stem
from coranet.data.grid import through_plane_axis
from coranet.data.problem import FileError
from coranet.data.readers import Volume, label_source, source
from coranet.evaluation import Scores
from coranet.evaluation.classes import ignored_value
from coranet.report.pictures.upright import Array, upright, upright_spacing
from coranet.report.run_files import FinishedRun


@dataclass(frozen=True, kw_only=True)
class CaseSlice:
    """One slice of a case and all that is said of it. Arrays are `(X, Y)`: X runs right or front, Y front or up."""

    case: str
    index: int
    """Along the through-plane axis, from 0, counted to the right, to the front or up."""
    spacing: tuple[float, float]
    """Millimetres along X and Y."""
    image: Array
    truth: Array
    """All 0 where there is no label."""
    predictions: Mapping[str, Array]
    """By the run's name."""
    regions: Mapping[str, Array]
    """By kind, of one run."""


def choose_cases(scores: Scores) -> dict[str, str]:
    """Up to four cases by their place in the order of mean DSC, worst first."""
    dice = {case: value for case, value in scores.by_case("dsc").items() if not isnan(value)}
    ranked = sorted(dice, key=lambda case: dice[case])
    last = len(ranked) - 1
    wanted = {"worst": 0, "best": last, "median": len(ranked) // 2, "lower quartile": len(ranked) // 4}
    places: dict[int, str] = {}
    for role, place in wanted.items():
        places.setdefault(place, role)
    return {places[place]: ranked[place] for place in sorted(places)}


def cut_case(
    case: str, runs: Sequence[FinishedRun], images: Path, labels: Path | None, regions: Mapping[str, Path]
) -> CaseSlice:
    """The slice in the middle of the object, through every file of a case.

    The object is the true one or, without labels, that of the first run's prediction.
    """
    truth = label_source(runs[0].prediction(case) if labels is None else find_scan(labels, case)).read()
    if labels is not None and (ignore := ignored_value(labels)) is not None:  # not drawn is shown as nothing drawn
        truth = replace(truth, array=np.where(truth.array == ignore, 0, truth.array))
    axis, index = middle_of_object(truth)
    x, y = (step for other, step in enumerate(upright_spacing(truth.geometry)) if other != axis)

    def taken(array: Array) -> Array:
        piece: Array = np.take(upright(array, truth.geometry), index, axis)
        return piece

    def cut(file: Path) -> Array:
        array = source(file).read().array
        if array.shape != truth.array.shape:
            message = f"has {array.shape} voxels, and {truth.path} has {truth.array.shape}"
            raise FileError(file, message, "Give scans, labels and predictions of the same cases")
        return taken(array)

    return CaseSlice(
        case=case,
        index=index,
        spacing=(x, y),
        image=cut(find_scan(images, f"{case}_0000", case)),
        truth=taken(np.zeros_like(truth.array) if labels is None else truth.array),
        predictions={run.name: cut(run.prediction(case)) for run in runs},
        regions={kind: cut(file) for kind, file in regions.items()},
    )


def middle_of_object(truth: Volume) -> tuple[int, int]:
    """The through-plane axis, and on it the middle one of the slices that show an object, or of all.

    Both are of the upright array.
    """
    array = upright(truth.array, truth.geometry)
    axis = through_plane_axis(array.shape, upright_spacing(truth.geometry))
    shown = np.flatnonzero(np.moveaxis(array, axis, 0).any(axis=(1, 2)))
    slices = shown if len(shown) else np.arange(array.shape[axis])
    return axis, int(slices[len(slices) // 2])


def find_scan(folder: Path, *names: str) -> Path:
    """The scan of one of these names.

    Raises:
        InputError: there is none.
    """
    files = {stem(file): file for file in scans(folder)}
    for name in names:
        if name in files:
            return files[name]
    raise FileError(
        folder / f"{names[0]}.nii.gz",
        "does not exist",
        "Give the folders that the test cases were predicted and scored from",
    )
