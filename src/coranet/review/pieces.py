"""The uncertain region cut into pieces that one key settles: coarse first, finer on demand.

A shell about an organ is one connected piece in space, and one answer for all of it is as often wrong as right. So the
region is cut as a person would go through it: by slice and object, then into its outer and inner edge, then into sectors
about the object's middle. The finest pieces are numbered. A coarser piece is all of those whose keys begin alike:

    (slice, class, object)  >  (.., outer or inner edge)  >  (.., sector)

A voxel is on the outer edge where the prediction leaves the class out that is in question, else on the inner one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Choice = Literal["prediction", "conservative", "radical"]
CHOICES: tuple[Choice, ...] = ("prediction", "conservative", "radical")
LEVELS = (3, 4, 5)
"""How much of a key tells pieces apart, coarse first."""

_SECTORS = 8
_WHOLE = 16
"""Uncertain voxels of an object on a slice, below which an edge is not cut into sectors."""

Map = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What may be chosen from: three maps of classes `(x, y, z)`, and where they are in question."""

    prediction: Map
    conservative: Map
    radical: Map
    uncertain: NDArray[np.bool_]

    @property
    def in_question(self) -> NDArray[np.bool_]:
        """Where a person should look, and wherever the answers differ."""
        differ: NDArray[np.bool_] = (self.conservative != self.prediction) | (self.radical != self.prediction)
        return self.uncertain | differ


@dataclass(frozen=True, kw_only=True)
class RegionPiece:
    """Voxels that are settled together."""

    key: tuple[int, int, int, int, int]
    """Slice, class, object on the slice, edge (0 outer, 1 inner) and sector."""
    start: int
    """Of its voxels in the region's lists."""
    voxels: int
    middle: tuple[int, int, int]
    """One of its voxels, near its middle."""


@dataclass(frozen=True, kw_only=True)
class Region:
    """The voxels in question as lists `(N,)`, those of a piece one after the other."""

    shape: tuple[int, int, int]
    index: NDArray[np.uint32]
    """Places in the array of the scan, the first axis running fastest as in a NIfTI file."""
    prediction: Map
    conservative: Map
    radical: Map
    pieces: tuple[RegionPiece, ...]

    def applied(self, label: Map, choices: Mapping[int, Choice]) -> Map:
        """A copy of a label map `(x, y, z)` with chosen pieces, by number from 0, as they were chosen."""
        flat = label.flatten(order="F")
        for number, choice in choices.items():
            piece = self.pieces[number]
            part = slice(piece.start, piece.start + piece.voxels)
            flat[self.index[part]] = getattr(self, choice)[part]
        return flat.reshape(self.shape, order="F")


def complete(
    prediction: Map,
    uncertain: NDArray[Any],
    conservative: Map | None,
    radical: Map | None,
    spacing: tuple[float, float, float],
) -> Answers:
    """The answers of a case, also where a method has no conservative and radical masks, or both say the same.

    There the conservative answer leaves out what is uncertain, and the radical one gives it to the nearest object.
    """
    unsure = np.asarray(uncertain) > 0
    con = prediction.copy() if conservative is None else conservative.copy()
    rad = prediction.copy() if radical is None else radical.copy()
    undecided = unsure & (con == prediction) & (rad == prediction)
    if undecided.any():
        box = _box(undecided | (prediction > 0))
        here = undecided[box]
        con[box][here] = 0
        rad[box][here] = _nearest_object(prediction[box], spacing)[here]
    return Answers(prediction=prediction, conservative=con, radical=rad, uncertain=unsure)


def cut(answers: Answers, spacing: tuple[float, float, float], axis: int) -> Region:
    """The region in pieces, by slices along an axis.

    Args:
        answers: maps `(x, y, z)`.
        spacing: millimetres between voxels along each axis.
        axis: across the slices.
    """
    box = _box(answers.in_question | (answers.prediction > 0))
    here = Answers(**{name: getattr(answers, name)[box] for name in Answers.__dataclass_fields__})
    asked = here.in_question
    kind = np.where(here.radical > 0, here.radical, np.where(here.conservative > 0, here.conservative, here.prediction))
    places = np.argwhere(asked)
    kinds = kind[asked].astype(np.int64)
    edges = (here.prediction[asked] == kinds).astype(np.int64)
    objects, sectors = np.zeros_like(kinds), np.zeros_like(kinds)
    for value in np.unique(kinds):
        of_value = kinds == value
        whole = (asked & (kind == value)) | (here.prediction == value) if value else asked & (kind == 0)
        objects[of_value], sectors[of_value] = _objects(whole, places[of_value], spacing, axis)
    keys = np.stack([places[:, axis], kinds, objects, edges, sectors], axis=1)
    keys[:, 0] += box[axis].start
    return _sorted(answers, places + [part.start for part in box], keys)


def groups(region: Region, level: int) -> dict[tuple[int, ...], list[int]]:
    """The pieces of a level, each as the numbers of its finest ones, the largest first."""
    found: dict[tuple[int, ...], list[int]] = {}
    for number, piece in enumerate(region.pieces):
        found.setdefault(piece.key[: LEVELS[level]], []).append(number)
    sizes = {key: sum(region.pieces[number].voxels for number in numbers) for key, numbers in found.items()}
    return {key: found[key] for key in sorted(found, key=lambda key: (-sizes[key], key))}


def alike(region: Region, key: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The pieces of the same level on all slices with the same class, edge and sector."""
    for other in dict.fromkeys(piece.key[: len(key)] for piece in region.pieces):
        if other[1] == key[1] and other[3:] == key[3:]:
            yield other


def _objects(
    whole: NDArray[np.bool_], places: NDArray[np.intp], spacing: tuple[float, float, float], axis: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which object of its slice each place belongs to, and in which sector about its middle it lies."""
    plane = [other for other in range(3) if other != axis]
    around = np.zeros((3, 3, 3), bool)
    around[tuple(slice(None) if other != axis else 1 for other in range(3))] = True
    labels, count = ndimage.label(whole, around)
    found = labels[tuple(places.T)]
    middles = np.array(ndimage.center_of_mass(whole, labels, range(1, count + 1))).reshape(-1, 3)[found - 1]
    across, along = ((places[:, other] - middles[:, other]) * spacing[other] for other in plane)
    turn = (np.arctan2(along, across) / (2 * np.pi) + 1) % 1
    sectors = np.minimum((turn * _SECTORS).astype(np.int64), _SECTORS - 1)
    sectors[np.bincount(found)[found] < _WHOLE] = 0
    first = np.full(whole.shape[axis], count + 1)
    np.minimum.at(first, places[:, axis], found)
    return found - first[places[:, axis]], sectors


def _sorted(answers: Answers, places: NDArray[np.intp], keys: NDArray[np.int64]) -> Region:
    """The region with the voxels of each piece side by side."""
    shape = answers.prediction.shape
    order = np.lexsort((*places.T, *keys.T[::-1]))
    places, keys = places[order], keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, len(keys)))
    pieces = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        own = places[start : start + size]
        middle = own[np.argmin(((own - own.mean(axis=0)) ** 2).sum(axis=1))]
        slice_, kind, thing, edge, sector = keys[start].tolist()
        x, y, z = middle.tolist()
        pieces.append(RegionPiece(key=(slice_, kind, thing, edge, sector), start=start, voxels=size, middle=(x, y, z)))
    at = tuple(places.T)
    return Region(
        shape=(shape[0], shape[1], shape[2]),
        index=np.ravel_multi_index(at, shape, order="F").astype(np.uint32),
        prediction=answers.prediction[at],
        conservative=answers.conservative[at],
        radical=answers.radical[at],
        pieces=tuple(pieces),
    )


def _nearest_object(prediction: Map, spacing: tuple[float, float, float]) -> Map:
    """At each voxel the class of the object that is nearest, 0 where there is none at all."""
    if not prediction.any():
        return prediction
    nearest = ndimage.distance_transform_edt(prediction == 0, spacing, return_distances=False, return_indices=True)
    found: Map = prediction[tuple(np.asarray(nearest))]
    return found


def _box(mask: NDArray[np.bool_]) -> tuple[slice, ...]:
    """The part of an array that holds all of a mask."""
    boxes = ndimage.find_objects(mask.astype(np.uint8))
    return boxes[0] if boxes else (slice(0, 0),) * mask.ndim
