"""What an image is: a slice of a volume, or the volume itself; and how much of it a network sees at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from coranet.ops.tiling import Blend


@dataclass(frozen=True, kw_only=True)
class Window(ABC):
    """What an image is, and how much of it a network sees at once. Axes are right, front and up."""

    images: ClassVar[str]
    """What people call its images."""
    points: ClassVar[str]
    """What people call the points of an image."""
    size: tuple[int, ...]
    """Of the window that is cut from an image."""
    blend: Blend = "gaussian"
    """How windows that overlap are weighed in prediction: all voxels alike, or less towards the border."""

    @property
    def dims(self) -> int:
        """Axes of space."""
        return len(self.size)

    @property
    def stride(self) -> tuple[int, ...] | None:
        """Points between windows in `coranet predict`; None is half a window."""
        return None

    @property
    def around(self) -> float:
        """Share of labelled windows that are laid about a voxel of an object."""
        return 0.0

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether a volume of this shape can be predicted."""
        return True

    def whole(self) -> Self:
        """The same with all images of labelled cases."""
        return self

    @abstractmethod
    def split(self, volume: NDArray[Any]) -> NDArray[Any]:
        """A volume `(..., X, Y, Z)` as images, `(N, ..., *S)`."""

    @abstractmethod
    def join(self, images: NDArray[Any]) -> NDArray[Any]:
        """The inverse of `split`."""

    def split_labelled(
        self, image: NDArray[Any], label: NDArray[Any], ignore: int | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The images of a labelled volume that are trained on, and their labels: those with a voxel that is drawn."""
        pixels, classes = self.split(image), self.split(label)
        if ignore is not None:
            pixels, classes = _chosen(classes != ignore, pixels, classes)
        return pixels, classes

    def split_undrawn(self, image: NDArray[Any], label: NDArray[Any], ignore: int) -> NDArray[Any]:
        """The images of a labelled volume that are trained on as unlabelled ones: those with a voxel that is not drawn."""
        (pixels,) = _chosen(self.split(label) == ignore, self.split(image))
        return pixels

    def split_unlabelled(self, image: NDArray[Any]) -> NDArray[Any]:
        """The images of an unlabelled volume that are trained on."""
        return self.split(image)


def _chosen(mask: NDArray[np.bool_], *stacks: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Of stacks of images those where a mask `(N, *S)` shows anything; all of them as they lie, where it does in each."""
    seen = mask.any(axis=tuple(range(1, mask.ndim)))
    return stacks if seen.all() else tuple(stack[seen] for stack in stacks)


@dataclass(frozen=True, kw_only=True)
class Slices(Window):
    """Two-dimensional images: the slices of each volume."""

    images = "slices"
    points = "pixels"
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

    def whole(self) -> Slices:
        """With every slice."""
        return replace(self, keep="all")

    def split_labelled(
        self, image: NDArray[Any], label: NDArray[Any], ignore: int | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """All slices with something drawn, or those that show an object."""
        pixels, classes = super().split_labelled(image, label, ignore)
        if self.keep == "object":
            pixels, classes = _chosen((classes != 0) & (classes != (ignore or 0)), pixels, classes)
        return pixels, classes


@dataclass(frozen=True, kw_only=True)
class Patches(Window):
    """Three-dimensional images: the volumes themselves. The defaults are the paper's."""

    images = "volumes"
    points = "voxels"
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

    def takes(self, shape: Sequence[int]) -> bool:
        """Not of one that is one voxel thin."""
        return min(shape) > 1

    def split_unlabelled(self, image: NDArray[Any]) -> NDArray[Any]:
        """The volume, or one window in its middle."""
        pixels = self.split(image)
        if self.unlabelled == "anywhere":
            return pixels
        starts = [max((n - w) // 2, 0) for n, w in zip(pixels.shape[2:], self.size, strict=True)]
        x, y, z = (slice(a, a + w) for a, w in zip(starts, self.size, strict=True))
        return pixels[:, :, x, y, z]


WINDOWS: dict[str, type[Window]] = {"slices": Slices, "patches": Patches}
