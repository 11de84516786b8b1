"""Batches cut from images that live on the device, as a pure function of seed and step.

A pool holds images of one kind, slices or volumes, on a canvas as large as the largest of them, with each one's own size. A
batch is an index, one warp and one reading of image, label and maps together: no workers, no copies, and nothing to save
for a run to continue where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from coranet.data.augment import Augment
from coranet.data.store import Store
from coranet.errors import InputError
from coranet.ops.warp import inside, repeat_border, sample_image, sample_maps
from coranet.types import Batch, Sample


@dataclass(frozen=True, kw_only=True)
class Slices:
    """Two-dimensional images: the slices of each volume."""

    axis: Literal[0, 1, 2] = 2
    """Which axis of the store (right, anterior, superior) they are stacked along."""
    size: tuple[int, int] = (256, 256)
    """Of the window that is cut from a slice."""
    keep: Literal["all", "object"] = "all"
    """Of labelled cases, every slice or only those that show an object."""

    @property
    def dims(self) -> int:
        """Axes of space."""
        return len(self.size)


@dataclass(frozen=True)
class Pool:
    """Images of one kind on the device, `N` of them."""

    image: Tensor
    """`(N, C, *canvas)`."""
    sizes: Tensor
    """`(N, D)` on the CPU: how much of the canvas each image covers."""
    label: Tensor | None
    """`(N, *canvas)` uint8."""
    cases: tuple[str, ...]
    """Whose slice each image is."""

    def __len__(self) -> int:
        return len(self.cases)

    def padded(self, index: Tensor, window: tuple[int, ...]) -> Tensor:
        """Images no larger than a window, `(B, C, *window)`, each with its own border repeated at the far ends."""
        device = self.image.device
        return repeat_border(self.image[index.to(device)], self.sizes[index].to(device), window)

    @classmethod
    def load(cls, store: Store, cases: Sequence[str], slices: Slices, device: torch.device, *, labelled: bool) -> Pool:
        """Put cases on the device. Labels are read only where `labelled` says that they may be."""
        images = [np.moveaxis(store.image(name), slices.axis + 1, 0) for name in cases]
        labels = [np.moveaxis(store.label(name), slices.axis, 0) for name in cases] if labelled else None
        if labels is not None and slices.keep == "object":
            seen = [label.any(axis=(1, 2)) for label in labels]
            images = [image[keep] for image, keep in zip(images, seen, strict=True)]
            labels = [label[keep] for label, keep in zip(labels, seen, strict=True)]
        count = sum(len(image) for image in images)
        if not count:
            raise InputError("No labelled slice shows an object. Check the labels, or use slices of every kind.")
        canvas = tuple(max(image.shape[axis] for image in images) for axis in (2, 3))
        pixels = torch.zeros(count, store.channels, *canvas)
        classes = torch.zeros(count, *canvas, dtype=torch.uint8) if labels is not None else None
        at = 0
        for number, image in enumerate(images):
            place = (slice(at, at + len(image)), ..., slice(image.shape[2]), slice(image.shape[3]))
            pixels[place] = torch.from_numpy(np.array(image))  # a copy: the store's own arrays are read-only
            if classes is not None and labels is not None:
                classes[place] = torch.from_numpy(np.array(labels[number]))
            at += len(image)
        return cls(
            image=pixels.to(device),
            sizes=torch.tensor([image.shape[2:] for image in images for _ in range(len(image))]),
            label=None if classes is None else classes.to(device),
            cases=tuple(name for name, image in zip(cases, images, strict=True) for _ in range(len(image))),
        )


class CaseMemory:
    """Maps that a method keeps for each unlabelled image, in the image's own space: `(N, *canvas)` uint8 by name."""

    def __init__(self, pool: Pool) -> None:
        self.shape = (len(pool), *pool.image.shape[2:])
        self.device = pool.image.device
        self.maps: dict[str, Tensor] = {}

    def write(self, index: Tensor, maps: dict[str, Tensor]) -> None:
        """Keep maps of some images, each `(B, *S)`; what reaches beyond the canvas is no image's."""
        for name, values in maps.items():
            if name not in self.maps:
                self.maps[name] = torch.zeros(self.shape, dtype=torch.uint8, device=self.device)
            canvas = self.maps[name]
            for axis in range(1, values.ndim):
                length = min(values.shape[axis], canvas.shape[axis])
                canvas, values = canvas.narrow(axis, 0, length), values.narrow(axis, 0, length)
            canvas[index.to(self.device)] = values.to(torch.uint8)


class Batches:
    """What each step trains on."""

    def __init__(
        self,
        labelled: Pool,
        unlabelled: Pool | None,
        *,
        window: tuple[int, ...],
        augment: Augment,
        sizes: tuple[int, int],
        seed: int,
    ) -> None:
        self.labelled, self.unlabelled = labelled, unlabelled
        self.window, self.augment, self.sizes, self.seed = window, augment, sizes, seed
        self.orders: dict[tuple[str, int], Tensor] = {}

    @property
    def epoch(self) -> tuple[int, int]:
        """Steps in which every labelled image has been seen once, and every unlabelled one."""
        counts = (len(self.labelled), len(self.unlabelled) if self.unlabelled else len(self.labelled))
        return -(-counts[0] // self.sizes[0]), -(-counts[1] // self.sizes[1])

    def at(self, step: int, memory: CaseMemory | None = None) -> Batch:
        """The batch of one step."""
        labelled = self._cut(self.labelled, "labelled", step, self.sizes[0], None)
        if self.unlabelled is None:
            return Batch(labelled=labelled)
        return Batch(
            labelled=labelled, unlabelled=self._cut(self.unlabelled, "unlabelled", step, self.sizes[1], memory)
        )

    def _cut(self, pool: Pool, stream: str, step: int, count: int, memory: CaseMemory | None) -> Sample:
        index = self._index(stream, len(pool), step, count)
        generator = torch.Generator().manual_seed(mix(self.seed, stream, "view", step))
        warp = self.augment.draw(pool.sizes[index], self.window, generator).to(pool.image.device)
        sizes, where = pool.sizes[index].to(pool.image.device), index.to(pool.image.device)
        points = warp.points()
        image = sample_image(pool.image[where], points, sizes)
        maps = {name: values[where] for name, values in memory.maps.items()} if memory else {}
        if pool.label is not None:
            maps["label"] = pool.label[where]
        if maps:
            read = sample_maps(torch.stack(list(maps.values()), dim=1), points, sizes)
            maps = dict(zip(maps, read.unbind(1), strict=True))
        label = maps.pop("label").long() if pool.label is not None else None
        return Sample(image=image, valid=inside(points, sizes), label=label, maps=maps)

    def _index(self, stream: str, total: int, step: int, count: int) -> Tensor:
        """Images in shuffled order, epoch after epoch, without a seam between them."""
        positions = range(step * count, (step + 1) * count)
        return torch.stack([self._order(stream, total, at // total)[at % total] for at in positions])

    def _order(self, stream: str, total: int, epoch: int) -> Tensor:
        if (stream, epoch) not in self.orders:
            self.orders = {key: order for key, order in self.orders.items() if key[1] >= epoch - 1 or key[0] != stream}
            generator = torch.Generator().manual_seed(mix(self.seed, stream, "order", epoch))
            self.orders[stream, epoch] = torch.randperm(total, generator=generator)
        return self.orders[stream, epoch]


def mix(*parts: int | str) -> int:
    """A seed for one purpose out of many, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=7).digest(), "big")
