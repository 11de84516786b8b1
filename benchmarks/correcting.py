"""Does choosing save work? An annotator who knows the truth corrects predictions, and counts what it takes.

    python benchmarks/correcting.py PREDICTIONS LABELS --out docs/images/correcting-NAME.png

PREDICTIONS is what `coranet predict --masks --probabilities` made of test cases, LABELS holds their truth. Each case is
corrected until its mean Dice is 95 % or 100 actions are spent. An action is a key or a stroke. At each the annotator takes
what mends most voxels an action:

    choose    an answer for a piece on a slice; a finer piece costs the one or two keys that cut it, too
    paint     one dab of a round brush of radius 0 to 12 voxels on a slice, in one class, right or wrong voxels alike

Pieces are those of the page (`coranet.review.pieces`): of the region where the conservative and the radical head differ,
or, of as many of the least confident voxels of softmax, with background and the likeliest object as answers; or there are
none. docs/review.md has the commands for four sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from coranet.data.grid import through_plane_axis
from coranet.data.readers import label_source, nifti
from coranet.evaluation.folders import Pair, pair_up
from coranet.metrics.overlap import count
from coranet.review.pieces import CHOICES, Answers, Region, complete, cut, groups

GOAL, MOST = 0.95, 100
RADII = (0, 1, 2, 3, 5, 8, 12)
Labels = NDArray[np.uint8]


@dataclass
class Annotator:
    """One case under correction."""

    label: Labels
    truth: Labels
    axis: int
    region: Region | None
    brush: bool
    most: int = MOST
    """Actions, at most."""
    painted: int = 0
    dice: list[float] = field(default_factory=list)
    """Before the first action and after each."""

    def correct(self) -> None:
        """Until the goal, or until no action mends anything."""
        self.classes = [int(value) for value in np.unique(self.truth) if value]
        self.members = [list(groups(self.region, level).values()) for level in range(3)] if self.region else []
        self.spots = {}
        self.dice = [self.score()]
        while self.dice[-1] < GOAL and len(self.dice) <= self.most:
            gain, cost, act = max(self.offers(), key=lambda offer: offer[0] / offer[1], default=(0.0, 1, ()))
            if gain <= 0:
                break
            self.take(*act)
            self.dice += [self.dice[-1]] * (cost - 1) + [self.score()]
        self.dice = self.dice[: self.most + 1]

    spots: dict[int, tuple[float, int, tuple[Any, ...]]] = field(default_factory=dict)
    """The best dab of each slice, until something changes there."""

    def score(self) -> float:
        """Mean Dice of the classes that are there."""
        return float(np.mean([count(self.label == value, self.truth == value).dsc for value in self.classes]))

    def offers(self) -> Iterator[tuple[float, int, tuple[Any, ...]]]:
        """Voxels mended, keys or strokes, and what it is."""
        if self.region and self.region.pieces:
            region, starts = self.region, [piece.start for piece in self.region.pieces]
            truth, now = (one.ravel(order="F")[region.index] for one in (self.truth, self.label))
            for answer in CHOICES:
                better = (getattr(region, answer) == truth).astype(float) - (now == truth)
                gains = np.add.reduceat(better, starts)
                for level, members in enumerate(self.members):
                    sums = [gains[numbers].sum() for numbers in members]
                    best = int(np.argmax(sums))
                    yield sums[best], 1 + level, ("choose", members[best], answer)
        if self.brush:
            for place in range(self.truth.shape[self.axis]):
                if place not in self.spots:
                    self.spots[place] = self.best_dab(place)
                yield self.spots[place]

    def best_dab(self, place: int) -> tuple[float, int, tuple[Any, ...]]:
        """The dab of a slice that mends most."""
        truth, label = (np.take(one, place, self.axis) for one in (self.truth, self.label))
        best: tuple[float, int, tuple[Any, ...]] = (0.0, 1, ())
        for value in np.unique(truth[truth != label]):
            change = (truth == value).astype(float) - (truth == label)
            for radius in RADII:
                gains = fftconvolve(change, disc(radius).astype(float), mode="same").round()
                at = np.unravel_index(int(np.argmax(gains)), gains.shape)
                if gains[at] > best[0]:
                    best = (float(gains[at]), 1, ("paint", place, at, radius, int(value)))
        return best

    def take(self, kind: str, *what: Any) -> None:
        """Do it."""
        if kind == "choose":
            assert self.region is not None
            numbers, answer = what
            self.label = self.region.applied(self.label, dict.fromkeys(numbers, answer))
            for number in numbers:
                self.spots.pop(self.region.pieces[number].key[0], None)
            return
        place, at, radius, value = what
        plane = np.moveaxis(self.label, self.axis, 0)[place]
        a, b = np.indices(plane.shape)
        dab = (a - at[0]) ** 2 + (b - at[1]) ** 2 <= (radius + 0.3) ** 2
        self.painted += int(np.count_nonzero(dab))
        plane[dab] = value
        self.spots.pop(place)


def disc(radius: int) -> NDArray[np.bool_]:
    """A round brush."""
    a, b = np.indices((2 * radius + 1,) * 2) - radius
    round_: NDArray[np.bool_] = a**2 + b**2 <= (radius + 0.3) ** 2
    return round_


def by_heads(folder: Path, pair: Pair) -> Answers:
    """Where the conservative and the radical head differ."""
    con, rad, uncertain = (
        label_source(folder / f"{pair.case}_{name}.nii.gz").read().array.astype(np.uint8)
        for name in ("conservative", "radical", "uncertain")
    )
    return complete(pair.prediction, uncertain, con, rad, pair.geometry.spacing)


def by_softmax(folder: Path, pair: Pair, volume: int, classes: int) -> Answers:
    """As many of the least confident voxels: background, or the likeliest object."""
    file = folder / f"{pair.case}_probabilities.nii.gz"
    shares = np.stack([nifti.read(file, {"channel": value}).array for value in range(classes)])
    order = np.argsort(shares.max(axis=0), axis=None, kind="stable")[:volume]
    unsure = np.zeros(pair.prediction.shape, bool)
    unsure[np.unravel_index(order, unsure.shape)] = True
    con, rad = pair.prediction.copy(), pair.prediction.copy()
    con[unsure], rad[unsure] = 0, (1 + shares[1:].argmax(axis=0)[unsure])
    return Answers(prediction=pair.prediction, conservative=con, radical=rad, uncertain=unsure)


def correct_case(folder: Path, pair: Pair, classes: int) -> dict[str, dict[str, Any]]:
    """All ways to correct one case."""
    spacing = pair.geometry.spacing
    axis = through_plane_axis(pair.geometry.shape, spacing)
    heads = by_heads(folder, pair)
    softmax = by_softmax(folder, pair, int(heads.in_question.sum()), classes)
    cuts = {"heads": cut(heads, spacing, axis), "softmax": cut(softmax, spacing, axis)}
    ways: dict[str, tuple[Region | None, bool]] = {
        "painting alone": (None, True),
        **{f"pieces of {name}": (region, False) for name, region in cuts.items()},
        **{f"pieces of {name}, and painting": (region, True) for name, region in cuts.items()},
    }
    found = {}
    for name, (region, brush) in ways.items():
        annotator = Annotator(pair.prediction.copy(), pair.label, axis, region, brush)
        annotator.correct()
        dice = annotator.dice
        curve = dice + [dice[-1]] * (MOST + 1 - len(dice))
        found[name] = {
            "curve": curve,
            "actions": len(dice) - 1 if dice[-1] >= GOAL else MOST,
            "reached": dice[-1] >= GOAL,
            "painted": annotator.painted,
        }
    return found


def main() -> None:
    """Correct every case in every way; a table and a plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("predictions", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the plot")
    parser.add_argument("--most", type=int, default=None, help="cases, the first ones")
    asked = parser.parse_args()
    pairs = pair_up(asked.predictions, asked.labels)
    cases = []
    for number, pair in enumerate(pairs.read()):
        if asked.most is not None and number >= asked.most:
            break
        cases.append(correct_case(asked.predictions, pair, len(pairs.classes) + 1))
    curves = {name: np.mean([case[name]["curve"] for case in cases], axis=0) for name in cases[0]}
    print(
        "| way | Dice before | after 5 | after 10 | after 25 | after 100 | reach 95 % | actions, median | voxels painted |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, curve in curves.items():
        reached = sum(case[name]["reached"] for case in cases)
        actions = float(np.median([case[name]["actions"] for case in cases]))
        painted = float(np.mean([case[name]["painted"] for case in cases]))
        numbers = " | ".join(f"{100 * curve[at]:.1f}" for at in (0, 5, 10, 25, 100))
        print(f"| {name} | {numbers} | {reached} of {len(cases)} | {actions:.0f} | {painted:.0f} |")
    plot(curves, asked.out)


def plot(curves: dict[str, NDArray[np.float64]], out: Path) -> None:
    """Dice over actions."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    colours = {"alone": "#555555", "heads": "#0072B2", "softmax": "#D55E00"}
    for name, curve in curves.items():
        colour = next(value for key, value in colours.items() if key in name)
        axes.plot(100 * curve, color=colour, linestyle="-" if "painting" in name else "--", label=name)
    axes.set_xlabel("actions: keys and strokes")
    axes.set_ylabel("mean Dice, %")
    axes.set_xlim(0, MOST)
    axes.legend(frameon=False)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    main()
