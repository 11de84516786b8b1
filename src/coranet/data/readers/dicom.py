"""DICOM: a series of slices in a folder, or the frames of one file, as one volume.

Slices are sorted by their position along the normal, never by file name or number; positions become RAS. Refused are folders
of several patients, of several series unless one is chosen, and series with missing, doubled or unevenly spaced slices. A
tilted gantry is no fault: the affine says how slices are shifted, and a warning by how much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import claim
from coranet.data.listing import all_files
from coranet.data.problem import FileError, Problem, warning
from coranet.data.readers.dicom_slices import MARK, DicomSlice, fill_pixels, is_dicom, slices_of
from coranet.data.readers.dicom_stack import Stack, missing_places, stack_slices
from coranet.data.readers.volume import Inside, Volume, checked_geometry, unplaced
from coranet.geometry import Geometry

ENDINGS = (".dcm", ".dicom", ".ima")
MARKS = (MARK,)

_CHOOSE = "Give each series a folder, or choose one by its number or UID (`coranet predict --series`)"


def read(path: Path, inside: Inside) -> Volume:
    """The volume of a file, or of all files below a folder.

    Of `inside`: `series` chooses one by its UID or number; `frame` one moment, from 0, where each place was taken several
    times; `gaps` = "interpolate" fills missing slices from their neighbours.
    """
    slices = _alike_slices(path, inside)
    if len(slices) == 1 and not slices[0].position:
        return _picture(path, slices[0], inside)
    stack, filled = _stack(path, slices, inside)
    kind = np.dtype(_type_of(stack.slices))
    packed = sum(file.stat().st_size for file in {one.file for one in stack.slices})
    claim(path, math.prod(_shape(stack)) * kind.itemsize, packed)
    array = np.empty(_shape(stack)[::-1], kind)
    fill_pixels(stack.slices, array, stack.places)
    _interpolate(array, stack.places)
    array = array.transpose(2, 1, 0)
    return Volume(array, _geometry(path, stack), path, warnings=(*stack.warnings, *filled))


def look(path: Path, inside: Inside) -> Geometry:
    """Where such a volume lies, from the headers of its slices."""
    slices = _alike_slices(path, inside)
    if len(slices) == 1 and not slices[0].position:
        return _picture(path, slices[0], inside).geometry
    return _geometry(path, _stack(path, slices, inside)[0])


def stack_of(path: Path, inside: Inside) -> Stack:
    """The slices of such a volume in their places, for whoever writes beside them."""
    return _stack(path, _alike_slices(path, inside), inside)[0]


def _alike_slices(path: Path, inside: Inside) -> list[DicomSlice]:
    slices = _one_series(path, _all_slices(path), inside.get("series"))
    _check_alike(path, slices)
    return slices


def _stack(path: Path, slices: list[DicomSlice], inside: Inside) -> tuple[Stack, tuple[Problem, ...]]:
    """Slices in their places, and what is said of those that are missing."""
    _check_placed(slices)
    frame = inside.get("frame")
    stack = stack_slices(path, slices, frame if isinstance(frame, int) else None)
    return stack, _gaps(path, stack, inside.get("gaps") == "interpolate")


def _shape(stack: Stack) -> tuple[int, int, int]:
    """`(x, y, z)`."""
    across, down = stack.slices[0].size
    return across, down, stack.places[-1] + 1


def files(path: Path) -> tuple[Path, ...]:
    """The file, or all files below the folder: links are followed, but never in a circle; hidden ones are no scans."""
    return tuple(all_files(path)) if path.is_dir() else (path,)


def holds_dicom(folder: Path) -> bool:
    """Whether there is DICOM in a folder or below it."""
    return folder.is_dir() and any(is_dicom(file) for file in files(folder))


def folders(path: Path) -> tuple[Path, ...]:
    """The folders, this one and those below it, in which DICOM lies directly."""
    found: dict[Path, None] = {}
    for file in files(path) if path.is_dir() else ():
        if file.parent not in found and is_dicom(file):
            found[file.parent] = None
    return tuple(found)


def _all_slices(path: Path) -> list[DicomSlice]:
    if not path.exists():
        raise FileError(path, "does not exist", "Check the path")
    slices = [one for file in files(path) if is_dicom(file) for one in slices_of(file)]
    if not slices:
        raise FileError(path, "holds no DICOM image", "Give a file, or the folder of a series")
    return slices


def _one_series(path: Path, slices: Sequence[DicomSlice], wanted: str | int | None) -> list[DicomSlice]:
    """The only series, or the one that is asked for, of one patient."""
    chosen = [one for one in slices if wanted is None or str(wanted) in (one.series, one.number)]
    patients = Counter(one.patient for one in chosen)
    if len(patients) > 1:
        listed = ", ".join(f"{patient} ({count} images)" for patient, count in patients.items())
        raise FileError(path, f"mixes {len(patients)} patients: {listed}", "Give each patient a folder")
    if len({one.series for one in chosen}) == 1:
        return chosen
    every: dict[str, list[DicomSlice]] = {}
    for one in chosen or slices:
        every.setdefault(one.series, []).append(one)
    listed = "; ".join(
        f"number {found[0].number or '?'}, {found[0].description or 'without a name'}, {len(found)} images such as "
        f"{found[0].file.name}, {uid}"
        for uid, found in every.items()
    )
    asked = "" if wanted is None else f", {'several' if chosen else 'none'} of them {wanted}"
    raise FileError(path, f"holds {len(every)} series{asked}: {listed}", _CHOOSE)


def _check_alike(path: Path, slices: Sequence[DicomSlice]) -> None:
    """All slices of a volume have one size, one spacing and one direction."""
    first = slices[0]
    for one in slices[1:]:
        for name, mine, other in (
            ("sizes", one.size, first.size),
            ("spacings", one.spacing, first.spacing),
            ("directions", one.orientation, first.orientation),
        ):
            if len(mine) != len(other) or not np.allclose(mine, other, rtol=1e-3, atol=1e-3, equal_nan=True):
                message = f"has slices of different {name}: {other} in {first.file.name}, {mine} in {one.file.name}"
                raise FileError(path, message, "Keep one stack of slices a folder, without scout views")


def _check_placed(slices: Sequence[DicomSlice]) -> None:
    for one in slices:
        x, y = np.array(one.orientation[:3]), np.array(one.orientation[3:])
        if len(one.position) != 3 or len(y) != 3:
            message = "does not say where it lies (ImagePositionPatient, ImageOrientationPatient)"
            raise FileError(one.file, message, "Export the series again with its positions, or convert it to NIfTI")
        if not np.allclose([x @ x, y @ y, x @ y], [1, 1, 0], atol=0.01) or not np.isfinite(one.position).all():
            message = f"has no valid position or orientation ({one.position}, {one.orientation})"
            raise FileError(one.file, message, "Export it again")
        if not (np.isfinite(one.spacing).all() and min(one.spacing) > 0):
            message = f"has no valid spacing (PixelSpacing {one.spacing[1]:g}, {one.spacing[0]:g})"
            raise FileError(one.file, message, "Export it again with its true spacing")


def _gaps(path: Path, stack: Stack, interpolate: bool) -> tuple[Problem, ...]:
    """What is said of missing slices that are filled; others are refused."""
    missing = missing_places(stack)
    if not missing:
        return ()
    start = float(np.dot(stack.slices[0].position, stack.slices[0].normal))
    apart = float(stack.step @ stack.slices[0].normal)

    def named(place: int) -> str:
        before = max(i for i, other in enumerate(stack.places) if other < place)
        between = f"between {stack.slices[before].file.name} and {stack.slices[before + 1].file.name}"
        return f"at {start + place * apart:.2f} mm, {between}"

    some = "; ".join(map(named, missing[:5])) + ("; ..." if len(missing) > 5 else "")
    message = f"misses {len(missing)} of {stack.places[-1] + 1} slices: {some}"
    if not interpolate:
        raise FileError(path, message, "Find them, or let `coranet prepare` or `predict` fill them with --allow-gaps")
    return (warning(path, message, "Nothing to do: they were filled from their neighbours"),)


def _interpolate(array: NDArray[Any], places: Sequence[int]) -> None:
    """Fill the slices of `(z, y, x)` between two places that are apart."""
    for before, after in pairwise(places):
        for place in range(before + 1, after):
            share = (place - before) / (after - before)
            between = (1 - share) * array[before].astype(np.float32) + share * array[after].astype(np.float32)
            array[place] = np.rint(between) if array.dtype.kind in "iu" else between


def _type_of(slices: Sequence[DicomSlice]) -> type[np.generic]:
    """The smallest type of all grey levels that can occur: int16 or int32 where rescaling leaves integers."""
    if any(one.slope != 1 or one.intercept % 1 for one in slices):
        return np.float32
    low = min(one.stored[0] + one.intercept for one in slices)
    high = max(one.stored[1] + one.intercept for one in slices)
    return np.int16 if low >= -(2**15) and high < 2**15 else np.int32


def _geometry(path: Path, stack: Stack) -> Geometry:
    first = stack.slices[0]
    across, down = first.spacing
    columns = np.stack(
        [
            np.multiply(first.orientation[:3], across),
            np.multiply(first.orientation[3:], down),
            stack.step,
            first.position,
        ],
        axis=1,
    )
    return checked_geometry(path, np.diag([-1.0, -1.0, 1.0, 1.0]) @ np.vstack([columns, [0, 0, 0, 1]]), _shape(stack))


def _picture(path: Path, one: DicomSlice, inside: Inside) -> Volume:
    """A single image without a place in the patient, such as an X-ray."""
    kind = np.dtype(_type_of([one]))
    claim(path, math.prod(one.size) * kind.itemsize, one.file.stat().st_size)
    array = np.empty((1, one.size[1], one.size[0]), kind)
    fill_pixels([one], array, [0])
    known = np.isfinite(one.spacing).all()
    spacing: Inside = {"spacing": f"{one.spacing[0]} {one.spacing[1]} 1"} if known else {}
    return unplaced(path, array[0].T, {**spacing, **inside})
