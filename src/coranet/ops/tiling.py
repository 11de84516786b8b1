"""Predicting an image larger than the network's window: where the windows lie, and how their answers are blended.

Windows lie on a grid, and what a voxel of a window counts is a product over the axes; so what all windows together count in
a voxel is a product over the axes too. Each axis is therefore normalised alone, in one small vector, before anything is
added: the shares of all windows in a voxel sum to one, and there is no array of totals to hold or to divide by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from coranet.errors import InputError

Blend = Literal["constant", "gaussian"]
Predict = Callable[[Tensor], Mapping[str, Tensor]]
"""Windows `(B, C, *W)` to named maps `(B, M, *W)` that may be averaged."""


class Span(NamedTuple):
    """What one window covers along one axis."""

    place: slice
    """In the image."""
    share: Tensor
    """`(n,)`: how much of the answer there is this window's."""


Answer = tuple[tuple[Span, ...], Mapping[str, Tensor]]
"""A window, by its span along each axis, and what is said of it, `(M, *W)`."""


def starts(size: int, window: int, stride: int) -> list[int]:
    """Where windows begin along one axis: every `stride`, the last one flush with the end."""
    last = max(size - window, 0)
    return [*range(0, last, stride), last]


def check_stride(stride: tuple[int, ...], window: tuple[int, ...]) -> None:
    """Refuse steps between windows that are not one for each axis, do not move on, or leave voxels out."""
    if len(stride) != len(window):
        raise InputError(
            f"The stride has {len(stride)} numbers, the windows {len(window)} axes: give one for each axis."
        )
    if min(stride) < 1:
        raise InputError(f"A stride of {stride} does not move on: every step is at least 1.")
    if any(s > w for s, w in zip(stride, window, strict=True)):
        raise InputError(
            f"A stride of {stride} is larger than the window {window}: voxels between windows would be left out."
        )


def axis_weights(window: int, blend: Blend) -> Tensor:
    """How much each voxel of a window counts along one axis, `(W,)`: all alike, or less towards the border.

    The Gaussian's deviation is an eighth of the window, as in nnU-Net (Isensee et al., 2021).
    """
    if blend == "constant":
        return torch.ones(window, dtype=torch.float64)
    at = (torch.arange(window, dtype=torch.float64) - (window - 1) / 2) / (window / 8)
    return torch.exp(-0.5 * at.square()).clamp(min=1e-3)


def axis_spans(size: int, window: int, stride: int, blend: Blend, device: torch.device) -> list[Span]:
    """The windows along one axis, in order; over all of them the shares in a voxel sum to one."""
    weights, total = axis_weights(window, blend)[:size], torch.zeros(size, dtype=torch.float64)
    places = [slice(start, min(start + window, size)) for start in starts(size, window, stride)]
    for place in places:
        total[place] += weights
    shares = torch.stack([weights / total[place] for place in places]).float().to(device, non_blocking=True)
    return list(map(Span, places, shares.unbind()))


def blend_parts(
    predict: Predict,
    image: Tensor,
    window: tuple[int, ...],
    *,
    stride: tuple[int, ...] | None = None,
    blend: Blend = "gaussian",
    batch: int = 1,
    planes: int | None = None,
    device: torch.device | None = None,
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Blend what a network says of each window of one image, and hand the maps out part by part along the first axis.

    Windows come in the order of their first start. When the sums are full, the planes that no later window reaches are
    handed out and make room. A voxel's windows are added in that one order, so that its bits depend on neither `planes`
    nor, where the network treats each window alone, on `batch`.

    Args:
        predict: `(B, C, *W)` to named maps `(B, M, *W)` that may be averaged.
        image: `(C, *S)`, on any device and as large as a file; where it is smaller than a window its border is repeated.
        window: W.
        stride: voxels between windows; half a window where none is given.
        blend: how windows that overlap are weighed.
        batch: windows that are predicted together.
        planes: of the first axis that are summed at a time, and no fewer than a window has; all where none are given.
        device: where windows are predicted; the image's where none is given. They are blended where their maps are.

    Returns:
        An iterator over parts, in order: which planes, and named maps `(M, planes, ...)` of them, in fp32.
    """
    size = tuple(image.shape[1:])
    stride = _checked(size, window, stride, batch)
    answers = _answers(predict, image, window, stride, blend, batch, device or image.device)
    # The sums move on under every part but the last, and a part is the caller's to keep.
    return (
        (place, maps if place.stop == size[0] else {name: values.clone() for name, values in maps.items()})
        for place, maps in _lent_parts(answers, size, window[0], planes)
    )


def predict_windows(
    predict: Predict,
    images: Tensor,
    window: tuple[int, ...],
    *,
    stride: tuple[int, ...] | None = None,
    blend: Blend = "gaussian",
    batch: int | None = None,
) -> dict[str, Tensor]:
    """Whole maps `(B, M, *S)`, in fp32, of images `(B, C, *S)` that fit into memory.

    Images that fit into a window are padded and predicted together; larger ones are blended one after the other, as by
    `blend_parts`. `batch` windows are predicted at a time; as many as there are images where none are given.
    """
    size, batch = tuple(images.shape[2:]), len(images) if batch is None else batch
    stride = _checked(size, window, stride, batch)
    whole: dict[str, Tensor] = {}

    def keep(rows: slice, planes: slice, maps: Mapping[str, Tensor]) -> None:
        for name, values in maps.items():
            if name not in whole:
                whole[name] = torch.empty(len(images), values.shape[1], *size, device=values.device)
            whole[name][rows, :, planes] = values

    if all(n <= w for n, w in zip(size, window, strict=True)):
        for first in range(0, len(images), batch):
            rows = slice(first, first + batch)
            maps = predict(pad_to(images[rows], window))
            keep(rows, slice(None), {name: crop_to(values, size) for name, values in maps.items()})
        return whole
    for row, image in enumerate(images):
        answers = _answers(predict, image, window, stride, blend, batch, images.device)
        # Few planes at a time: the sums of a whole image would take as much room again as its maps.
        for planes, maps in _lent_parts(answers, size, window[0], window[0]):
            keep(slice(row, row + 1), planes, {name: values.unsqueeze(0) for name, values in maps.items()})
    return whole


def pad_to(image: Tensor, window: tuple[int, ...]) -> Tensor:
    """Repeat the border at the far ends until `(B, C, *S)` is at least a window large."""
    missing = [max(w - n, 0) for n, w in zip(image.shape[2:], window, strict=True)]
    if not any(missing):
        return image
    return F.pad(image, [amount for axis in reversed(missing) for amount in (0, axis)], mode="replicate")


def crop_to(maps: Tensor, size: tuple[int, ...]) -> Tensor:
    """Undo `pad_to`."""
    return maps[(slice(None), slice(None), *(slice(0, n) for n in size))]


def _checked(
    size: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...] | None, batch: int
) -> tuple[int, ...]:
    """The stride, half a window where none is given."""
    if len(window) != len(size):
        raise InputError(f"The window has {len(window)} numbers, the image {len(size)} axes: give one for each axis.")
    if min(window) < 1:
        raise InputError(f"A window of {window} voxels is empty: every side is at least 1.")
    if min(size) < 1:
        raise InputError(f"An image of {size} voxels is empty: there is nothing to predict.")
    if batch < 1:
        raise InputError(f"At least 1 window is predicted at a time, not {batch}.")
    stride = tuple(max(w // 2, 1) for w in window) if stride is None else stride
    check_stride(stride, window)
    return stride


def _answers(
    predict: Predict,
    image: Tensor,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    blend: Blend,
    batch: int,
    device: torch.device,
) -> Iterator[Answer]:
    """Windows of `(C, *S)` in the order of their first start, and what the network says of each."""
    axes = zip(image.shape[1:], window, stride, strict=True)
    windows = product(*(axis_spans(*axis, blend, device) for axis in axes))
    cut = _cutter(image, device)
    while some := list(islice(windows, batch)):
        # Padded after it is cut, so that a large image that is thin along one axis is never copied whole.
        maps = predict(pad_to(torch.stack([cut([span.place for span in spans]) for spans in some]), window))
        for row, spans in enumerate(some):
            yield spans, {name: values[row] for name, values in maps.items()}


def _cutter(image: Tensor, device: torch.device) -> Callable[[Sequence[slice]], Tensor]:
    """Cuts boxes out of `(C, *S)` onto a device. Those that begin alike along the first axis share one transfer."""
    moved: tuple[slice, Tensor] | None = None

    def cut(box: Sequence[slice]) -> Tensor:
        nonlocal moved
        if moved is None or moved[0] != box[0]:
            moved = box[0], image[:, box[0]].to(device, non_blocking=True)
        return moved[1][(slice(None), slice(None), *box[1:])]

    return cut


def _lent_parts(
    answers: Iterator[Answer], size: tuple[int, ...], depth: int, planes: int | None
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Add the answers up; when a window finds no room, lend out the planes that are done, until the next are asked for."""
    depth = min(depth, size[0])
    room = size[0] if planes is None else min(max(planes, depth), size[0])
    sums: dict[str, Tensor] = {}
    first = 0  # the plane of the image that the sums begin with
    for spans, maps in answers:
        start = spans[0].place.start
        if start + depth > first + room:
            yield slice(first, start), {name: values[:, : start - first] for name, values in sums.items()}
            for values in sums.values():
                _move_up(values, start - first)
            first = start
        weights = _outer([span.share for span in spans])
        place = (slice(None), slice(start - first, start - first + depth), *(span.place for span in spans[1:]))
        inside = (slice(None), *(slice(0, n) for n in weights.shape))
        for name, values in maps.items():
            if name not in sums:
                sums[name] = torch.zeros(len(values), room, *size[1:], device=values.device)
            # First times, then plus, each rounded once: nothing promises that a fused one has the same bits wherever
            # the sums lie in memory.
            sums[name][place].add_(values[inside].float() * weights.to(values.device))
    yield slice(first, size[0]), {name: values[:, : size[0] - first] for name, values in sums.items()}


def _move_up(sums: Tensor, planes: int) -> None:
    """Drop the first planes of `(M, P, ...)`; empty ones follow the others."""
    others = sums[:, planes:].clone()
    sums[:, : others.shape[1]] = others
    sums[:, others.shape[1] :] = 0


def _outer(shares: Sequence[Tensor]) -> Tensor:
    """One vector for each axis to their product, `(*W)`."""
    weights = shares[0]
    for share in shares[1:]:
        weights = weights.unsqueeze(-1) * share
    return weights
