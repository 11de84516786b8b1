"""Batches cut from images that live on the device, as a pure function of seed and step.

A batch is an index, one warp and one reading of image, label and maps together: no workers, no copies, and nothing to save
for a run to continue where it stopped. Of each image only the box that its window reaches is read, and a window that lies
upright is cut out to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from coranet.feed.augmentation import Augment
from coranet.feed.pools import CaseMemory, Pool
from coranet.feed.read_ahead import Boxes, ReadAhead, box_of
from coranet.feed.windows import Window
from coranet.ops.appearance import Look, changed_look
from coranet.ops.space.warp import Warp, inside, sample_image, sample_maps
from coranet.types import Batch, Sample, Trace


class Batches:
    """What each step trains on."""

    def __init__(
        self,
        labelled: Pool,
        unlabelled: Pool | None,
        *,
        window: Window,
        augment: Augment,
        sizes: tuple[int, int],
        seed: int,
        shuffle_labelled: bool = True,
        unit: float = 1.0,
        shares: tuple[slice, slice] = (slice(None), slice(None)),
    ) -> None:
        self.labelled, self.unlabelled, self.shuffle_labelled = labelled, unlabelled, shuffle_labelled
        self.window, self.augment, self.sizes, self.seed = window, augment, sizes, seed
        self.unit, self.shares = unit, dict(zip(("labelled", "unlabelled"), shares, strict=True))
        self.orders: dict[tuple[str, int], list[int]] = {}
        self.ahead = ReadAhead()

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

    def trace(self, step: int, memory: CaseMemory, traces: Mapping[str, Trace]) -> None:
        """Put maps of a step's unlabelled images, of all shares, back where the images were cut from."""
        assert self.unlabelled is not None
        index, warp = self._draw_all(self.unlabelled, "unlabelled", step, self.sizes[1])
        for row, number in enumerate(index):
            lows, shape = warp.one(row).reach(self.unlabelled.sizes[number].unsqueeze(0))
            points = warp.one(row).shifted(lows).back(shape).to(memory.device)
            size = torch.tensor([warp.shape]).to(memory.device, non_blocking=True)
            seen, origin = inside(points, size)[0], torch.zeros_like(size)
            for name, trace in traces.items():
                values = sample_image(trace.values[row].float().unsqueeze(0), points, size, origin)[0]
                memory.average(name, number, lows[0].tolist(), values, seen, trace.decay)

    def _draw(self, pool: Pool, stream: str, step: int, count: int) -> tuple[list[int], Warp]:
        """Which images of this share, and how each is looked at."""
        index, warp = self._draw_all(pool, stream, step, count)
        return index[self.shares[stream]], warp.rows(self.shares[stream])

    def _draw_all(self, pool: Pool, stream: str, step: int, count: int) -> tuple[list[int], Warp]:
        """Which images, and how each is looked at: the same whatever share of them is cut here."""
        index = self._index(stream, len(pool), step, count)
        generator = torch.Generator().manual_seed(mix(self.seed, stream, "view", step))
        warp = self.augment.draw(pool.sizes[index], self.window.size, generator)
        if self.window.around and pool.labels is not None:
            warp = _around(warp, [pool.objects[i] for i in index], pool.sizes[index], self.window.around, generator)
        if pool.ignore is not None:
            warp = _over_drawn(warp, [pool.drawings[i] for i in index], pool.sizes[index], generator)
        return index, warp

    def _cut(self, pool: Pool, stream: str, step: int, count: int, memory: CaseMemory | None) -> Sample:
        index, warp = self._draw(pool, stream, step, count)
        lows, shape = _box(warp, pool.sizes[index])
        boxes = self._boxes(pool, stream, step, count, index, lows, shape)
        if memory is not None:
            boxes |= Boxes.cut(
                {name: memory[name] for name in memory.flat}, index, lows.tolist(), shape, pool.device
            ).on(pool.device)
        image, valid, read = _view(boxes, warp, lows, pool.sizes[index], pool.device)
        image = self._look(image, stream, step, count)
        label = read.pop("label").long() if pool.labels is not None else None
        if label is None or pool.ignore is None:
            return Sample(image=image, valid=valid, label=label, maps=read, unit=self.unit)
        drawn = label != pool.ignore
        label = torch.where(drawn, label, 0)
        return Sample(image=image, valid=valid & drawn, label=label, maps=read, unit=self.unit, extent=valid)

    def _look(self, image: Tensor, stream: str, step: int, count: int) -> Tensor:
        """Images at other grey levels, where that is asked for."""
        appearance = self.augment.appearance
        if appearance is None or self.augment.appearance_of not in ("both", stream):
            return image
        seed, share = mix(self.seed, stream, "appearance", step), self.shares[stream]
        look = appearance.draw(count, image.ndim - 2, torch.Generator().manual_seed(seed))
        grain = torch.Generator(image.device).manual_seed(seed + (share.start or 0))
        own = [numbers[share] for numbers in look]
        return changed_look(image, Look(*_sent(own, image.device)), grain, self.unit)

    def _boxes(
        self, pool: Pool, stream: str, step: int, count: int, index: list[int], lows: Tensor, shape: tuple[int, ...]
    ) -> dict[str, Tensor]:
        """What the windows of a step reach of images and labels; where some are elsewhere, the next step's are sent for."""
        if pool.resident:
            return {
                name: _stacked([source[i] for i in index], lows.tolist(), shape)
                for name, source in pool.sources.items()
            }
        boxes = self.ahead.take((stream, step), lambda: Boxes.read(pool, index, lows.tolist(), shape))
        coming, warp = self._draw(pool, stream, step + 1, count)
        low, size = _box(warp, pool.sizes[coming])
        self.ahead.send((stream, step + 1), lambda: Boxes.read(pool, coming, low.tolist(), size))
        return boxes.on(pool.device)

    def _index(self, stream: str, total: int, step: int, count: int) -> list[int]:
        """Images in shuffled order, epoch after epoch, without a seam between them."""
        positions = range(step * count, (step + 1) * count)
        if stream == "labelled" and not self.shuffle_labelled:
            return [at % total for at in positions]
        return [self._order(stream, total, at // total)[at % total] for at in positions]

    def _order(self, stream: str, total: int, epoch: int) -> list[int]:
        if (stream, epoch) not in self.orders:
            self.orders = {key: order for key, order in self.orders.items() if key[1] >= epoch - 1 or key[0] != stream}
            generator = torch.Generator().manual_seed(mix(self.seed, stream, "order", epoch))
            self.orders[stream, epoch] = torch.randperm(total, generator=generator).tolist()
        return self.orders[stream, epoch]


def mix(*parts: int | str) -> int:
    """A seed for one purpose out of many, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=7).digest(), "big")


def _box(warp: Warp, sizes: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """Where boxes begin and how large they are that hold all that windows read."""
    return warp.corners() if warp.upright else warp.reach(sizes)


def _stacked(sources: Sequence[Tensor], corners: Sequence[Sequence[int]], shape: tuple[int, ...]) -> Tensor:
    """Boxes of sources that lie on one device, `(B, *box)` or with their channels."""
    cuts = [box_of(source, low, shape) for source, low in zip(sources, corners, strict=True)]
    return torch.stack(cuts)


def _view(
    boxes: dict[str, Tensor], warp: Warp, lows: Tensor, sizes: Tensor, device: torch.device
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Image, what of it is valid, and maps, through one warp."""
    bent = () if warp.knots is None else (warp.knots,)
    lows, sizes, matrix, centre, target, *knots = _sent(
        (lows, sizes, warp.matrix, warp.centre, warp.target, *bent), device
    )
    pixels = boxes.pop("image")
    whole = {name: box for name, box in boxes.items() if box.is_floating_point()}
    kept = {name: box for name, box in boxes.items() if name not in whole}
    if warp.upright:
        soft = {name: values.float() for name, values in whole.items()}
        return pixels, _covered(lows, sizes, tuple(pixels.shape[2:])), kept | soft
    points = Warp(matrix, centre, target, warp.shape, *knots).points()
    image = sample_image(pixels, points, sizes, lows)
    if kept:
        read = sample_maps(torch.stack(list(kept.values()), dim=1), points, sizes, lows)
        kept = dict(zip(kept, read.unbind(1), strict=True))
    soft = {name: sample_image(values.float(), points, sizes, lows) for name, values in whole.items()}
    return image, inside(points, sizes), kept | soft


def _sent(numbers: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
    """A few small tensors on a device, by one transfer that nothing waits for; whole numbers become floats on the way."""
    if device.type == "cpu":
        return numbers
    flat = torch.cat([number.flatten().float() for number in numbers])
    moved = (flat.pin_memory() if device.type == "cuda" else flat).to(device, non_blocking=True)
    parts = moved.split([number.numel() for number in numbers])
    return [part.view(number.shape) for part, number in zip(parts, numbers, strict=True)]


def _covered(lows: Tensor, sizes: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Where an upright window lies on its image: `(B, *S)`."""
    covered = torch.ones(len(lows), *shape, dtype=torch.bool, device=lows.device)
    for axis, length in enumerate(shape):
        place = torch.arange(length, device=lows.device) + lows[:, axis, None]
        along = (place >= 0) & (place < sizes[:, axis, None])
        covered &= along.view(len(lows), *(length if i == axis else 1 for i in range(len(shape))))
    return covered


def _around(
    warp: Warp, objects: Sequence[tuple[Tensor, ...]], sizes: Tensor, share: float, generator: torch.Generator
) -> Warp:
    """Some windows moved so that a voxel of an object lies in their middle, or as near to it as the image allows."""
    chance = torch.rand(len(objects), 3, generator=generator)
    target, half = warp.target.clone(), warp.centre[0]
    for number, (found, (use, which, where)) in enumerate(zip(objects, chance.tolist(), strict=True)):
        if found and use < share:
            places = found[int(which * len(found))]
            target[number] = _middle_near(places[int(where * len(places))], half, sizes[number])
    return replace(warp, target=target)


def _middle_near(voxel: Tensor, half: Tensor, size: Tensor) -> Tensor:
    """The middle of a window of an image that has a voxel in its middle, or as near to it as the image allows."""
    corner, room = voxel - (half + 0.5).floor(), size - 2 * half - 1
    return torch.minimum(torch.maximum(corner, room.clamp(max=0)), room.clamp(min=0)) + half


def _over_drawn(warp: Warp, drawings: Sequence[Tensor], sizes: Tensor, generator: torch.Generator) -> Warp:
    """Windows of images that are drawn in part moved, where they have to be, so that a drawn voxel lies in them.

    A window stays where it is if a voxel drawn by chance lies in it. Else the voxel comes to its middle, or as near to it as
    the image allows without losing it. One of the window's voxels then meets it: a view at half the size reads every
    second voxel, and would pass over a line.
    """
    chance = torch.rand(len(drawings), generator=generator)
    target, half = warp.target.clone(), warp.centre[0]
    for number, (places, which) in enumerate(zip(drawings, chance.tolist(), strict=True)):
        if len(places):
            voxel, matrix = places[int(which * len(places))].float(), warp.matrix[number]
            tried = (warp.target[number], _middle_near(voxel, half, sizes[number]), voxel)
            seen = (torch.linalg.solve(matrix, voxel - place) for place in tried)  # where the voxel is, from the middle
            met = (next(at for at in seen if (at.abs() <= half).all()) + half).round() - half
            target[number] = voxel - matrix @ met
    return replace(warp, target=target)
