"""A trained method applied to images: whole on the device, or in parts where they are too large for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from coranet.engine.run import Accel
from coranet.errors import InputError
from coranet.feed.pools import Pool
from coranet.feed.windows import Window
from coranet.methods import Segmenter
from coranet.nets import fuse
from coranet.ops.confusion import dice_from_counts, overlap_counts
from coranet.ops.passes import evaluating
from coranet.ops.tiling import blend_parts, check_stride, predict_windows, starts
from coranet.types import Prediction

PART_BYTES = 2**31
"""What the sums of a volume that is blended in parts may take."""


def arithmetic(accel: Accel, device: torch.device) -> AbstractContextManager[object]:
    """The precision a forward pass runs in."""
    return torch.autocast(device.type, torch.bfloat16) if accel.precision == "bf16" else nullcontext()


def in_layout(image: Tensor, accel: Accel) -> Tensor:
    """The image in the memory layout the networks are in."""
    if not accel.channels_last:
        return image
    laid = image.contiguous(memory_format=torch.channels_last if image.ndim == 4 else torch.channels_last_3d)
    if image.shape[1] > 1:
        return laid
    # A single channel lies both ways, and libraries take it for the other: only its strides can say which is meant.
    strides = list(laid.stride())
    strides[1] = 1
    return laid.as_strided(laid.shape, strides)


def settle(net: nn.Module, accel: Accel, device: torch.device) -> None:
    """Put a network on a device, in the layout and with the blocks that are asked for."""
    net.to(device)
    if accel.fused:
        fuse(net)
    for parameter in net.parameters():
        if parameter.ndim > 3 and parameter.shape[1] > 1:
            parameter.data = in_layout(parameter.data, accel)


def stride_of(window: Window, asked: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The stride that was asked for, or the run's own; None is half a window."""
    if asked is None:
        return window.stride
    if len(asked) != window.dims:
        raise InputError(
            f"--stride {' '.join(map(str, asked))}: the run was trained in {window.dims}D, on {window.images}, and takes "
            f"{window.dims} numbers. Give as many, or use a run of --dims {len(asked)}."
        )
    check_stride(asked, window.size)
    return asked


@dataclass(frozen=True)
class Predictor:
    """What predicts, in evaluation mode, fed windows in batches."""

    segmenter: Segmenter
    window: Window
    accel: Accel
    stride: tuple[int, ...] | None = None
    """Voxels between windows; half a window where none is given."""
    values: int = 4
    """About how many soft values a voxel has, for the size of parts."""

    def __call__(self, images: Tensor) -> Prediction:
        """Of images `(B, C, *S)` of any size, on the device."""
        maps = predict_windows(
            self._infer,
            images,
            self.window.size,
            stride=self.stride,
            blend=self.window.blend,
            batch=self._batch(images.device),
        )
        return self.segmenter.decide(maps)

    def parts(self, images: Tensor, device: torch.device) -> Iterator[tuple[tuple[slice, ...], Prediction]]:
        """Of images `(B, C, *S)` wherever they are: places in `(B, *S)`, and what is said there, on the device.

        Images that fit into a window are taken some at a time; larger ones one after the other, a few planes of the first
        axis at a time, so that nothing of the size of a whole volume need lie on the device.
        """
        batch = self._batch(device)
        if all(n <= w for n, w in zip(images.shape[2:], self.window.size, strict=True)):
            for start in range(0, len(images), batch):
                part = images[start : start + batch]
                yield (slice(start, start + len(part)),), self(part.to(device))
            return
        per_plane = 4 * self.values * math.prod(images.shape[3:])
        for number, image in enumerate(images):
            blended = blend_parts(
                self._infer,
                image,
                self.window.size,
                stride=self.stride,
                blend=self.window.blend,
                batch=batch,
                planes=max(PART_BYTES // per_plane, self.window.size[0]),
                device=device,
            )
            for along, maps in blended:
                decided = self.segmenter.decide({name: values.unsqueeze(0) for name, values in maps.items()})
                yield (slice(number, number + 1), along), decided

    def over(self, pool: Pool, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tensor, slice, Prediction]]:
        """Every image of a pool: which ones, which planes of their first axis, and what is said there.

        Images that fit into a window are padded and predicted together, whatever their sizes: what is said of each lies at
        the near corner. Larger ones are predicted one after the other, in parts.

        Args:
            pool: of images.
            share: `(i, n)` takes images i, i + n, i + 2 n and so on.
        """
        first, of = share
        own = torch.arange(first, len(pool), of)
        together, fits = self._batch(pool.device), (pool.sizes[own] <= torch.tensor(self.window.size)).all(dim=1)
        for index in torch.split(own[fits], together):
            if len(index):
                yield index, slice(None), self(pool.padded(index, self.window.size))
        for number in own[~fits]:
            for (_, planes), prediction in self.parts(pool.images[number].unsqueeze(0), pool.device):
                yield number.unsqueeze(0), planes, prediction

    def dice(self, pool: Pool, classes: Mapping[str, str]) -> dict[str, float]:
        """Mean over cases of the Dice of each object where it is drawn, on the store's grid, and the mean of those."""
        assert pool.labels is not None
        counts: dict[str, Tensor] = {}
        for index, planes, prediction in self.over(pool):
            guess = prediction.probabilities.argmax(dim=1)
            for row, number in enumerate(index.tolist()):
                label = pool.labels[number][planes].to(pool.device)
                mine = guess[row][tuple(slice(n) for n in label.shape)]
                if pool.ignore is not None:
                    drawn = label != pool.ignore
                    mine, label = mine[drawn], label[drawn]
                both = overlap_counts(mine, label.long(), len(classes))
                counts[pool.cases[number]] = counts.get(pool.cases[number], 0) + both
        scores = torch.stack([dice_from_counts(count) for count in counts.values()]).nanmean(dim=0)[1:]
        named = dict(zip(list(classes.values())[1:], scores.tolist(), strict=True))
        return {"mean": float(scores.nanmean()), **named}

    def windows(self, pool: Pool) -> int:
        """How many windows `over` predicts."""
        stride = self.stride or tuple(max(w // 2, 1) for w in self.window.size)
        axes = list(zip(self.window.size, stride, strict=True))
        each = ([len(starts(n, w, s)) for n, (w, s) in zip(size, axes, strict=True)] for size in pool.sizes.tolist())
        return sum(math.prod(counts) for counts in each)

    def _batch(self, device: torch.device) -> int:
        """Windows that are predicted together: as many as keep a processor's cache, or a GPU, busy.

        At least two, since PyTorch has no fast convolution for a single small volume on CPUs.
        """
        voxels = 2**18
        if device.type == "cuda":
            share = torch.cuda.get_device_properties(device).total_memory / 2**34
            voxels = int(2**22 * min(max(share, 0.25), 4))
        return max(voxels // math.prod(self.window.size), 2)

    def _infer(self, image: Tensor) -> dict[str, Tensor]:
        with evaluating(self.segmenter.net), torch.no_grad(), arithmetic(self.accel, image.device):
            return self.segmenter.infer(in_layout(image, self.accel))
