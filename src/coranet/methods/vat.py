"""Virtual adversarial training (Miyato et al., IEEE TPAMI 2018), for segmentation.

    L = L_sup + λ w(t) · mean over pixels of KL(p(x_u) ‖ p(x_u + r_adv))
    r_adv = ε g / ‖g‖,  g = ∇_r KL(p(x_u) ‖ p(x_u + r)) at r = ξ d, d a random unit vector

p(x_u) is a target and gets no gradient. Neither the pass that finds r_adv nor the one that is trained on moves running
statistics; the one on x_u does, as in the public implementations.

Those take ξ = 10 and ε = 6 for images of 256² pixels and for volumes of a million voxels alike, though a vector of one
length moves each of a million voxels by a quarter as much. Here both are lengths for 256² values and grow with the root of
their number, so that a voxel of any image is moved by about 0.02 standard deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.methods.base import Method
from coranet.ops.adversarial import adversarial_direction
from coranet.ops.entropy import kl_divergence
from coranet.ops.losses import masked_mean, probabilities
from coranet.ops.passes import frozen_statistics
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class VAT(Method):
    """Predictions hold in the direction in which they would change most."""

    paper: ClassVar[str] = "Miyato et al., TPAMI 2018"
    high: ClassVar[str] = "consistency + adversarial"
    low: ClassVar[str] = "consistency + adversarial"

    weight: float = 1.0
    """λ, of the consistency term."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    xi: float = 10.0
    """ξ, how far to look for the direction; a length for images of 256² values, in units of the scans' own spread."""
    epsilon: float = 6.0
    """ε, how far to go in it; a length likewise."""
    iterations: int = 1
    """Of the search for the direction."""

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and the change in the adversarial direction."""
        values = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        values["vat"] = self.change(nets, batch.unlabelled)
        return Terms(values=values, weights={"vat": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def change(self, nets: Nets, sample: Sample) -> Tensor:
        """KL between the prediction and that of the adversarial image."""
        image, valid = sample.image, sample.valid
        with torch.no_grad():
            target = probabilities(nets["student"](image)["main"])

        def distance(perturbation: Tensor) -> Tensor:
            p = probabilities(nets["student"](image + perturbation * valid.unsqueeze(1))["main"])
            return masked_mean(kl_divergence(target, p), valid)

        scale = sample.unit * math.sqrt(image[0].numel()) / 256
        with frozen_statistics(nets["student"]):
            start = torch.randn_like(image)
            direction = adversarial_direction(distance, start, self.xi * scale, iterations=self.iterations)
            return distance(self.epsilon * scale * direction)
