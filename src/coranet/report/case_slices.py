"""Which cases and slices are shown, and what files say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.names import scans, stem
from coranet.data.grid import through_plane_axis
from coranet.data.problem import FileError
from coranet.data.readers import Volume, label_source, source
from coranet.evaluation import Scores
from coranet.report.run_files import FinishedRun

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class CaseSlice:
    """One slice of a case and all that is said of it; arrays are `(X, Y)`."""

    case: str
    index: int
    """Along the through-plane axis, from 0."""
    spacing: tuple[float, float]
    """Millimetres along X and Y."""
    image: Array
    truth: Array
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
    case: str, runs: Sequence[FinishedRun], images: Path, labels: Path, regions: Mapping[str, Path]
) -> CaseSlice:
    """The slice in the middle of the true object, through every file of a case."""
    truth = label_source(_find(labels, case)).read()
    axis, index = middle_of_object(truth)

    def cut(file: Path) -> Array:
        return _take(source(file).read().array, index, axis)

    x, y = (step for other, step in enumerate(truth.geometry.spacing) if other != axis)
    return CaseSlice(
        case=case,
        index=index,
        spacing=(x, y),
        image=cut(_find(images, f"{case}_0000", case)),
        truth=_take(truth.array, index, axis),
        predictions={run.name: cut(run.prediction(case)) for run in runs},
        regions={kind: cut(file) for kind, file in regions.items()},
    )


def middle_of_object(truth: Volume) -> tuple[int, int]:
    """The through-plane axis, and on it the middle one of the slices that show an object, or of all."""
    axis = through_plane_axis(truth.geometry.shape, truth.geometry.spacing)
    shown = np.flatnonzero(np.moveaxis(truth.array, axis, 0).any(axis=(1, 2)))
    slices = shown if len(shown) else np.arange(truth.geometry.shape[axis])
    return axis, int(slices[len(slices) // 2])


def _take(array: Array, index: int, axis: int) -> Array:
    piece: Array = np.take(array, index, axis)
    return piece


def _find(folder: Path, *names: str) -> Path:
    """The scan of one of these names."""
    files = {stem(file): file for file in scans(folder)}
    found = next((files[name] for name in names if name in files), None)
    if found is None:
        raise FileError(
            folder / f"{names[0]}.nii.gz",
            "does not exist",
            "Give the folders that the test cases were predicted and scored from",
        )
    return found
