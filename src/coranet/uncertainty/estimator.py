"""The contract of an estimator of uncertainty.

An estimator is a value. It names the heads, the dropout and the networks it needs, adds its own losses where it has some,
says of an image soft maps that may be averaged over windows, and reads regions from them at the very end: what is soft is
blended, what is hard is decided last.

Only `judge` has to be written: `Regions(certain, score)`, no certain voxel with a larger score than an uncertain one.
A field `threshold` is a confidence, certain where 1 - score exceeds it, unless `of_score` says that it is one of the score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from coranet.nets import Body, Feature, MakeNet
from coranet.ops.losses import probabilities
from coranet.types import Nets, Regions, Update


@dataclass(frozen=True, kw_only=True)
class Estimator(ABC):
    """From a network and an image to certain and uncertain regions."""

    rule: ClassVar[str] = ""
    """Where a voxel is uncertain, said of the maps for who reads them with other programs: it follows "where". One that
    draws at random has none, and cannot be exported."""
    of_score: ClassVar[bool] = False
    """Whether a field `threshold` is one of the score: uncertain above it."""

    # What it needs

    @property
    def needs(self) -> frozenset[Feature]:
        """What a body must have for it, beyond an image in and logits out."""
        return frozenset()

    @property
    def dropout(self) -> float:
        """Rate of the dropout that the network is trained with."""
        return 0.0

    def heads(self, classes: int) -> dict[str, int]:
        """Heads beside `main`, and how many outputs each has."""
        return {}

    def networks(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Networks of its own beside the one that predicts, by name."""
        return {}

    # What is learnt

    def losses(self, logits: Mapping[str, Tensor], label: Tensor) -> dict[str, Tensor]:
        """Voxel-wise losses of its heads on labelled images, `(B, *S)` each."""
        return {}

    def updates(self) -> tuple[Update, ...]:
        """The optimizer steps of its own networks, once a training step."""
        return ()

    # What is said

    def join(self, net: Body, nets: Nets) -> Body:
        """What `infer` is given: the network that predicts, together with networks of its own."""
        return net

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """Soft maps `(B, M, *S)` by name; `main` holds the probabilities the label is read from."""
        return {"main": probabilities(net(image, ("main",))["main"])}

    @abstractmethod
    def judge(self, maps: Mapping[str, Tensor]) -> Regions:
        """Decide, from soft maps, what is certain."""
