"""What a preset may look at, and what it can tell from that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np
import torch

from coranet.data.grid import Grid, through_plane_axis
from coranet.data.prepare.intensity import spread
from coranet.data.prepare.look import looks_of, place_of
from coranet.data.prepare.preparation import Preparation
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.codec import decode
from coranet.engine.run import Accel, Data


@dataclass(frozen=True, kw_only=True)
class Scans:
    """What a preset may look at."""

    data: Data
    split: Split
    store: Store
    device: torch.device
    dims: int
    patch: tuple[int, ...] | None = None
    """The window that was asked for."""
    body: str | None = None
    """The network that was asked for."""

    @property
    def gpu(self) -> bool:
        """Whether there is one to use."""
        return self.device.type == "cuda"

    @property
    def accel(self) -> Accel:
        """What pays: on a GPU half precision, steps in one launch and blocks in few passes."""
        if not self.gpu:
            return Accel(channels_last=True, fused=True, flush=True)
        # GPUs before Ampere only pretend to know bf16, and are slow at it.
        half = torch.cuda.get_device_capability(self.device) >= (8, 0)
        return Accel(precision="bf16" if half else "fp32", channels_last=True, graphs=True, fused=True)


def typical(store: Store) -> tuple[list[float], list[float]]:
    """Median size and spacing of the scans themselves, whatever grid they were brought to."""
    grids = [Grid.from_json(case.grid) for case in store.cases.values() if case.part == "Tr"]
    shape = [median(grid.turned_shape[axis] for grid in grids) for axis in range(3)]
    return shape, [median(grid.turned_spacing[axis] for grid in grids) for axis in range(3)]


def stack_axis(store: Store) -> Literal[0, 1, 2]:
    """The axis slices are stacked along."""
    axes: tuple[Literal[0], Literal[1], Literal[2]] = (0, 1, 2)
    return axes[through_plane_axis(*typical(store))]


def describe(source: str, store: Store, split: Split) -> Data:
    """What a run has to know of its store."""
    settings: Preparation = decode(Preparation, store.preparation, "preparation")
    return Data(
        source=source,
        fingerprint=store.fingerprint,
        channels=store.channels,
        classes={str(value): name for value, name in store.classes.items()},
        preparation=store.preparation,
        unit=spread([store.image(name) for name in split.labelled], settings),
        volumes=_volumes(store, split.labelled),
        places=_places(store, split.labelled),
        looks=looks_of([store.image(name) for name in (*split.labelled, *_some(split.unlabelled))]),
    )


def _volumes(store: Store, cases: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Millilitres of each class but the background, of each case that is wholly drawn."""
    cases = [name for name in cases if name not in store.partial]
    voxels = [np.bincount(store.label(name).ravel(), minlength=len(store.classes)) for name in cases]
    sizes = [math.prod(Grid.from_json(store.cases[name].grid).spacing) / 1000 for name in cases]
    return {
        name: tuple(round(float(counts[value]) * size, 6) for counts, size in zip(voxels, sizes, strict=True))
        for value, name in store.classes.items()
        if value
    }


def _places(store: Store, cases: Sequence[str]) -> dict[str, tuple[tuple[float, float, float], ...]]:
    """The centres of each class but the background, in the cases that have it."""
    labels = [store.label(name) for name in cases]
    centres = {name: [place_of(label == value) for label in labels] for value, name in store.classes.items() if value}
    return {name: tuple(place for place in places if place) for name, places in centres.items()}


def _some(cases: Sequence[str], most: int = 50) -> Sequence[str]:
    """At most so many, from all over the list."""
    return cases[:: max(1, -(-len(cases) // most))]


def epoch_of(scans: Scans, batch: tuple[int, int], images: Callable[[tuple[int, ...]], int]) -> int:
    """Steps in which every image of both kinds is seen, a volume of a shape having so many."""
    parts = (scans.split.labelled, scans.split.unlabelled)
    counts = [sum(images(scans.store.cases[name].shape[1:]) for name in part) for part in parts]
    return max(-(-count // size) for count, size in zip(counts, batch, strict=True))
