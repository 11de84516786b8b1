"""Temporal ensembling (Laine & Aila, ICLR 2017), for segmentation.

    L = L_sup + λ w(t) · mean over pixels of ‖p(x_u + n) - z̃‖²,   z̃ = Z / N
    Z ← α Z + (1 - α) p,   N ← α N + (1 - α)                      once a step sees the voxel, after its loss

Z averages past predictions, each voxel in its image's own space through the inverse of the view it was seen in, and is read
through the next view, so that target and prediction always lie on each other. The paper divides by the start-up bias
1 - αᵗ after t epochs; N is that number for every voxel, also where random windows have seen some voxels more often than
others. What was never seen has no target and adds nothing, as in the paper's first epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from coranet.methods.consistency import Consistency
from coranet.nets import Feature, MakeNet
from coranet.ops.losses import masked_mean, probabilities, squared_difference
from coranet.ops.perturbation import gaussian_noise
from coranet.types import Nets, Progress, Sample, Terms, Trace

LEAST = 1e-3
"""The smallest N that is divided by; after one look N is 1 - α."""


@dataclass(frozen=True, kw_only=True)
class TemporalEnsembling(Consistency):
    """A network agrees with the average of its own past predictions of unlabelled images."""

    paper: ClassVar[str] = "Laine & Aila, ICLR 2017"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    alpha: float = 0.6
    """How slowly past predictions are forgotten."""
    noise: float = 0.15
    """Standard deviation of the noise, in units of the scans' own spread."""
    dropout: float = 0.5
    """Rate of dropout in training."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Dropout, if any."""
        return frozenset({"dropout"}) if self.dropout else frozenset()

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One network, whose dropout and noise the average evens out."""
        return {"student": make_net(dropout=self.dropout)}

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance to what is kept, which is then renewed."""
        p = probabilities(nets["student"](gaussian_noise(sample.image, self.noise * sample.unit))["main"])
        now = torch.cat([p, torch.ones_like(p[:, :1])], dim=1).detach()
        kept = sample.maps.get("ensemble", torch.zeros_like(now))
        past, count = kept[:, :-1], kept[:, -1:]
        difference = squared_difference(p, past / count.clamp(min=LEAST))
        return Terms(
            values={"consistency": masked_mean(difference, sample.valid, region=count.squeeze(1) > LEAST)},
            traces={"ensemble": Trace(values=now, decay=self.alpha)},
        )
