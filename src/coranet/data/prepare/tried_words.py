"""What labels by another model are worth, tried on cases whose truth is known.

Words are told apart by what they say, what the nearest other word says, and how far away that is. Of each such kind the
labelled cases show what it means in truth: what is always said one voxel too far is put right, what cannot be relied on is
silenced, and all else stands. Another model may be wrong in two ways. Near its own edges it errs by a voxel or two: there
a kind is relied on where it is right nine times in ten. Far from its edges it misses or invents a part of an object: from
the farthest on, kinds are relied on as long as no object loses or gains more than three in a hundred of its voxels by it.
Where words fail far from their edges, they are not relied on nearer to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

NO_WORD = 255
"""Where another model says nothing."""
EDGES = (1.5, 2.5, 4.5, 8.5, 16.5)
"""Between bands of distance to the nearest other word, in voxels of the store."""
NEAR = 2
"""So many bands are near an edge."""
RIGHT = 0.9
"""How often a kind near an edge has to be right."""
LOST = 0.03
"""What share of an object words far from their edges may miss or invent in all."""

Words = NDArray[np.uint8]


@dataclass(frozen=True)
class TriedWords:
    """What each kind of word means, over all labelled cases that were looked at."""

    meaning: NDArray[np.uint8]
    """By kind the class it stands for, or `NO_WORD`."""
    classes: int

    @classmethod
    def on(cls, cases: Iterable[tuple[Words, Words]], classes: int) -> TriedWords:
        """From words and truth `(X, Y, Z)` of each case; truth that is no class was not drawn and says nothing."""
        counts = np.zeros((_kinds(classes), classes), np.int64)
        for word, truth in cases:
            drawn = truth < classes
            pairs = kinds_of(word, classes)[drawn] * np.int32(classes) + truth[drawn]
            counts += np.bincount(pairs, minlength=counts.size).reshape(counts.shape)
        return cls(_meaning(counts), classes)

    def heard(self, word: Words) -> Words:
        """The words of a case as they are to be understood."""
        return np.where(word == NO_WORD, NO_WORD, self.meaning[kinds_of(word, self.classes)]).astype(np.uint8)


def kinds_of(word: Words, classes: int) -> NDArray[np.int32]:
    """The kind of each voxel's word, `(X, Y, Z)`: its band, then what it says, then what the nearest other word says."""
    said = np.minimum(word, classes).astype(np.int32)  # silence comes last
    kinds = _number(len(EDGES), said, classes, classes)
    box = _about_edges(said)
    inner = said[box]
    for value in np.unique(inner):
        own = inner == value
        if own.all():
            continue
        distance, nearest = distance_transform_edt(own, return_indices=True)
        band = np.digitize(distance, EDGES).astype(np.int32)
        other = np.where(band < len(EDGES), inner[tuple(nearest)], classes)
        kinds[box] = np.where(own, _number(band, value, other, classes), kinds[box])
    return kinds


def _about_edges(said: NDArray[np.int32]) -> tuple[slice, ...]:
    """A box outside which all is alike and far from any other word; distances in it are as in the whole."""
    commonest, margin = np.bincount(said.ravel()).argmax(), int(np.ceil(EDGES[-1]))
    box = []
    for axis in range(said.ndim):
        found = np.flatnonzero(
            (said != commonest).any(axis=tuple(other for other in range(said.ndim) if other != axis))
        )
        box.append(slice(max(found[0] - margin, 0), found[-1] + margin + 1) if len(found) else slice(0, 0))
    return tuple(box)


def _kinds(classes: int) -> int:
    return (len(EDGES) + 1) * (classes + 1) ** 2


def _number(
    band: NDArray[np.int32] | int, said: NDArray[np.int32] | int, other: NDArray[np.int32] | int, classes: int
) -> NDArray[np.int32]:
    return np.asarray((np.asarray(band) * (classes + 1) + said) * (classes + 1) + other, np.int32)


def _meaning(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The class that each kind stands for, from how often each was true."""
    classes = counts.shape[1]
    sizes = np.maximum(counts.sum(axis=0), 1)
    meaning = np.full(len(counts), NO_WORD, np.uint8)
    for said in range(classes):
        alone = int(_number(len(EDGES), said, classes, classes))
        for other in range(classes + 1):
            chain = [alone, *(int(_number(band, said, other, classes)) for band in reversed(range(len(EDGES))))]
            lost = np.cumsum([_lost(counts[kind], sizes) for kind in chain[:-NEAR]], axis=0).max(axis=1)
            for place, kind in enumerate(chain):
                holds = bool(lost[min(place, len(lost) - 1)] <= LOST)
                if holds and (place < len(lost) or _is_right(counts[kind])):
                    meaning[kind] = _true(counts[kind], said)
    return meaning


def _true(count: NDArray[np.int64], said: int) -> int:
    """What is mostly true of a kind; what it says where no labelled case shows it."""
    return int(count.argmax()) if count.any() else said


def _is_right(count: NDArray[np.int64]) -> bool:
    return bool(count.max() >= RIGHT * count.sum())


def _lost(count: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """By class, the share of an object that is missed or invented where a kind is learnt as what it mostly is."""
    true = int(count.argmax())
    lost = count / sizes
    lost[true] = (count.sum() - count[true]) / sizes[true]
    lost[0] = 0.0
    return np.asarray(lost, np.float64)
