"""Pseudo-labels and regions that runs kept of unlabelled cases, and the truth on the same grid.

Here alone are labels of unlabelled cases looked at, after all is trained.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.folder import Case, read_folder
from coranet.data.prepare.cases import Preparation, open_case, prepare_case
from coranet.feed.case_maps import read_maps
from coranet.feed.windows import Slices
from coranet.files import write_atomically
from coranet.metrics import Counts, count
from coranet.paper.collection import JUDGED
from coranet.report.run_files import read_json

Array = NDArray[Any]

SHARES = {"PPV": "ppv", "TPR": "tpr", "CSI": "jaccard"}
"""As the paper calls them, and as `Counts` does."""

Shares = Mapping[str, float]
"""In percent, by what the paper calls them; NaN where there is none."""


@dataclass(frozen=True, kw_only=True)
class Unlabelled:
    """A run's unlabelled cases whose truth is known all the same."""

    cases: Mapping[str, Case]
    settings: Preparation
    window: Slices

    def truth(self) -> dict[str, Array]:
        """Each case's label as the slices of its maps, `(N, *S)`."""
        return {name: self.window.split(self._label(case)) for name, case in self.cases.items()}

    def _label(self, case: Case) -> Array:
        assert case.label is not None
        label = open_case((image.read() for image in case.images), [case.label.read()], self.settings).place_label()
        assert label is not None
        return label

    def slice_of(self, name: str) -> KeptSlice:
        """The slice in the middle of a case's object, or of the case where it shows none."""
        case = self.cases[name]
        assert case.label is not None
        made = prepare_case([image.read() for image in case.images], case.label.read(), self.settings)
        assert made.label is not None
        images, labels = self.window.split(made.image), self.window.split(made.label)
        shown = np.flatnonzero(labels.any(axis=(1, 2)))
        index = int(shown[len(shown) // 2]) if len(shown) else len(labels) // 2
        x, y = (step for axis, step in enumerate(made.grid.spacing) if axis != self.window.axis)
        return KeptSlice(case=name, index=index, spacing=(x, y), image=images[index, 0], truth=labels[index])


@dataclass(frozen=True, kw_only=True)
class KeptSlice:
    """One slice on the grid that maps are kept on; arrays are `(X, Y)`."""

    case: str
    index: int
    spacing: tuple[float, float]
    """Millimetres along X and Y."""
    image: Array
    truth: Array

    def uncertain(self, file: Path) -> NDArray[np.bool_]:
        """Where a run is uncertain of it, at one refresh."""
        region: NDArray[np.bool_] = read_maps(file)["certain"][self.case][self.index] == 0
        return region


def find_unlabelled(scans: Path, run: Path) -> Unlabelled:
    """The unlabelled cases of a run on a set."""
    about = read_json(run / "run.json")
    data, names = about["data"], set(about["split"]["unlabelled"])
    window = {name: _tuples(value) for name, value in data["window"].items()}
    assert window.pop("kind") == "slices", "maps are kept of slices alone"
    return Unlabelled(
        cases={case.name: case for case in read_folder(scans).cases if case.name in names and case.label is not None},
        settings=Preparation(**{name: _tuples(value) for name, value in data["preparation"].items()}),
        window=Slices(**window),
    )


def refreshes(run: Path) -> dict[int, Path]:
    """The files of maps by step, in order."""
    return {int(file.stem): file for file in sorted((run / "maps").glob("*.npz"))}


def judge_labels(run: Path, truth: Callable[[], Mapping[str, Array]]) -> dict[int, Shares]:
    """How good a run's pseudo-labels are, by step of every refresh; once, for its folder keeps what was found.

    Args:
        run: the run's folder, with maps or with what was found in them.
        truth: gives the true labels, where they have to be looked at.
    """
    file = run / JUDGED
    if not file.exists():
        counts = {step: count_pixels(maps, truth()) for step, maps in refreshes(run).items()}
        found = {
            step: {title: _percent(getattr(one, name)) for title, name in SHARES.items()}
            for step, one in counts.items()
        }
        write_atomically(file, (json.dumps(found, indent=1) + "\n").encode())
    return {
        int(step): {title: nan if value is None else value for title, value in shares.items()}
        for step, shares in read_json(file).items()
    }


def _percent(share: float) -> float | None:
    return None if isnan(share) else 100 * float(share)


def count_pixels(file: Path, truth: Mapping[str, Array]) -> Counts:
    """Pseudo-labels at one refresh against the truth, over all pixels of all cases.

    An object of any class is foreground. A pixel that is not certain has no pseudo-label and counts as not foreground.
    """
    maps = read_maps(file)
    each = [
        count((np.stack(maps["label"][case]) > 0) & (np.stack(maps["certain"][case]) > 0), label > 0)
        for case, label in truth.items()
    ]
    return Counts(tp=sum(one.tp for one in each), fp=sum(one.fp for one in each), fn=sum(one.fn for one in each))


def middling_case(file: Path, cases: Mapping[str, Case]) -> str:
    """The case whose share of uncertain pixels is the median of all at one refresh."""
    certain = read_maps(file)["certain"]
    shares = {case: float(np.mean(np.stack(certain[case]) == 0)) for case in cases}
    return sorted(shares, key=lambda case: (shares[case], case))[len(shares) // 2]


def _tuples(value: Any) -> Any:
    """JSON's lists as what settings hold."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
