"""Fixed orientations of an image, its axes in another order and some of them mirrored, undone to the bit."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Orientation:
    """First some axes of space are mirrored, then all are put in another order. The shape may change."""

    order: tuple[int, ...]
    """Which axis of the image each axis of the view is."""
    mirror: tuple[int, ...] = ()
    """Axes of the image."""

    def apply(self, x: Tensor) -> Tensor:
        """The view of `(B, *S)` or `(B, C, *S)`."""
        lead = x.ndim - len(self.order)
        flipped = x.flip([lead + axis for axis in self.mirror])
        return flipped.permute(*range(lead), *(lead + axis for axis in self.order))

    def undo(self, x: Tensor) -> Tensor:
        """Back from the view."""
        lead = x.ndim - len(self.order)
        places = [lead + self.order.index(axis) for axis in range(len(self.order))]
        return x.permute(*range(lead), *places).flip([lead + axis for axis in self.mirror])


ORIENTATIONS: dict[int, tuple[Orientation, ...]] = {
    2: (
        Orientation((0, 1)),
        Orientation((1, 0), (1,)),
        Orientation((0, 1), (0, 1)),
        Orientation((1, 0), (0,)),
        Orientation((0, 1), (0,)),
        Orientation((0, 1), (1,)),
    ),
    3: tuple(Orientation(order) for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))),
}
"""Six for each number of dimensions, the image itself first: in 2D the quarter turns, then a mirroring of either axis; in
3D the orders of the axes, those that keep its handedness first."""
