"""Monte Carlo dropout (Gal & Ghahramani, ICML 2016), as in the paper's section IV-D.

    p = 1/T Σ_t softmax f(x; dropped channels ξ_t),   certain where max_k p_k > threshold

Dropout of rate 0.5 is on the coarsest feature and on the last, in training as in the T = 50 passes. Probabilities are
averaged; the paper's released code averaged logits, of which one confident pass outweighs many that doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from coranet.errors import InputError
from coranet.nets import Feature
from coranet.ops.losses import probabilities
from coranet.ops.passes import dropout_on
from coranet.uncertainty.softmax import Softmax


@dataclass(frozen=True, kw_only=True)
class MCDropout(Softmax):
    """Certain is where the mean over passes with dropout is confident."""

    rule: ClassVar[str] = ""

    threshold: float = 0.8
    """Between 0 and 1."""
    passes: int = 50
    """Draws of dropout for each image."""
    rate: float = 0.5
    """Share of values that are dropped, of channels in volumes under instance norm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passes < 1 or not 0 < self.rate < 1:
            raise InputError(f"Monte Carlo dropout takes at least one pass and a rate between 0 and 1: {self}.")

    @property
    def needs(self) -> frozenset[Feature]:
        """Dropout."""
        return frozenset({"dropout"})

    @property
    def dropout(self) -> float:
        """In training too."""
        return self.rate

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """The mean of probabilities over draws; norms keep their statistics."""
        with dropout_on(net):
            total = probabilities(net(image, ("main",))["main"])
            for _ in range(self.passes - 1):
                total = total + probabilities(net(image, ("main",))["main"])
        return {"main": total / self.passes}
