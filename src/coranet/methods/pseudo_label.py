"""Pseudo-label: the simple and efficient semi-supervised learning method (Lee, ICML workshop 2013), for segmentation.

    ŷ = argmax_k p_k(x_u)
    L = CE(f(x_l), y_l) + λ w(t) · mean over pixels of M · CE(f(x_u), ŷ),   M = 1[max_k p_k(x_u) > τ]

ŷ comes from the very pass that learns from it, and no gradient flows into it. The paper has no threshold (τ = 0 keeps every
pixel); later libraries gate by τ = 0.95. The paper's weight grows linearly, here w(t) = exp(-5 (1 - t/T)²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.ops.losses import cross_entropy, masked_mean, probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident, share
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class PseudoLabel(Method):
    """The network learns the class it already holds most likely in each unlabelled pixel."""

    paper: ClassVar[str] = "Lee, ICML workshop 2013"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "pseudo-labels"

    weight: float = 1.0
    """λ, of the pseudo-label term."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    threshold: float = 0.0
    """τ: pixels below this confidence are left out; 0 keeps all."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise InputError(f"A confidence threshold lies between 0 and 1, not at {self.threshold}.")

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and cross-entropy to the network's own labels."""
        values = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        valid, logits = batch.unlabelled.valid, nets["student"](batch.unlabelled.image)["main"]
        guessed = probabilities(logits.detach())
        kept = confident(guessed, self.threshold)
        values["pseudo"] = masked_mean(cross_entropy(logits, guessed.argmax(dim=1)), valid, region=kept)
        return Terms(
            values=values,
            weights={"pseudo": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)},
            measures={"kept_share": share(kept, valid)},
        )
