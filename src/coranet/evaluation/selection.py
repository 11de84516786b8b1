"""Which cases to label next: those that stand for most others, or those a run is expected to do worst and no two alike.

The first is facility location, greedily (Wei, Iyer & Bilmes, ICML 2015), on what scans look like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np
from numpy.typing import NDArray

from coranet.evaluation.quality import Quality

Descriptor = NDArray[np.float64]

ALIKE = 0.95
"""Correlation of two scans from which the second is not asked for, while there are others."""
_SIDE = 8


def describe_scan(image: NDArray[np.float32]) -> Descriptor:
    """A prepared scan `(C, X, Y, Z)` in a few hundred numbers of mean 0 and length 1: its first channel, coarsely."""
    coarse: Descriptor = np.asarray(image[0], np.float64)
    for axis in range(3):
        parts = min(_SIDE, coarse.shape[axis])
        edges = np.linspace(0, coarse.shape[axis], parts + 1).astype(int)
        sums = np.moveaxis(np.add.reduceat(coarse, edges[:-1], axis), axis, -1)
        means = np.moveaxis(sums / np.diff(edges), -1, axis)
        coarse = means.take(np.arange(_SIDE) * parts // _SIDE, axis)  # a thin scan fills its axis
    centred: Descriptor = coarse.ravel() - coarse.mean()
    return centred / max(float(np.linalg.norm(centred)), 1e-12)


def need(rows: Sequence[Quality]) -> dict[str, float]:
    """How much each case is worth labelling, between 0 and 1: what its Dice lacks or, without a fit, its place in the list.

    Both count an organ by its own size: a small one that is missed is worth as much as a large one.
    """
    cases = [row for row in rows if row.whole]
    place = {row.case: 1 - number / max(1, len(cases)) for number, row in enumerate(cases)}
    return {row.case: place[row.case] if isnan(row.expected) else 1 - row.expected for row in cases}


def choose_next(needs: Mapping[str, float], looks: Mapping[str, Descriptor], n: int) -> list[str]:
    """The cases to label, one after the other: what is needed most, times how unlike it is to those chosen before.

    A case that looks like one of them comes last, such as another phase of the same patient.
    """
    chosen: list[str] = []
    alike = dict.fromkeys(needs, 0.0)
    while len(chosen) < min(n, len(needs)):
        left = [case for case in needs if case not in chosen]
        best = max(left, key=lambda case: (alike[case] < ALIKE, needs[case] * (1 - max(alike[case], 0.0)), case))
        chosen.append(best)
        for case in left:
            alike[case] = max(alike[case], float(looks[case] @ looks[best]))
    return chosen


def choose_usual(
    looks: Mapping[str, Descriptor],
    n: int,
    known: Sequence[Descriptor] = (),
    needs: Mapping[str, float] | None = None,
) -> list[str]:
    """The cases to label, one after the other: what adds most to how alike every case is to a labelled one.

    Args:
        looks: of every case without a label.
        n: how many to choose.
        known: what cases look like that have a label.
        needs: how much each case counts; all alike if not given.
    """
    names, like = sorted(looks), _likeness(looks)
    weights = np.array([needs[name] if needs else 1.0 for name in names])
    held = _held(looks, known)
    chosen: list[int] = []
    while len(chosen) < min(n, len(names)):
        gain = weights @ (like - held[:, None]).clip(0)
        gain[chosen] = -1
        chosen.append(int(gain.argmax()))
        held = np.maximum(held, like[:, chosen[-1]])
    return [names[place] for place in chosen]


def stand_for(looks: Mapping[str, Descriptor], chosen: Sequence[str], known: Sequence[Descriptor] = ()) -> list[int]:
    """How many other cases look most like each chosen one, and more so than like any that has a label."""
    names, like, held = sorted(looks), _likeness(looks), _held(looks, known)
    columns = like[:, [names.index(name) for name in chosen]]
    nearest = np.where(columns.max(axis=1) > held, columns.argmax(axis=1), -1)
    return [
        sum(int(place == number) for place, other in zip(nearest, names, strict=True) if other not in chosen)
        for number in range(len(chosen))
    ]


def _likeness(looks: Mapping[str, Descriptor]) -> NDArray[np.float64]:
    """Of every case to every other, from 0 to 1, by name."""
    everyone = np.stack([looks[name] for name in sorted(looks)])
    alike: NDArray[np.float64] = (everyone @ everyone.T).clip(0)
    return alike


def _held(looks: Mapping[str, Descriptor], known: Sequence[Descriptor]) -> NDArray[np.float64]:
    """How alike every case is to the nearest one that has a label."""
    if not known:
        return np.zeros(len(looks))
    nearest: NDArray[np.float64] = (
        (np.stack([looks[name] for name in sorted(looks)]) @ np.stack(known).T).clip(0).max(axis=1)
    )
    return nearest
