"""Slices on a line: their order, their even places, what is missing or double, and how the gantry was tilted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.problem import FileError, Problem, warning
from coranet.data.readers.dicom_slices import DicomSlice

_SAME = 0.01
"""Millimetres within which two slices lie at one place."""
_STRAY = 0.1
"""How far from its even place a slice may lie, in slices: positions are rounded when they are written."""
_FAR = 1000
"""Slices that may be missing in one place."""
_TILT = 0.1
"""Degrees between the line of the slices and their normal that are more than rounding."""
_SHIFT = 0.5
"""Pixels that a slice may lie aside of the line."""


@dataclass(frozen=True)
class Stack:
    """Slices in the order of their places along the normal."""

    slices: tuple[DicomSlice, ...]
    places: tuple[int, ...]
    """The number of each slice, from 0; one that is left out is missing."""
    step: NDArray[np.float64]
    """Millimetres, in LPS, from a place to the next."""
    warnings: tuple[Problem, ...]


def stack_slices(path: Path, slices: Sequence[DicomSlice], frame: int | None) -> Stack:
    """Slices of one series and one grid, sorted and placed; of several moments in time, those of `frame`.

    Raises:
        InputError: two slices lie at one place, distances are uneven, or slices are shifted within their plane.
    """
    once = tuple({one.uid: one for one in slices}.values())
    copies = len(slices) - len(once)
    warnings = []
    if copies:
        message = f"holds {copies} copies of slices that are there already"
        warnings.append(warning(path, message, "Nothing to do: each was read once"))
    chosen = _one_moment(path, sorted(once, key=_along), frame)
    if len(chosen) == 1:
        return Stack((chosen[0],), (0,), chosen[0].normal * chosen[0].thickness, tuple(warnings))
    places = _even_places(path, chosen)
    positions = np.array([one.position for one in chosen])
    step = (positions[-1] - positions[0]) / places[-1]
    _check_line(chosen, positions - positions[0] - np.outer(places, step))
    warnings += _tilt(path, chosen[0], step, places[-1])
    return Stack(tuple(chosen), tuple(places), step, tuple(warnings))


def missing_places(stack: Stack) -> list[int]:
    """Places between the first and the last that no slice has."""
    return sorted(set(range(stack.places[-1])) - set(stack.places))


def _along(one: DicomSlice) -> float:
    return float(np.dot(one.position, one.normal))


def _one_moment(path: Path, ordered: list[DicomSlice], frame: int | None) -> list[DicomSlice]:
    """One slice a place: of those at the same place the one of `frame`, in the order of time."""
    groups: list[list[DicomSlice]] = []
    for one in ordered:
        if groups and _along(one) - _along(groups[-1][0]) < _SAME:
            groups[-1].append(one)
        else:
            groups.append([one])
    counts = {len(group) for group in groups}
    if len(counts) > 1:
        group = max(groups, key=len)
        first, second = (one.file.name for one in group[:2])
        message = f"shows the place {_along(group[0]):.2f} mm {len(group)} times, in {first} and {second}"
        raise FileError(path, message, "Keep one slice of each place")
    frames = counts.pop()
    if frame is None and frames > 1:
        message = f"shows each of its {len(groups)} places {frames} times: frames in time, or several acquisitions"
        raise FileError(path, message, "Keep one frame a folder")
    if not 0 <= (frame or 0) < frames:
        raise FileError(path, f"has {frames} frames, not frame {frame} counted from 0", "Choose one that is there")
    return [sorted(group, key=lambda one: one.moment)[frame or 0] for group in groups]


def _even_places(path: Path, ordered: list[DicomSlice]) -> list[int]:
    """The number of each slice, by the usual distance of two."""
    along = np.array([_along(one) for one in ordered])
    gaps = np.diff(along)
    usual = np.sort(gaps)[(len(gaps) - 1) // 2]
    if gaps.max() > _FAR * usual:
        message = f"has slices {gaps.max():.3g} mm apart where {usual:.3g} mm is usual"
        raise FileError(path, message, "Keep one stack of slices a folder")
    places = np.concatenate([[0], np.cumsum(np.maximum(1, np.rint(gaps / usual)))]).astype(int)
    step, start = np.polyfit(places, along, 1)
    if np.abs(along - start - places * step).max() > _STRAY * step:
        worst = int(np.argmax(np.abs(gaps / usual - np.rint(gaps / usual))))
        first, second = ordered[worst].file.name, ordered[worst + 1].file.name
        message = (
            f"has uneven distances between slices: mostly {usual:.3g} mm, {gaps[worst]:.3g} mm from {first} to {second}"
        )
        raise FileError(path, message, "Export it evenly spaced, or leave the case out")
    return [int(place) for place in places]


def _check_line(ordered: list[DicomSlice], off: NDArray[np.float64]) -> None:
    """Along the normal the places are even already, so only what is aside of the line counts."""
    normal = ordered[0].normal
    aside = np.linalg.norm(off - np.outer(off @ normal, normal), axis=1) / min(ordered[0].spacing)
    worst = int(np.argmax(aside))
    if aside[worst] > _SHIFT:
        message = f"is shifted by {aside[worst]:.3g} pixels against the line of the other slices"
        raise FileError(ordered[worst].file, message, "Export the series again, each stack of slices on its own")


def _tilt(path: Path, first: DicomSlice, step: NDArray[np.float64], places: int) -> list[Problem]:
    """A tilted gantry shifts each slice against the one before; the affine says so, and nothing is lost."""
    upright = float(step @ first.normal)
    aside = float(np.linalg.norm(step - upright * first.normal))
    angle = float(np.degrees(np.arctan2(aside, upright)))
    if angle <= _TILT or aside * places / min(first.spacing) <= _SHIFT:
        return []
    message = f"was taken with the gantry tilted by {angle:.3g} degrees, so that its voxels are no right-angled boxes"
    return [
        warning(path, message, "Nothing to do: predictions lie on the same voxels; distances in mm are approximate")
    ]
