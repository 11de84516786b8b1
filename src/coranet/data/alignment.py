"""Whether labels lie on what they label, or were mirrored or turned on the way.

Where a label lies right, grey levels tell its classes and what is just outside apart; where it does not, they hardly do. So
each way `t` to turn a label `L` is judged by the mutual information of its classes with the grey levels `G` below it,

    I(t) = Σ p(l, g) log [p(l, g) / (p(l) p(g))],

over the label and the voxels near it. It asks neither for bright objects nor for dark ones, which is why images are
registered by it (Wells et al., Medical Image Analysis 1996; Maes et al., IEEE TMI 1997). One scan may mislead, so patients
vote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, special

from coranet.data.grid import Axes

_NEAR = 4
"""Voxels about a label that are looked at too: a wide margin takes in other organs, and their contrasts drown the edge's."""
_LEVELS = 32
"""Grey levels that are told apart, each as frequent in the scan as the others."""
_SAMPLE = 200_000
"""Voxels that are looked at, at most."""
_CHANCE = 2e-3
"""How likely patients who vote at random may agree so well: three of three, where there are eight ways to turn."""
_BETTER = 1.25
"""How much more a label must say of its image when turned: less may be an organ's twin on the other side of the body."""


@dataclass(frozen=True)
class Turn:
    """A label's axes in another order, then some of them reversed."""

    order: Axes = (0, 1, 2)
    """Which axis of the label each axis of the turned one is."""
    mirror: tuple[bool, bool, bool] = (False, False, False)
    """Of the turned label."""

    def apply(self, label: NDArray[Any]) -> NDArray[Any]:
        """A view of `(X, Y, Z)`, turned."""
        turned = label.transpose(self.order)
        return np.flip(turned, tuple(axis for axis in range(3) if self.mirror[axis]))

    def __str__(self) -> str:
        moved = [axis for axis in range(3) if self.order[axis] != axis]
        names = ["xyz"[axis] for axis in range(3) if self.mirror[axis]]
        swapped = f"with {' and '.join('xyz'[axis] for axis in moved)} swapped"
        if len(moved) == 3:
            swapped = f"with its axes in the order {', '.join('xyz'[axis] for axis in self.order)}"
        flipped = f"flipped along {' and '.join(names)}" if names else ""
        return " and then ".join(words for words in (swapped if moved else "", flipped) if words) or "as it lies"

    @property
    def steps(self) -> str:
        """Its axes in order with their signs, such as `+x-y+z`."""
        return "".join(("-" if flip else "+") + "xyz"[axis] for axis, flip in zip(self.order, self.mirror, strict=True))

    @property
    def code(self) -> str:
        """What does it to an array."""
        ordered = f"label.transpose{self.order}" if self.order != (0, 1, 2) else "label"
        steps = ["::-1" if flip else ":" for flip in self.mirror]
        return f"{ordered}[{', '.join(steps)}]" if any(self.mirror) else ordered


AS_IT_LIES = Turn()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a dataset's labels lie, by the votes of its patients."""

    turn: Turn
    """What the labels need; `AS_IT_LIES` where nothing."""
    votes: int
    """Patients whose labels fit best so."""
    voters: int
    gain: float
    """How many times more the labels say of the images so than as they lie; infinite where they cannot lie as they do."""
    clear: bool
    """Whether that can hardly be chance. Where it is not, nothing should be concluded."""


def turns(label_shape: Axes, image_shape: Axes) -> tuple[Turn, ...]:
    """All ways to turn a label that give it its image's shape; as it lies comes first, where that is one."""
    ways = []
    x_ways, y_ways, z_ways = ((False, True) if size > 1 else (False,) for size in image_shape)
    for x, y, z in permutations(range(3)):
        if (label_shape[x], label_shape[y], label_shape[z]) == image_shape:
            ways += [Turn((x, y, z), mirror) for mirror in product(x_ways, y_ways, z_ways)]
    return tuple(ways)


def fits(image: NDArray[Any], label: NDArray[Any], ignore: int | None = None) -> dict[Turn, float]:
    """The mutual information, in nats, of an image `(X, Y, Z)` and its label, for every way to turn the label.

    Empty where there is no label, or no way to give it the image's shape. Voxels that nobody drew are not looked at.
    """
    ways = turns(_shape(label), _shape(image))
    objects = label if ignore is None else np.where(label == ignore, 0, label)
    if not ways or not objects.any():
        return {}
    places = _places(objects)
    if ignore is not None:
        places = places[:, label[tuple(places)] != ignore]
    classes = np.unique(label[tuple(places)], return_inverse=True)[1]
    edges = _edges(image)
    found = {}
    for turn in ways:
        below = places[list(turn.order)]
        for axis in range(3):
            if turn.mirror[axis]:
                below[axis] = image.shape[axis] - 1 - below[axis]
        levels = np.searchsorted(edges, image[tuple(below)])
        found[turn] = _information(classes, levels)
    return found


def judge(cases: Iterable[tuple[str, Mapping[Turn, float]]]) -> Verdict | None:
    """The verdict of patients, from each case's patient and `fits`; None where no case has any.

    A turn is found where it wins more than half of the votes, more than patients voting at random would give it, and the
    labels say a good deal more of the images so than as they lie.
    """
    by_patient: dict[str, list[Mapping[Turn, float]]] = defaultdict(list)
    for patient, case in cases:
        if case:
            by_patient[patient].append(case)
    ballots = [_mean(found) for found in by_patient.values()]
    ballots = [ballot for ballot in ballots if ballot]
    if not ballots:
        return None
    choices = [max(ballot, key=ballot.__getitem__) for ballot in ballots]
    winner = max(dict.fromkeys(choices), key=choices.count)
    votes, voters = choices.count(winner), len(choices)
    by_chance = float(np.mean([1 / len(ballot) for ballot in ballots]))
    # How likely so many votes or more are; scipy.stats would say the same, after half a second of loading.
    surprising = float(special.bdtrc(votes - 1, voters, by_chance)) <= _CHANCE
    both = [ballot for ballot in ballots if winner in ballot and AS_IT_LIES in ballot]
    as_they_lie = sum(ballot[AS_IT_LIES] for ballot in both)
    gain = sum(ballot[winner] for ballot in both) / as_they_lie if as_they_lie > 0 else np.inf
    clear = surprising and 2 * votes > voters and (winner == AS_IT_LIES or gain >= _BETTER)
    return Verdict(turn=winner, votes=votes, voters=voters, gain=float(gain), clear=clear)


def _mean(cases: list[Mapping[Turn, float]]) -> dict[Turn, float]:
    """Over the cases of one patient, of the turns that all of them allow."""
    common = [turn for turn in cases[0] if all(turn in case for case in cases)]
    return {turn: sum(case[turn] for case in cases) / len(cases) for turn in common}


def _shape(array: NDArray[Any]) -> Axes:
    x, y, z = array.shape
    return x, y, z


def _places(label: NDArray[Any]) -> NDArray[np.intp]:
    """Indices `(3, N)` of the label's voxels and of those near it, or of a random part of them."""
    bounds = []
    for axis in range(3):
        shown = np.flatnonzero(label.any(axis=tuple(other for other in range(3) if other != axis)))
        bounds.append(slice(max(0, int(shown[0]) - _NEAR), int(shown[-1]) + 1 + _NEAR))
    near = ndimage.maximum_filter(label[tuple(bounds)] > 0, 2 * _NEAR + 1, mode="constant")
    inside = np.flatnonzero(near)
    if len(inside) > _SAMPLE:
        inside = np.random.default_rng(0).choice(inside, _SAMPLE, replace=False)
    places = np.stack(np.unravel_index(inside, near.shape))
    places += np.array([[bound.start] for bound in bounds])
    return places


def _edges(image: NDArray[Any]) -> NDArray[np.float64]:
    """The grey levels that part the scan into `_LEVELS` equal shares, fewer where many voxels have one level."""
    flat = np.ravel(image, order="K")  # in the order of memory, which needs no copy
    sample = flat[:: 1 + len(flat) // _SAMPLE].astype(np.float64)
    sample = sample[np.isfinite(sample)]
    return np.unique(np.quantile(sample, np.arange(1, _LEVELS) / _LEVELS)) if len(sample) else np.zeros(1)


def _information(classes: NDArray[np.intp], levels: NDArray[np.intp]) -> float:
    """The mutual information of two lists of whole numbers, in nats, less the bias of a finite sample (Miller 1955)."""
    joint = np.bincount(classes * (_LEVELS + 1) + levels, minlength=(classes.max() + 1) * (_LEVELS + 1))
    table = joint.reshape(-1, _LEVELS + 1) / len(classes)
    rows, columns = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    there = table > 0
    plain = float((table[there] * np.log(table[there] / (rows * columns)[there])).sum())
    bias = (there.sum() - (rows > 0).sum() - (columns > 0).sum() + 1) / (2 * len(classes))
    return plain - float(bias)
