"""Scans and labels made of other sources: a mask of 0 and 1, some slices, a stack of files, a label laid on its scan.

In `inside`, `of` names the format of the file itself; what else is there is handed on to it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from coranet.data.listing import entries
from coranet.data.problem import FileError
from coranet.data.readers import contours
from coranet.data.readers.formats import FORMATS, format_of
from coranet.data.readers.volume import Inside, Volume
from coranet.geometry import Geometry

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


def read_mask(path: Path, inside: Inside) -> Volume:
    """A label of one class, saved as 0 and 1 or as 0 and 255, as 0 and 1."""
    volume = _of(path, {**inside, "as": "mask"})
    values = np.unique(volume.array)
    if len(values) > 2 or values[0] != 0:
        few = ", ".join(f"{value:g}" for value in values[:8])
        raise FileError(path, f"has the values {few}, a mask has 0 and one other", "Save it as 0 and 255")
    return replace(volume, array=(volume.array != 0).astype(np.uint8))


def read_slices(path: Path, inside: Inside) -> Volume:
    """Those `slices` of a volume, as "2,3,4"."""
    volume = _of(path, inside)
    places = [int(place) for place in str(inside["slices"]).split(",")]
    if not 0 <= min(places) <= max(places) < volume.array.shape[2]:
        raise FileError(
            path, f"has {volume.array.shape[2]} slices, not {max(places) + 1}", "Check that it is the right file"
        )
    affine = np.array(volume.geometry.affine)
    affine[:3, 3] += places[0] * affine[:3, 2]
    array = volume.array[..., places]
    x, y, z = array.shape
    rows = tuple((a, b, c, d) for a, b, c, d in affine.tolist())
    return replace(volume, array=array, geometry=Geometry(shape=(x, y, z), affine=rows))


def read_stack(path: Path, inside: Inside) -> Volume:
    """The slices that lie beside `path` and differ in their last number alone, one upon the other."""
    files = stack_files(path)
    numbers = [_number(file) for file in files]
    if missing := sorted(set(range(numbers[0], numbers[-1])) - set(numbers)):
        raise FileError(path, f"lacks slice {missing[0]} between its first and its last", "Copy the missing file again")
    volumes = [_of(file, inside) for file in files]
    for file, volume in zip(files, volumes, strict=True):
        if volume.array.shape != volumes[0].array.shape or volume.array.shape[2] != 1:
            shapes = f"{volume.array.shape}, {files[0].name} {volumes[0].array.shape}"
            raise FileError(file, f"is no slice of the same size: {shapes}", "Check that the slices are of one scan")
    array = np.concatenate([volume.array for volume in volumes], axis=2)
    x, y, z = array.shape
    return replace(volumes[0], array=array, geometry=replace(volumes[0].geometry, shape=(x, y, z)), flat=False)


def stack_files(path: Path) -> tuple[Path, ...]:
    """The files of a stack, by number."""
    match = _NUMBERED.fullmatch(path.stem)
    assert match is not None, f"{path.name} is no numbered slice"
    beside = re.compile(re.escape(match[1]) + r"\d+" + re.escape(path.suffix))
    return tuple(sorted((file for file in entries(path.parent) if beside.fullmatch(file.name)), key=_number))


def read_laid(path: Path, inside: Inside) -> Volume:
    """A label whose own header does not say where it lies, laid on its `image` after a `turn` such as "+x-y+z"."""
    label, image = _of(path, inside), _image(inside)
    steps = re.findall(r"([+-])([xyz])", str(inside["turn"]))
    array = label.array.transpose(["xyz".index(axis) for _, axis in steps])
    array = np.flip(array, tuple(axis for axis, (sign, _) in enumerate(steps) if sign == "-"))
    if array.shape != image.geometry.shape:
        shapes = f"{label.array.shape}, the scan is {image.geometry.shape}"
        raise FileError(path, f"does not fit its scan: it is {shapes}", "Check that it is the label of this scan")
    return Volume(array, image.geometry, path, image.flat, image.placed)


def read_outline(path: Path, inside: Inside) -> Volume:
    """The mask of an outline in a text file on its `image`."""
    return contours.read_text(path, _image(inside))


def _of(path: Path, inside: Inside) -> Volume:
    handed_on = {name: value for name, value in inside.items() if name != "of"}
    return FORMATS[str(inside["of"])].read(path, handed_on)


def _image(inside: Inside) -> Volume:
    path = Path(str(inside["image"]))
    # Whether missing slices may be filled is asked when the image itself is read.
    return FORMATS[format_of(path)].read(path, {"gaps": "interpolate"})


def _number(file: Path) -> int:
    match = _NUMBERED.fullmatch(file.stem)
    assert match is not None
    return int(match[2])
