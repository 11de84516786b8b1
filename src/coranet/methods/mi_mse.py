"""Mutual information and transformation consistency by squares: the row `MSE` of Peng et al. (MIDL 2020).

    L = L_sup - λ · I(p(x_u), T⁻¹ p(T(x_u))) + μ · mean over pixels of ‖T⁻¹ p(T(x_u)) - p(x_u)‖²

The answer to the image itself is the target: no gradient flows into it from the squares. The authors' μ = 5 with a mean
over the four classes of ACDC is 1.25 with our sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from coranet.methods.consistency import mean_difference
from coranet.methods.mutual_information import MutualInformation
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class MutualInformationMSE(MutualInformation):
    """Answers to an image and to its mirrored view are informative of one another, and equal."""

    consistency: float = 1.25
    """μ, of the consistency."""

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Each term with its own weight."""
        terms = super().loss(nets, batch, at)
        return replace(terms, weights={**terms.weights, "consistency": self.consistency})

    def agreement(self, plain: Tensor, back: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Mean squared difference."""
        return {"consistency": mean_difference(back, plain.detach(), valid)}
