"""Cases that are unlike the others: in size, spacing, grey levels, or in what is labelled.

Every trait is compared with its median over the cases, in units of their usual distance from it, so that a few odd cases do
not hide each other (the modified z-score of Iglewicz and Hoaglin, "How to detect and handle outliers", 1993). A tenth of the
cases may be odd; where more are, such as those of a second scanner, they are a kind of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.alignment import AS_IT_LIES, Turn, Verdict
from coranet.data.doctor.facts import Seen
from coranet.data.prepare.cases import Preparation, plan
from coranet.data.readers import Volume

_ODD = 5.0
"""The z-score from which a case is worth a look; the authors propose 3.5, which hundreds of scans often exceed."""
FEWEST = 5
"""Cases below which there is no saying what is usual."""


_DOUBTFUL = 2.0
"""How many times more one label must say of its image when turned before that is worth a look."""


@dataclass(frozen=True, kw_only=True)
class Trait:
    """One number of a case."""

    value: float
    """On the scale that is compared: a logarithm where only ratios matter."""
    text: str
    grain: float = 0.05
    """A distance that nobody would call odd, however alike the others are."""


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """In what a case is unlike the others."""

    score: float
    text: str


def traits(
    image: Seen, label: Seen | None, brightness: Mapping[int, float], classes: Mapping[int, str]
) -> dict[str, Trait]:
    """What is compared of a case, by name; `brightness` is `brightness_of` its first channel."""
    grid = plan(image.geometry, Preparation())
    low, middle, high = image.levels
    spread = max(high - low, 1e-12)
    found = {
        **{f"size along {axis}": _ratio(size, "voxels") for axis, size in zip("xyz", grid.turned_shape, strict=True)},
        **{f"spacing along {axis}": _ratio(step, "mm") for axis, step in zip("xyz", grid.turned_spacing, strict=True)},
        "middle grey level": Trait(value=middle, text=f"{middle:.4g}", grain=spread / 20),
        "range of grey levels": _ratio(spread, ""),
    }
    for value, name in classes.items():
        if label and value and (count := label.counts.get(value, 0)):
            found[f"amount of {name}"] = _ratio(*amount(count, image), grain=0.1)
        if value in brightness:
            share = brightness[value]
            found[f"brightness of {name}"] = Trait(value=share, text=f"that of {100 * share:.0f} % of the scan")
    return found


def brightness_of(image: NDArray[Any], label: NDArray[Any], levels: NDArray[Any]) -> dict[int, float]:
    """For each class the share of the scan that is darker than its median; `levels` is a sorted sample of the scan."""
    values = [int(value) for value in np.unique(label) if value]
    medians = {value: float(np.median(image[label == value])) for value in values}
    return {value: float(np.searchsorted(levels, median)) / max(1, len(levels)) for value, median in medians.items()}


def outliers(
    cases: Mapping[str, Mapping[str, Trait]], fits: Mapping[str, Mapping[Turn, float]], verdict: Verdict | None
) -> dict[str, tuple[Oddity, ...]]:
    """The odd cases by name with their oddities, oddest first.

    Args:
        cases: the traits of each case.
        fits: how the label of each labelled case fits its image.
        verdict: how the labels lie; where that is as they should, one that does not is odd.
    """
    found: dict[str, list[Oddity]] = {}
    if verdict and verdict.clear and verdict.turn == AS_IT_LIES:
        found = {case: list(_doubt(fit)) for case, fit in fits.items() if AS_IT_LIES in fit}
    for name in dict.fromkeys(name for case in cases.values() for name in case):
        having = {case: there[name] for case, there in cases.items() if name in there}
        if len(having) < FEWEST:
            continue
        values = np.array([trait.value for trait in having.values()])
        median = np.median(values)
        usual = _usual_distance(np.abs(values - median)) + np.median([trait.grain for trait in having.values()])
        typical = list(having.values())[int(np.argmin(np.abs(values - median)))].text
        for (case, trait), score in zip(having.items(), np.abs(values - median) / usual, strict=True):
            if score >= _ODD:
                text = f"{name} {trait.text}, usually {typical}"
                found.setdefault(case, []).append(Oddity(score=float(score), text=text))
    sorted_each = {case: tuple(sorted(odd, key=lambda one: -one.score)) for case, odd in found.items() if odd}
    return dict(sorted(sorted_each.items(), key=lambda item: -item[1][0].score))


def _doubt(fit: Mapping[Turn, float]) -> Iterable[Oddity]:
    best = max(fit, key=fit.__getitem__)
    gain = fit[best] / max(fit[AS_IT_LIES], 1e-3)
    if best != AS_IT_LIES and gain >= _DOUBTFUL:
        text = f"its label fits {gain:.1f} times better {best}, which in one case may be chance"
        yield Oddity(score=_ODD * gain, text=text)


def amount(voxels: int, lies: Seen | Volume) -> tuple[float, str]:
    """How much so many voxels are: mL of a volume, cm² of a picture, voxels where their size is not known."""
    x, y, z = lies.geometry.spacing
    if not lies.placed:
        return voxels, "voxels"
    return (voxels * x * y / 100, "cm²") if lies.flat else (voxels * x * y * z / 1000, "mL")


def _usual_distance(distances: NDArray[np.float64]) -> float:
    """The deviation of a normal distribution with the same median, or the same ninth decile, of distances."""
    middle, far = (float(np.quantile(distances, share, method="lower")) for share in (0.5, 0.9))
    return max(1.4826 * middle, 0.6080 * far)


def _ratio(value: float, unit: str, grain: float = 0.05) -> Trait:
    return Trait(value=math.log(max(value, 1e-12)), text=f"{value:.4g} {unit}".strip(), grain=grain)
