"""Uncertainty rectified pyramid consistency, URPC (Luo et al., MICCAI 2021; Medical Image Analysis 2022).

Heads at S scales of the decoder, their logits up-sampled to full size, give p_1 .. p_S with mean p̄. On unlabelled images

    D_s = KL(p̄ ‖ p_s)                                                                 at every pixel
    L = L_sup + λ w(t) · mean over s of ( Σ_z e^(-D_s) ‖p_s - p̄‖² / Σ_z e^(-D_s) + mean over pixels of D_s )

Sums go over the batch. L_sup is the mean over scales. As in the authors' code gradients flow through p̄ and D_s too, there
are three scales beside the full one, and the head at full size predicts. Their squares are means over classes, ours the
sums of the text. Dropout and noise before the coarser heads, which one of their networks has, are left out. A network with
fewer decoder levels takes its coarsest encoder level as a scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.methods.taps import PointHeads, features_inside, widths_inside
from coranet.nets import Feature, MakeNet, body_of
from coranet.nets.layers import upsample_to
from coranet.ops.entropy import kl_divergence
from coranet.ops.features import weighted_mean
from coranet.ops.losses import masked_mean, probabilities, squared_difference
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms, Update


@dataclass(frozen=True, kw_only=True)
class PyramidConsistency(Method):
    """Heads at several scales agree with their mean, less where they are far from it."""

    paper: ClassVar[str] = "Luo et al., MICCAI 2021"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency + entropy minimisation"

    weight: float = 0.1
    """λ, of the rectified consistency."""
    ramp: float = 1.0
    """Share of the run over which the weight grows."""
    scales: int = 3
    """Coarser than the image; as many as the network has, at most."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Features of several sizes."""
        return frozenset({"levels"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A network, and the heads of its coarser scales."""
        student = make_net()
        widths = widths_inside(student, make_net)[:-1][-self.scales :]
        return {"student": student, "pyramid": PointHeads(make_net.dims, widths, make_net.classes)}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Both at once."""
        return (Update(name="step", loss=self.loss, trains=("student", "pyramid")),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms of every scale, and rectified consistency."""
        each = [self.supervised_terms(logits, batch.labelled) for logits in self.pyramid(nets, batch.labelled.image)]
        values = {name: torch.stack([terms[name] for terms in each]).mean() for name in each[0]}
        if batch.unlabelled is None:
            return Terms(values=values)
        scales = [probabilities(logits) for logits in self.pyramid(nets, batch.unlabelled.image)]
        mean = torch.stack(scales).mean(dim=0)
        values["consistency"] = torch.stack([rectified(p, mean, batch.unlabelled.valid) for p in scales]).mean()
        return Terms(values=values, weights={"consistency": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def pyramid(self, nets: Nets, image: Tensor) -> list[Tensor]:
        """Logits of all scales at full size, `(B, K, *S)`, the coarsest first."""
        student = body_of(nets)
        features = features_inside(student, image)
        coarser = nets["pyramid"](features[:-1][-self.scales :])
        first = len(features) - 1 - len(coarser)
        for number, logits in enumerate(coarser):
            for finer in features[first + number + 1 :]:
                logits = upsample_to(logits, finer.shape[2:])
            coarser[number] = logits
        return [*coarser, student.heads["main"](features[-1])]


def rectified(p: Tensor, mean: Tensor, valid: Tensor) -> Tensor:
    """One scale's term: two `(B, K, *S)` and `(B, *S)` to a scalar."""
    far = kl_divergence(mean, p)
    return weighted_mean(squared_difference(p, mean), torch.exp(-far), valid) + masked_mean(far, valid)
