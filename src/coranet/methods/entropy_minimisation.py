"""Entropy minimisation (Grandvalet & Bengio, NIPS 2004), for segmentation as MinEnt (Vu et al., CVPR 2019).

    L = L_sup(x_l, y_l) + λ w(t) · mean over pixels of -Σ_k p_k(x_u) log p_k(x_u) / log K

w(t) = exp(-5 (1 - t/T)²). Divided by log K the entropy of a pixel lies between 0 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from coranet.methods.base import Method
from coranet.ops.entropy import entropy
from coranet.ops.losses import masked_mean, probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class EntropyMinimisation(Method):
    """Predictions of unlabelled images are made more confident."""

    paper: ClassVar[str] = "Grandvalet & Bengio, NIPS 2004"
    high: ClassVar[str] = "entropy minimisation"
    low: ClassVar[str] = "entropy minimisation"

    weight: float = 0.1
    """λ, of the entropy; 0.1 is usual in the field."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and the entropy of unlabelled images."""
        terms = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=terms)
        p, valid = probabilities(nets["student"](batch.unlabelled.image)["main"]), batch.unlabelled.valid
        terms["entropy"] = masked_mean(entropy(p) / math.log(p.shape[1]), valid)
        return Terms(values=terms, weights={"entropy": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})
