"""The contract of an estimator of uncertainty.

An estimator is a value. It names the heads it needs, adds its own loss where it has one, says of an image soft maps that may
be averaged over windows, and reads regions from them at the very end: what is soft is blended, what is hard is decided last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from coranet.nets import Body
from coranet.ops.losses import probabilities
from coranet.types import Regions


@dataclass(frozen=True, kw_only=True)
class Estimator(ABC):
    """From a network and an image to certain and uncertain regions."""

    def heads(self, classes: int) -> dict[str, int]:
        """Heads beside `main`, and how many outputs each has."""
        return {}

    def losses(self, logits: Mapping[str, Tensor], label: Tensor) -> dict[str, Tensor]:
        """Voxel-wise losses of those heads on labelled images, `(B, *S)` each."""
        return {}

    def infer(self, net: Body, image: Tensor) -> dict[str, Tensor]:
        """Soft maps `(B, M, *S)` by name; `main` holds the probabilities the label is read from."""
        return {"main": probabilities(net(image, ("main",))["main"])}

    @abstractmethod
    def regions(self, maps: Mapping[str, Tensor]) -> Regions:
        """Decide, from soft maps, what is certain."""
