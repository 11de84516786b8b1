"""Cross-consistency training, CCT (Ouali, Hudelot & Tami, CVPR 2020).

    z = E(x_u),  q = softmax(D(z)), no gradient
    L = L_sup + λ w(t) · mean over r of mean over pixels of ‖softmax(D_r(P_r(z))) - q‖²

Each auxiliary decoder D_r gets the encoder's features perturbed in its own way: multiplied by noise; with the most active
places, whole channels or a box of an object switched off; with all objects hidden, or all that is not one. They learn from
unlabelled images alone, and through them the encoder does; the main decoder D learns from labels alone. The authors' one
coarse feature is a list of levels here: all are perturbed, and each D_r is a decoder like D, as is usual on a U-Net. Their
perturbation by an adversarial direction is left out. Their weight, 30 times the mean over 21 classes, is 1.4 times the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.consistency import mean_difference
from coranet.nets import Feature, MakeNet, body_of
from coranet.ops.features import Perturbation, perturb_levels
from coranet.ops.losses import probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class CrossConsistency(Method):
    """Auxiliary decoders, fed perturbed features, agree with the main decoder."""

    paper: ClassVar[str] = "Ouali et al., CVPR 2020"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    weight: float = 1.4
    """λ, of the consistency term."""
    ramp: float = 0.1
    """Share of the run over which the weight grows."""
    perturbations: tuple[Perturbation, ...] = ("noise", "activation", "dropout", "cutout")
    """One auxiliary decoder for each; there are also objects and context."""

    def __post_init__(self) -> None:
        if not self.perturbations or len(set(self.perturbations)) < len(self.perturbations):
            raise InputError("perturbations names at least one, and none twice.")

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels to perturb and a decoder for each perturbation."""
        return frozenset({"levels", "decoders"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One network whose further heads sit on decoders of their own."""
        heads = dict.fromkeys(("main", *self.perturbations), make_net.classes)
        return {"student": make_net(heads, decoders=dict.fromkeys(self.perturbations, "own"))}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The main decoder's supervised terms, and the distance of the others to it."""
        student = body_of(nets)
        values = self.supervised_terms(student(batch.labelled.image, ("main",))["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        levels = student.encode(batch.unlabelled.image)
        with torch.no_grad():
            target = probabilities(student.read(levels, ("main",))["main"])
            objects = target.argmax(dim=1) > 0
        found = []
        for kind in self.perturbations:
            answer = probabilities(student.read(perturb_levels(levels, kind, objects), (kind,))[kind])
            found.append(mean_difference(answer, target, batch.unlabelled.valid))
        values["consistency"] = torch.stack(found).mean()
        return Terms(values=values, weights={"consistency": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})
