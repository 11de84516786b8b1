"""Images on the device, and what is kept for each of them.

Slices and volumes are one: a window says what an image is, and a pool holds the images of many cases, each at its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.data.store import Store
from coranet.errors import InputError
from coranet.feed.residency import Room, send_for
from coranet.feed.windows import Window
from coranet.ops.space.warp import cut


@dataclass(frozen=True)
class OtherMaps:
    """Maps of some cases, and what stands for them in the others."""

    of_cases: Mapping[str, NDArray[np.uint8]]
    """`(X, Y, Z)` each, on the store's grid."""
    otherwise: int

    def get(self, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """That of one case, or one of its shape that says nothing."""
        found = self.of_cases.get(name)
        return np.full(shape, self.otherwise, np.uint8) if found is None else found


@dataclass(frozen=True)
class Pool:
    """Images of one kind, `N` of them, each on the device, in host memory or on disk."""

    images: tuple[Tensor, ...]
    """`(C, *S)` each."""
    labels: tuple[Tensor, ...] | None
    """`(*S)` uint8 each."""
    cases: tuple[str, ...]
    """Whose image each is."""
    device: torch.device = torch.device("cpu")
    """Where they are needed."""
    ignore: int | None = None
    """The value of labels where nobody drew, where any of them has it."""
    maps: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    """What else is known of each image and never changes, by name: `(*S)` uint8 each."""

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def resident(self) -> bool:
        """Whether all of it is on the device."""
        kept = (*self.images, *(self.labels or ()), *(one for each in self.maps.values() for one in each))
        return all(one.device.type == self.device.type for one in kept)

    @property
    def sources(self) -> dict[str, tuple[Tensor, ...]]:
        """All that is cut together, by kind."""
        return {"image": self.images, **({} if self.labels is None else {"label": self.labels}), **self.maps}

    def image(self, number: int) -> Tensor:
        """One of the images, on the device."""
        send_for(self.images[number])
        return self.images[number].to(self.device)

    @cached_property
    def sizes(self) -> Tensor:
        """`(N, D)` on the CPU: each image's own size."""
        return torch.tensor([image.shape[1:] for image in self.images])

    @cached_property
    def objects(self) -> tuple[tuple[Tensor, ...], ...]:
        """Of each labelled image, for each object in it, where some of its voxels lie: `(V, D)` on the CPU."""
        for label in self.labels or ():
            send_for(label)
        return tuple(_places(label.cpu(), self.ignore) for label in self.labels or ())

    @cached_property
    def drawings(self) -> tuple[Tensor, ...]:
        """Of each labelled image where some of its drawn voxels lie, `(V, D)` on the CPU; none where all of it is drawn."""
        masks = [label.cpu().ne(-1 if self.ignore is None else self.ignore) for label in self.labels or ()]
        return tuple(torch.empty(0, mask.ndim) if mask.all() else _spaced(mask) for mask in masks)

    def padded(self, index: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Images no larger than a shape, `(B, C, *shape)`, each with its own border repeated at the far ends."""
        return torch.stack([cut(self.image(number), [0] * len(shape), shape) for number in index.tolist()])

    def of_cases(self, names: Sequence[str]) -> Pool:
        """The images of some cases."""
        index = [number for number, case in enumerate(self.cases) if case in names]
        labels = None if self.labels is None else tuple(self.labels[number] for number in index)
        images, cases = tuple(self.images[number] for number in index), tuple(self.cases[number] for number in index)
        return Pool(images, labels, cases, self.device)

    @classmethod
    def load(
        cls,
        store: Store,
        cases: Sequence[str],
        window: Window,
        room: Room,
        *,
        labelled: bool,
        partial: Sequence[str] = (),
        maps: Mapping[str, OtherMaps] | None = None,
    ) -> Pool:
        """Put cases where there is room. Labels are read only where `labelled` says that they may be.

        Args:
            store: where they are read from.
            cases: their names.
            window: what an image is.
            room: where they go.
            labelled: whether they come with labels.
            partial: labelled cases that are unlabelled too, where nobody drew; of their labels only that is looked at.
            maps: by kind, what else is known of cases.
        """
        images: list[Tensor] = []
        labels: list[Tensor] = []
        names: list[str] = []
        kept: dict[str, list[Tensor]] = {kind: [] for kind in maps or {}}
        for name in (*cases, *partial):
            split = _splitter(store, window, name if name in partial else None)
            if labelled:
                pixels, classes = window.split_labelled(store.image(name), store.label(name), store.ignore)
                labels += room.place(classes)
            else:
                pixels = split(store.image(name))
            images += room.place(pixels)
            names += [name] * len(pixels)
            for kind, others in (maps or {}).items():
                whole = others.get(name, store.cases[name].shape[1:])
                kept[kind] += room.place(split(whole[None])[:, 0])
        if not images:
            raise InputError("No labelled slice shows an object. Check the labels, or use slices of every kind.")
        ignore = store.ignore if labelled and not store.partial.isdisjoint(cases) else None
        known = {kind: tuple(each) for kind, each in kept.items()}
        return cls(tuple(images), tuple(labels) if labelled else None, tuple(names), room.device, ignore, known)


def _splitter(store: Store, window: Window, partial: str | None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """How an unlabelled case is cut into images; one that is drawn in part, where nobody drew."""
    if partial is None or store.ignore is None:
        return window.split_unlabelled
    label, ignore = store.label(partial), store.ignore
    return lambda image: window.split_undrawn(image, label, ignore)


def _places(label: Tensor, ignore: int | None) -> tuple[Tensor, ...]:
    """Some of each object's voxels."""
    return tuple(_spaced(label == value) for value in torch.unique(label).tolist() if value and value != ignore)


def _spaced(mask: Tensor, most: int = 2000) -> Tensor:
    """Evenly spaced among a mask's voxels, so that nothing is drawn at random and little is kept: `(V, D)`."""
    where = mask.nonzero()
    return where[:: -(-len(where) // most)].clone()


class CaseMemory:
    """Maps that a method keeps for each unlabelled image, in the image's own space: uint8, or float in several channels."""

    def __init__(self, pool: Pool, room: Room | None = None) -> None:
        self.sizes = [tuple(size) for size in pool.sizes.tolist()]
        self.lengths = [int(length) for length in pool.sizes.prod(dim=1)]
        self.device, self.room = pool.device, room or Room.of(pool.device, None, None)
        self.flat: dict[str, Tensor] = {}
        """All images' voxels in one row, `(V,)` or `(M, V)`, by map: what is saved."""
        self.views: dict[str, tuple[Tensor, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Tensor, ...]:
        """One map of every image, `(*S)` or `(M, *S)` each."""
        return self.views[name]

    def write(self, index: Tensor, maps: dict[str, Tensor], planes: slice = slice(None)) -> None:
        """Keep maps of some images, or of some planes of theirs, each `(B, *S)`; what reaches beyond them is dropped."""
        for name, values in maps.items():
            kept = self._room(name, (), torch.uint8)
            for number, value in zip(index.tolist(), values, strict=True):
                place = kept[number][planes]
                own = tuple(map(slice, map(min, place.shape, value.shape)))
                place[own].copy_(value[own])

    def average(self, name: str, number: int, low: Sequence[int], values: Tensor, seen: Tensor, decay: float) -> None:
        """Average values `(M, *box)` into one image's map where they are seen, `(*box)`, from voxel `low` on."""
        kept = self._room(name, (len(values),), torch.float16)[number]
        box = kept[(slice(None), *(slice(a, a + n) for a, n in zip(low, seen.shape, strict=True)))]
        values, seen = values.to(box.device), seen.to(box.device)
        box.copy_(torch.where(seen, decay * box.float() + (1 - decay) * values, box.float()))

    def _room(self, name: str, lead: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
        if name not in self.flat:
            self._hold(name, self.room.zeros((*lead, sum(self.lengths)), dtype))
        return self[name]

    def _hold(self, name: str, flat: Tensor) -> None:
        rows = torch.split(flat, self.lengths, dim=-1)
        self.flat[name] = flat
        self.views[name] = tuple(row.view(*row.shape[:-1], *size) for row, size in zip(rows, self.sizes, strict=True))

    def load(self, flat: dict[str, Tensor]) -> None:
        """What `flat` was when it was saved."""
        if any(row.shape[-1] != sum(self.lengths) for row in flat.values()):
            raise InputError("The kept maps are of other images than the run's. Start the run anew.")
        for name, row in flat.items():
            if name not in self.flat:
                self._hold(name, self.room.zeros(tuple(row.shape), row.dtype))
            self.flat[name].copy_(row)
