"""Facts of a case, read from what was predicted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from coranet.data.prepare.cases import Prepared
from coranet.data.prepare.look import look_of, place_of
from coranet.geometry import Geometry
from coranet.metrics.case_facts import CaseFacts, ClassFacts
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness


def read_case(
    label: NDArray[np.uint8],
    prepared: Prepared,
    tally: Tally | None,
    names: Sequence[str],
    wrongness: Wrongness | None,
) -> CaseFacts:
    """Of a case on the store's grid.

    Args:
        label: `(X, Y, Z)`, as it is predicted.
        prepared: the scan.
        tally: of its signs of doubt; None where nobody asked what is uncertain.
        names: of the classes, background first.
        wrongness: the fit of the run, where it has one.
    """
    millilitre, objects = prod(prepared.grid.spacing) / 1000, names[1:]
    masks = {name: label == value for value, name in enumerate(objects, start=1)}
    classes = {
        name: ClassFacts(millilitres=millilitre * float(np.count_nonzero(mask)), centre=place_of(mask))
        for name, mask in masks.items()
    }
    doubts = class_facts(tally, wrongness or Wrongness(), objects, millilitre=millilitre) if tally else {}
    return CaseFacts(
        classes={name: replace(doubts.get(name, of), centre=of.centre) for name, of in classes.items()},
        uncertain=tally.uncertain * millilitre if tally else 0.0,
        look=look_of(prepared.image),
    )


def measured(facts: CaseFacts, label: NDArray[np.uint8], geometry: Geometry) -> CaseFacts:
    """With the millilitres that a label has on the scan's own grid."""
    voxels = np.bincount(label.ravel(), minlength=len(facts.classes) + 1)[1:] * prod(geometry.spacing) / 1000
    sized = zip(facts.classes.items(), voxels.tolist(), strict=True)
    return replace(facts, classes={name: replace(of, millilitres=size) for (name, of), size in sized})


def class_facts(
    tally: Tally,
    wrongness: Wrongness,
    names: Sequence[str],
    *,
    millilitre: float = 0.001,
) -> dict[str, ClassFacts]:
    """Of each object by its name.

    Args:
        tally: of the case.
        wrongness: how often voxels are wrong.
        names: of the objects, in their order.
        millilitre: that a voxel has.
    """
    conservative, radical, both = tally.masks.T
    there = bool(tally.masks.any())
    agreement = np.divide(
        2 * both, conservative + radical, out=np.full(len(names), np.nan), where=conservative + radical > 0
    )
    expected, size = wrongness.expected_dice(tally), tally.found.sum(axis=1)
    return {
        name: ClassFacts(
            millilitres=float(size[k]) * millilitre,
            radical=float(radical[k]) * millilitre if there else float("nan"),
            expected=float(expected[k]),
            agreement=float(agreement[k]),
        )
        for k, name in enumerate(names)
    }
