"""Semi-supervised semantic segmentation with cross pseudo supervision (Chen et al., CVPR 2021).

Two networks of one kind, f₁ and f₂, start from different weights and label unlabelled images for each other:

    ŷ_i = argmax_k p_ik(x_u)
    L = CE(f₁(x_l), y_l) + CE(f₂(x_l), y_l) + λ w(t) · mean over pixels of [CE(f₁(x_u), ŷ₂) + CE(f₂(x_u), ŷ₁)]

No gradient flows through ŷ. The paper also lets the two teach each other on labelled images and weighs by 1.5 or 6 from the
first step; medical code (SSL4MIS) leaves labelled images out and takes λ = 0.1 with a ramp, as here. The first predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from coranet.methods.base import Method
from coranet.nets import MakeNet
from coranet.ops.losses import cross_entropy, masked_mean
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import share
from coranet.types import Batch, Nets, Progress, Terms, Update

NAMES = ("student", "second")


@dataclass(frozen=True, kw_only=True)
class CPS(Method):
    """Two networks, each trained on the labels the other gives to unlabelled images."""

    paper: ClassVar[str] = "Chen et al., CVPR 2021"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "pseudo-labels"

    weight: float = 0.1
    """λ, of the cross term; the field's usual value."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Two of one kind, each with its own first weights."""
        return {name: make_net() for name in NAMES}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Both at once."""
        return (Update(name="step", loss=self.loss, trains=NAMES),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms of both, and each one's cross-entropy to the other's labels."""
        labelled = [self.supervised_terms(nets[name](batch.labelled.image)["main"], batch.labelled) for name in NAMES]
        values = labelled[0] | {f"second_{name}": value for name, value in labelled[1].items()}
        if batch.unlabelled is None:
            return Terms(values=values)
        image, valid = batch.unlabelled.image, batch.unlabelled.valid
        first, second = (nets[name](image)["main"] for name in NAMES)
        their_labels = second.detach().argmax(dim=1), first.detach().argmax(dim=1)
        for name, logits, label in zip(("cross", "second_cross"), (first, second), their_labels, strict=True):
            values[name] = masked_mean(cross_entropy(logits, label), valid)
        weight = self.weight * gaussian_ramp(at.step, self.ramp * at.steps)
        agreed = their_labels[0] == their_labels[1]
        return Terms(
            values=values,
            weights={"cross": weight, "second_cross": weight},
            measures={"agreed_share": share(agreed, valid)},
        )
