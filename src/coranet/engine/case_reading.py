"""Facts of a case, read from what was predicted of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coranet.metrics.case_facts import ClassFacts, Place
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness


def class_facts(
    tally: Tally,
    wrongness: Wrongness,
    names: Sequence[str],
    *,
    millilitre: float = 0.001,
    places: Mapping[str, Place | None] | None = None,
) -> dict[str, ClassFacts]:
    """Of each object by its name.

    Args:
        tally: of the case.
        wrongness: how often voxels are wrong.
        names: of the objects, in their order.
        millilitre: that a voxel has.
        places: where each object lies.
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
            centre=(places or {}).get(name),
        )
        for k, name in enumerate(names)
    }
