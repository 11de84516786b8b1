"""Aleatoric uncertainty: logits with a learnt spread (Kendall & Gal, NIPS 2017, section 3), as in the paper's section IV-D.

Two heads give the mean f and the logarithm of the standard deviation σ of every logit. With T draws ε_t from N(0, 1),

    p_t = softmax(f + σ ε_t),   L = -log 1/T Σ_t p_t,y                    on labelled images, at every pixel
    certain where max_k std_t(p_t,k) < threshold

The label is the main head's, as for the conservative-radical module. T is 20 in 2D and 10 in 3D. With two classes both have
the same std, which the paper compares with 0.001. In its released code the mask was computed and then not used: the loss
was a mean over all voxels before it was masked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.ops.losses import at_least_fp32, cross_entropy, probabilities
from coranet.types import Regions
from coranet.uncertainty.estimator import Estimator

DRAWS = {2: 20, 3: 10}
"""The paper's T, by the axes of space."""


@dataclass(frozen=True, kw_only=True)
class Aleatoric(Estimator):
    """Certain is where probabilities hardly move when logits are drawn from what two heads have learnt."""

    of_score: ClassVar[bool] = True

    threshold: float = 0.001
    """Of the largest standard deviation over draws of any class's probability."""
    draws: int | None = None
    """T; by default 20 in 2D and 10 in 3D."""

    def __post_init__(self) -> None:
        if self.threshold <= 0 or (self.draws is not None and self.draws < 2):
            raise InputError(f"Aleatoric uncertainty takes a threshold above 0 and at least two draws: {self}.")

    def heads(self, classes: int) -> dict[str, int]:
        """Mean and log σ of each class's logit."""
        return {"mean": classes, "spread": classes}

    def losses(self, logits: Mapping[str, Tensor], label: Tensor) -> dict[str, Tensor]:
        """L: the logarithm is taken of the mean, not the mean of logarithms."""
        right = torch.stack([-cross_entropy(drawn, label) for drawn in self.sample(logits)])
        return {"aleatoric": math.log(len(right)) - torch.logsumexp(right, dim=0)}

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """The main head's probabilities, and each class's std over draws, `(B, K, *S)`."""
        logits = net(image, ("main", "mean", "spread"))
        drawn = torch.stack([probabilities(one) for one in self.sample(logits)])
        return {"main": probabilities(logits["main"]), "std": drawn.std(dim=0, correction=0)}

    def judge(self, maps: Mapping[str, Tensor]) -> Regions:
        """The score is the std itself."""
        std = maps["std"].amax(dim=1)
        return Regions(certain=std < self.threshold, score=std)

    def sample(self, logits: Mapping[str, Tensor]) -> Iterator[Tensor]:
        """Draws f + σ ε_t, T of them, `(B, K, *S)` each."""
        mean, spread = at_least_fp32(logits["mean"]), at_least_fp32(logits["spread"]).exp()
        for _ in range(self.draws or DRAWS[mean.ndim - 2]):
            yield mean + spread * torch.randn_like(mean)
