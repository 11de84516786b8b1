"""UniMatch: revisiting weak-to-strong consistency in semi-supervised semantic segmentation (Yang et al., CVPR 2023).

FixMatch with two strong views A₁, A₂ of an image, and a third in which its features are changed: whole channels of every
level that the encoder gives are dropped, and the decoder must still say the same.

    q = p(x_u),   ŷ = argmax_k q_k,   M = 1[max_k q_k > τ]
    L = CE(f(x_l), y_l) + D(f(x_l), y_l)
      + λ [½ D_M(f(A₁(x_u)), ŷ) + ½ D_M(f(A₂(x_u)), ŷ) + D_M(g(drop(h(x_u))), ŷ)]

with f = g ∘ h. As in the authors' code for cardiac slices, D is Dice, D_M Dice over the kept pixels, and the weights are
those of that code, (½ (CE + D) + ¼ D₁ + ¼ D₂ + ½ D_drop) / 2, times 4. As there, x_l and x_u share one pass in training
mode, from which q comes too, without gradient, and all their features, as they are and dropped, share the decoder's batch
statistics. The boxes come from the same batch, there from one of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coranet.methods.fixmatch import FixMatch
from coranet.nets import Feature, body_of
from coranet.ops.features import drop_channels
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class UniMatch(FixMatch):
    """Confident labels are learnt from two strong views, and from features with whole channels dropped."""

    paper: ClassVar[str] = "Yang et al., CVPR 2023"

    dice: float = 1.0
    """Weight of a Dice term beside the cross-entropy on labelled images."""
    feature_dropout: float = 0.5
    """Share of channels that are dropped from each level."""
    agreement: Literal["dice", "ce"] = "dice"
    """What compares predictions with the kept labels: Dice as in the authors' medical code, or cross-entropy."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels between encoder and decoder."""
        return frozenset({"levels"})

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, two strong views and a view with dropped features."""
        student, sample = body_of(nets), batch.unlabelled
        if sample is None:
            return Terms(values=self.supervised_terms(student(batch.labelled.image)["main"], batch.labelled))
        count, total = len(batch.labelled.image), len(batch.labelled.image) + len(sample.image)
        levels = student.encode(torch.cat([batch.labelled.image, sample.image]))
        both = [torch.cat([level, drop_channels(level, self.feature_dropout)]) for level in levels]
        said = student.read(both)["main"]
        labelled, plain, feature = said[:count], said[count:total], said[total + count :]
        values = self.supervised_terms(labelled, batch.labelled)
        seen = probabilities(plain.detach())
        views = [self.changed(sample, seen) for _ in range(2)]
        logits = student(torch.cat([view.image for view in views]))["main"].chunk(2)
        strong = []
        for changed, view in zip(logits, views, strict=True):
            assert view.label is not None
            strong.append(self.disagreement(changed, view.label, view.maps["kept"], view.valid))
        values["strong"] = torch.stack(strong).mean()
        kept = confident(seen, self.threshold)
        values["feature"] = self.disagreement(feature, seen.argmax(dim=1), kept, sample.valid)
        weight = self.weight * gaussian_ramp(at.step, self.ramp * at.steps)
        return Terms(
            values=values,
            weights={"strong": weight, "feature": weight},
            measures={"kept_share": self.confident_share(sample, seen)},
        )

    def disagreement(self, logits: Tensor, label: Tensor, kept: Tensor, valid: Tensor) -> Tensor:
        """D_M."""
        if self.agreement == "dice":
            return soft_dice(probabilities(logits), label, kept & valid)
        return masked_mean(cross_entropy(logits, label), valid, region=kept)
