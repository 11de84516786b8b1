"""Random views: parameters are drawn here, in one place, and applied by `ops.warp`, so that they can be replayed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.ops.appearance import Appearance
from coranet.ops.space.elastic import KNOTS, MOST, knot_distance
from coranet.ops.space.warp import Warp

QUARTER_TURNS = torch.tensor([[[1.0, 0], [0, 1]], [[0, -1], [1, 0]], [[-1, 0], [0, -1]], [[0, 1], [-1, 0]]])


@dataclass(frozen=True, kw_only=True)
class Augment:
    """How far views of an image may differ. The defaults are the paper's for two dimensions."""

    rotate: float = 30.0
    """Degrees to either side, in the plane of the first two axes."""
    scale: tuple[float, float] = (0.5, 2.0)
    """Smallest and largest magnification, drawn evenly on a logarithmic scale."""
    flip: bool = True
    """Mirror each of the first two axes, one time in two."""
    turns: bool = False
    """Turn by none, one, two or three right angles in that plane, each one time in four."""
    upright: float = 0.0
    """Share of views that are neither mirrored nor turned by right angles, whatever the two fields above say."""
    crop: bool = True
    """Cut windows at random places; otherwise from the middle."""
    area: tuple[float, float] | None = None
    """Show at least and at most this share of an image's first two axes, cut at a random place and stretched to the
    window; None cuts windows at their own size."""
    share: float = 1.0
    """How often a view is turned and scaled at all."""
    elastic: float = 0.0
    """How often a view is bent, smoothly and along all axes."""
    bend: float = 0.25
    """How far a view may be bent, as a share of a quarter of the window; below 0.4 nothing folds."""
    appearance: Appearance | None = None
    """How often and how much grey levels change; None leaves them as they are, as the paper does."""
    appearance_of: Literal["both", "labelled", "unlabelled"] = "both"
    """Which images' grey levels change."""

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1]:
            raise InputError(f"augment.scale goes from small to large and is positive, not {self.scale}.")
        if self.area and not 0 < self.area[0] <= self.area[1] <= 1:
            raise InputError(f"augment.area goes from small to large and is a share of 1, not {self.area}.")

        if not (0 <= self.elastic <= 1 and 0 <= self.bend < MOST):
            raise InputError(
                f"augment.elastic is a chance and augment.bend below {MOST}, not {self.elastic} and {self.bend}."
            )

    def draw(self, sizes: Tensor, window: tuple[int, ...], generator: torch.Generator) -> Warp:
        """One warp for each image.

        Args:
            sizes: `(B, D)`, the images' own sizes.
            window: what is cut, `D` numbers.
            generator: of the random numbers, on the CPU.
        """
        count, dims = sizes.shape
        span = torch.tensor(window)
        low, high = (sizes - span).clamp(max=0), (sizes - span).clamp(min=0)
        # Random numbers are drawn whether they are used or not, so that one setting does not shift another's.
        place = torch.rand(count, dims, generator=generator)
        turn, size, used = torch.rand(3, count, generator=generator)
        mirror = torch.rand(count, dims, generator=generator) < 0.5
        quarters = torch.randint(4, (count,), generator=generator)
        if self.upright:  # drawn last, and only then: other settings see the numbers they always saw
            still = torch.rand(count, generator=generator) < self.upright
            mirror, quarters = mirror & ~still.unsqueeze(1), torch.where(still, 0, quarters)
        anywhere, middle = low + (place * (high - low + 1)).floor(), ((sizes - span) / 2).floor()
        corner = anywhere if self.crop else middle
        # Both centres lie half a window from integer corners: an upright window meets voxels exactly.
        centre = (span - 1) / 2
        matrix = self._matrix(turn, size, used, mirror)
        if self.turns:
            matrix[:, :2, :2] = matrix[:, :2, :2] @ QUARTER_TURNS[quarters]
        target = corner + centre
        if self.area:
            shown, target = self._shown(sizes, span, size, place, target)
            matrix[:, :2, :2] = matrix[:, :2, :2] * shown.unsqueeze(-1)
        return Warp(matrix, centre.expand(count, -1), target, window, self._knots(count, window, generator))

    def _knots(self, count: int, window: tuple[int, ...], generator: torch.Generator) -> Tensor | None:
        """How far the knots over each window move, in voxels."""
        if not self.elastic:  # nothing is drawn: other settings see the numbers they always saw
            return None
        used = torch.rand(count, generator=generator) < self.elastic
        moves = 2 * torch.rand(count, len(window), *[KNOTS] * len(window), generator=generator) - 1
        most = self.bend * torch.tensor([knot_distance(length) for length in window])
        spread = [1] * len(window)
        return torch.where(used.view(-1, 1, *spread), moves * most.view(1, -1, *spread), 0.0)

    def _shown(
        self, sizes: Tensor, span: Tensor, chance: Tensor, place: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Voxels of the source to one of the window along the first two axes, and the middle of what is shown."""
        assert self.area is not None
        low, high = self.area
        side = (low + (high - low) * chance).sqrt().unsqueeze(-1)
        length = side * sizes[:, :2]
        middle = length / 2 - 0.5 + place[:, :2] * (sizes[:, :2] - length)
        return length / span[:2], torch.cat([middle, target[:, 2:]], dim=1)

    def _matrix(self, turn: Tensor, size: Tensor, used: Tensor, mirror: Tensor) -> Tensor:
        applied = used < self.share
        angle = torch.where(applied, math.radians(self.rotate) * (2 * turn - 1), 0.0)
        smallest, largest = (math.log(s) for s in self.scale)
        scale = torch.where(applied, torch.exp(smallest + (largest - smallest) * size), 1.0)
        matrix = torch.eye(mirror.shape[1]).repeat(len(turn), 1, 1)
        cos, sin = torch.cos(angle) / scale, torch.sin(angle) / scale
        matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 1, 1] = cos, -sin, sin, cos
        if self.flip:
            matrix[:, :, :2] *= torch.where(mirror[:, :2], -1.0, 1.0).unsqueeze(1)
        return matrix
