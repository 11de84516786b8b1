"""What predicts: a network, and how its answers are read.

What is soft may be blended over windows (`infer`); what is hard is decided last (`decide`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from coranet.types import Prediction
from coranet.uncertainty import Estimator, Softmax


@dataclass(frozen=True)
class Segmenter:
    """A network, and the estimator that says which of its answers are uncertain."""

    net: nn.Module
    estimator: Estimator | None = None
    """None where nobody asks what is uncertain."""

    def __call__(self, image: Tensor) -> Prediction:
        """Of images `(B, C, *S)` that fit the network."""
        return self.decide(self.infer(image))

    def infer(self, image: Tensor) -> dict[str, Tensor]:
        """Soft maps of images `(B, C, *S)`, by name."""
        return (self.estimator or Softmax()).infer(self.net, image)

    def decide(self, maps: Mapping[str, Tensor]) -> Prediction:
        """From soft maps to probabilities and regions."""
        regions = None if self.estimator is None else self.estimator.judge(maps)
        return Prediction(probabilities=maps["main"], regions=regions)
