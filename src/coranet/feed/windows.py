"""What an image is: a slice of a volume, or the volume itself; and how much of it a network sees at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coranet.ops.tiling import Blend


@dataclass(frozen=True, kw_only=True)
class Window(ABC):
    """What an image is, and how much of it a network sees at once. Axes are right, front and up."""

    size: tuple[int, ...]
    """Of the window that is cut from an image."""
    blend: Blend = "gaussian"
    """How windows that overlap are weighed in prediction: all voxels alike, or less towards the border."""

    @property
    def dims(self) -> int:
        """Axes of space."""
        return len(self.size)

    @abstractmethod
    def split(self, volume: NDArray[Any]) -> NDArray[Any]:
        """A volume `(..., X, Y, Z)` as images, `(N, ..., *S)`."""

    @abstractmethod
    def join(self, images: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `split`."""


@dataclass(frozen=True, kw_only=True)
class Slices(Window):
    """Two-dimensional images: the slices of each volume."""

    axis: Literal[0, 1, 2] = 2
    """Which axis of the store (right, anterior, superior) they are stacked along."""
    size: tuple[int, int] = (256, 256)
    """Of the window that is cut from a slice."""
    keep: Literal["all", "object"] = "all"
    """Of labelled cases, every slice or only those that show an object."""

    def split(self, volume: NDArray[Any]) -> NDArray[Any]:
        """One image a slice."""
        return np.moveaxis(volume, self.axis - 3, 0)

    def join(self, images: NDArray[Any]) -> NDArray[Any]:
        """Slices back to a volume."""
        return np.moveaxis(images, 0, self.axis - 3)


@dataclass(frozen=True, kw_only=True)
class Patches(Window):
    """Three-dimensional images: the volumes themselves. The defaults are the paper's."""

    size: tuple[int, int, int] = (96, 96, 96)
    """Of the window that is cut from a volume."""
    around: float = 0.0
    """Share of labelled windows that are laid about a voxel of an object, each class alike; the rest lie anywhere."""
    stride: tuple[int, int, int] | None = None
    """Voxels between windows in `coranet predict`; half a window where none is given, as in relabelling."""
    unlabelled: Literal["anywhere", "centre"] = "anywhere"
    """Where windows of unlabelled volumes lie. `centre` is what the paper's released code does: one crop, for ever."""

    def split(self, volume: NDArray[Any]) -> NDArray[Any]:
        """One image a volume."""
        return np.expand_dims(volume, 0)

    def join(self, images: NDArray[Any]) -> NDArray[Any]:
        """The one there is."""
        return images.squeeze(0)


WINDOWS: dict[str, type[Window]] = {"slices": Slices, "patches": Patches}
