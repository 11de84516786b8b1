"""Which cases to label next: those a run is expected to do worst, and no two that look alike."""

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
        coarse = np.repeat(means, -(-_SIDE // parts), axis).take(range(_SIDE), axis)  # a thin scan fills its axis
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
