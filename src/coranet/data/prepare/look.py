"""What a prepared scan looks like, in a few numbers that other scans can be held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

_SAMPLE = 2**18
"""Voxels of a channel that are looked at, about."""


def look_of(image: NDArray[np.float32]) -> dict[str, float]:
    """Of `(C, X, Y, Z)`: of each channel how bright its dark, middle and bright parts are, and how rough it is."""
    found = {}
    for number, channel in enumerate(image):
        step = max(1, round((prod(channel.shape) / _SAMPLE) ** (1 / 3)))
        some = np.asarray(channel[::step, ::step, ::step], np.float64)
        about = f" of channel {number}" if len(image) > 1 else ""
        levels = np.quantile(some, (0.05, 0.5, 0.95))
        for name, level in zip(("dark parts", "middle", "bright parts"), levels, strict=True):
            found[f"{name}{about}"] = float(level)
        found[f"roughness{about}"] = _roughness(np.asarray(channel[:, :, channel.shape[2] // 2], np.float64))
    return found


def looks_of(images: Sequence[NDArray[np.float32]]) -> Mapping[str, tuple[float, ...]]:
    """Of several scans, by number."""
    each = [look_of(image) for image in images]
    return {name: tuple(round(look[name], 6) for look in each) for name in (each[0] if each else ())}


def place_of(mask: NDArray[np.bool_]) -> tuple[float, float, float] | None:
    """The centre of mass of `(X, Y, Z)` as shares of its extent; None of an empty one."""
    whole = int(np.count_nonzero(mask))
    if not whole:
        return None
    sums = (mask.sum(axis=tuple(other for other in range(3) if other != axis)) for axis in range(3))
    x, y, z = (float((one * (np.arange(len(one)) + 0.5)).sum() / whole / len(one)) for one in sums)
    return round(x, 6), round(y, 6), round(z, 6)


def _roughness(plane: NDArray[np.float64]) -> float:
    """How far neighbours lie apart, of how far all do, in the logarithm: noise and blur change it, brightness does not."""
    steps = [np.abs(np.diff(plane, axis=axis)).mean() for axis in range(2) if plane.shape[axis] > 1]
    spread = float(plane.std())
    return float(np.log(max(float(np.mean(steps)), 1e-6) / spread)) if steps and spread > 0 else 0.0
