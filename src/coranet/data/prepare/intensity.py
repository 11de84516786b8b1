"""Grey levels on one scale, and the threshold that parts a scan from what surrounds it.

Everything is done in place or plane by plane: a scan is large, and its copies are what memory is spent on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.prepare.preparation import Preparation

Floats = NDArray[np.float32]

_SAMPLE = 2_000_000
"""Voxels that are enough to find a threshold or a deviation by."""
_SCANS = 16
"""Scans that are enough to tell how far intensities spread."""


def normalise(image: NDArray[Any], settings: Preparation, channel: int = 0) -> Floats:
    """Grey levels of a whole scan on one scale; a constant scan becomes 0."""
    copy = np.array(image, np.float32)
    normalise_in_place(copy, settings, channel)
    return copy


def normalise_in_place(
    image: Floats, settings: Preparation, channel: int = 0, kept: tuple[slice, slice, slice] | None = None
) -> None:
    """`normalise`, with no second array; `kept` is the box of the scan that `statistics=crop` means."""
    kind = settings.intensity_of(channel)
    part = image[kept] if kept and settings.statistics == "crop" else image
    counted = _counted(part, settings)
    if settings.clip is not None:
        np.clip(image, *settings.clip, out=image)
    if kind == "none":
        return
    if image.min() == image.max():
        image[...] = 0
        return
    match kind:
        case "zscore":
            mean, deviation = _moments(part, counted)
            image -= np.float32(mean)
            image /= np.float32(deviation or 1)
        case "window":
            _to_unit(image, *settings.window)
            image *= 2
            image -= 1
        case "minmax":
            values = part if counted is None else part[counted]
            _to_unit(image, values.min(), values.max())
        case "percentile":
            values = part if counted is None else part[counted]
            _to_unit(image, *np.percentile(values, (0.5, 99.5)))


def spread(images: Sequence[Floats], settings: Preparation) -> float:
    """How far normalised intensities of scans `(C, X, Y, Z)` spread: the mean deviation of some of them, evenly spaced.

    It is 1 where all channels are normalised to that, whatever a crop has left of a scan, and where nothing varies. It is
    one number for all channels, of whatever kinds they are.
    """
    deviations = [
        1.0 if settings.intensity_of(number) == "zscore" else float(_sparse(channel).std())
        for image in images[:: max(1, len(images) // _SCANS)]
        for number, channel in enumerate(image)
    ]
    return float(np.mean(deviations or [1.0])) or 1.0


def _sparse(image: NDArray[Any]) -> NDArray[Any]:
    """Enough of its voxels, evenly spaced."""
    every = max(1, round((image.size / _SAMPLE) ** (1 / 3)))
    return image[::every, ::every, ::every]


def background_threshold(image: NDArray[Any]) -> float:
    """The grey level that parts a scan in two of the largest variance between them (Otsu, IEEE Trans. SMC, 1979)."""
    sample = _sparse(image)
    low, high = np.percentile(sample, (0.1, 99.9))
    if not high > low:
        return float(low)
    counts, edges = np.histogram(sample.clip(low, high), bins=256)
    share, centres = counts / counts.sum(), (edges[1:] + edges[:-1]) / 2
    below, sums = share.cumsum(), (share * centres).cumsum()
    apart = (sums[-1] * below - sums) ** 2
    spread = np.divide(apart, below * (1 - below), out=np.zeros_like(apart), where=(below > 0) & (below < 1 - 1e-9))
    return float(edges[1 + int(spread.argmax())])


def _counted(image: Floats, settings: Preparation) -> NDArray[np.bool_] | None:
    """The voxels statistics are taken of; None is all, also where there would be none."""
    if settings.statistics in ("scan", "crop"):
        return None
    chosen = image != 0 if settings.statistics == "nonzero" else image > background_threshold(image)
    return chosen if chosen.any() else None


def _moments(image: Floats, counted: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Mean and deviation in double precision, plane by plane."""

    def plane(index: int) -> Floats:
        whole: Floats = image[index]
        return whole if counted is None else whole[counted[index]]

    number = image.size if counted is None else int(np.count_nonzero(counted))
    mean = sum(float(plane(i).sum(dtype=np.float64)) for i in range(len(image))) / number
    squares = (float(np.square(plane(i).astype(np.float64) - mean).sum()) for i in range(len(image)))
    return mean, math.sqrt(sum(squares) / number)


def _to_unit(image: Floats, low: float, high: float) -> None:
    """`low..high` to 0..1, clipped."""
    if not high > low:
        image[...] = 0
        return
    image -= np.float32(low)
    image /= np.float32(high - low)
    np.clip(image, 0, 1, out=image)
