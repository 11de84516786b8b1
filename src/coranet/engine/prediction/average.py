"""Several looks at an image as one: by several networks, and at the image mirrored and turned.

    m̄ = 1/L Σ_l v_l⁻¹(m_l(v_l(x)))      for every soft map m: main, con, rad, ..

What is soft is averaged, and what is hard is decided last, from the mean. So where conservative and radical heads are
averaged, the uncertain region is where their means disagree. A window is looked at in whole, so volumes that are predicted
in parts need nothing more, and neither do sub-tasks that vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from coranet.feed.augmentation import Augment
from coranet.methods import Segmenter
from coranet.ops.space.orientation import Orientation
from coranet.types import Maps, Prediction
from coranet.uncertainty import Softmax

Look = tuple[Segmenter, Orientation]
"""What looks, and which view of the image it is shown."""


@dataclass(frozen=True)
class Average(Segmenter):
    """The mean of what several looks say."""

    looks: tuple[Look, ...] = ()
    alike: bool = True
    """Whether all say the same maps and read regions from them alike. Otherwise probabilities alone are averaged, and
    regions are those of `Softmax`."""

    @classmethod
    def of(cls, looks: Sequence[Look]) -> Segmenter:
        """Of one look or more; a single one at the image as it is needs no mean."""
        first, view = looks[0]
        if len(looks) == 1 and view == Orientation(view.order):
            return first
        alike = all(_reading(one) == _reading(first) for one, _ in looks)
        sure = any(one.estimator is None for one, _ in looks)
        nets = nn.ModuleList(dict.fromkeys(one.net for one, _ in looks))
        return cls(nets, first.estimator if alike else None if sure else Softmax(), tuple(looks), alike)

    def infer(self, image: Tensor) -> dict[str, Tensor]:
        """The mean of soft maps, each brought back from its view."""
        total: dict[str, Tensor] = {}
        for one, view in self.looks:
            seen = torch.empty_like(image).copy_(view.apply(image))  # in the layout in memory that the image has
            maps = one.infer(seen) if self.alike else {"main": one(seen).probabilities}
            for name, values in maps.items():
                back = view.undo(values) / len(self.looks)
                total[name] = total[name] + back if name in total else back
        return total

    def decide(self, maps: Maps) -> Prediction:
        """As each would alone, or by the softmax of the mean."""
        return self.looks[0][0].decide(maps) if self.alike else super().decide(maps)


def _reading(segmenter: Segmenter) -> tuple[Any, ...]:
    """What decides which maps there are, and how regions are read from them."""
    return type(segmenter), segmenter.estimator


def symmetries(augment: Augment, window: tuple[int, ...]) -> tuple[Orientation, ...]:
    """Of an image's views in training those that move voxels onto voxels, the image itself first.

    They are mirrorings of the first two axes, where training mirrored, and quarter turns in their plane, where it turned
    and the window's sides there are equal. Others are not taken: a network that never saw the left side on the right, or
    the feet above, was not taught what to say there. The third axis is never mirrored in training.
    """
    plane, others = (0, 1), tuple(range(2, len(window)))
    mirrored, turned = (trained and augment.upright < 1 for trained in (augment.flip, augment.turns))

    def shown(swapped: bool, mirror: tuple[int, ...]) -> bool:
        handed = (swapped + len(mirror)) % 2 == 0  # left stays left: a turn
        square = window[0] == window[1]
        return (mirrored or handed) and (turned and square if swapped else mirrored or turned or not mirror)

    views = product((False, True), ((), (0,), (1,), plane))
    return tuple(
        Orientation((*(plane[::-1] if swapped else plane), *others), mirror)
        for swapped, mirror in views
        if shown(swapped, mirror)
    )
