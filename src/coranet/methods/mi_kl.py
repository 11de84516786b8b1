"""Mutual information and transformation consistency by divergence: the row `KL` of Peng et al. (MIDL 2020).

    L = L_sup - λ · I(p(x_u), T⁻¹ p(T(x_u))) + μ · mean over pixels of KL(p(x_u) ‖ T⁻¹ p(T(x_u)))

The answer to the image itself is the target: no gradient flows into it from the divergence. The authors give a weight for
squares alone; with μ = 1 the divergence counts as much as the cross-entropy on labels.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coranet.methods.mi_mse import MutualInformationMSE
from coranet.ops.entropy import kl_divergence
from coranet.ops.losses import masked_mean


@dataclass(frozen=True, kw_only=True)
class MutualInformationKL(MutualInformationMSE):
    """Answers to an image and to its mirrored view are informative of one another, and diverge little."""

    consistency: float = 1.0
    """μ, of the consistency."""

    def agreement(self, plain: Tensor, back: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Mean divergence."""
        return {"consistency": masked_mean(kl_divergence(plain.detach(), back), valid)}
