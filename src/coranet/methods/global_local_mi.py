"""Boosting with global and local mutual information (Peng, Pedersoli & Desrosiers, MELBA 2021).

Linear heads sort features into clusters: h_g the mean of the coarsest level, h_l every place of the decoder's last two
features. With I the information that one view's clusters have of the other's (`ops/information.py`) and T a mirroring,

    L = L_sup - λ · ½ (I_g + mean over l of I_l) + μ · mean over pixels of ‖T⁻¹ p(T(x_u)) - p(x_u)‖²
    I_g over images, I_l over places with displacements of up to 1 voxel at half size and 3 at full size

There are several heads of each kind, which start differently; their I are averaged. As in the authors' code both views
learn from I, the plain answer is the target of the squares, and no weight grows. Their μ = 5 with a mean over four classes
is 1.25 with our sum. Places outside the image are left out of all means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coranet.methods.mi_mse import MutualInformationMSE
from coranet.methods.taps import PointHeads, features_inside, widths_inside
from coranet.nets import Feature, MakeNet, body_of
from coranet.ops.information import global_information, local_information
from coranet.ops.losses import at_least_fp32, probabilities
from coranet.ops.views import draw_symmetry
from coranet.types import Nets, Progress, Sample, Terms, Update

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class GlobalLocalInformation(MutualInformationMSE):
    """Clusters of features, of whole images and of places, survive mirroring."""

    paper: ClassVar[str] = "Peng et al., MELBA 2021"

    clusters: int = 20
    """K of every head."""
    sub_heads: int = 5
    """Heads of each kind."""
    padding: int = 3
    """The largest displacement in voxels at full size; half of it, rounded down, at half size."""

    @property
    def needs(self) -> frozenset[Feature]:
        """The coarsest level, and the decoder's last two."""
        return frozenset({"levels"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A network, and its cluster heads: one convolution for all sub-heads of a feature."""
        student = make_net()
        widths = taken(widths_inside(student, make_net))
        return {"student": student, "clusters": PointHeads(make_net.dims, widths, self.clusters * self.sub_heads)}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """The cluster heads learn with the network."""
        return (Update(name="both", loss=self.loss, trains=("student", "clusters")),)

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """Minus the information, and consistency."""
        student, count = body_of(nets), len(sample.image)
        view = draw_symmetry(sample.image, mirror=self.mirror)
        features = features_inside(student, torch.cat([sample.image, view.apply(sample.image)]))
        plain, seen = probabilities(student.heads["main"](features[-1])).chunk(2)
        # Back from the view first: the heads look at each place alone, and places are what is compared.
        aligned = [torch.cat([x[:count], view.undo(x[count:])]) for x in taken(features)]
        inside = [resized(sample.valid, x) for x in aligned]
        aligned[0] = pooled(aligned[0], inside[0].repeat(2, *[1] * (sample.valid.ndim - 1)))
        whole, *local = (self.assignments(logits) for logits in nets["clusters"](aligned))
        of_images = [global_information(p.flatten(1), q.flatten(1)) for p, q in whole]
        of_places = [
            local_information(p, q, valid, padding=self.padding >> halvings, patch=self.patch)
            for halvings, (heads, valid) in enumerate(zip(reversed(local), reversed(inside), strict=False))
            for p, q in heads
        ]
        information = (torch.stack(of_images).mean() + torch.stack(of_places).mean()) / 2
        return Terms(values={"information": -information, **self.agreement(plain, view.undo(seen), sample.valid)})

    def assignments(self, logits: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Probabilities of clusters in both views, two `(B, K, *s)` for each sub-head."""
        heads = [probabilities(part) for part in logits.chunk(self.sub_heads, dim=1)]
        return [(p[: len(p) // 2], p[len(p) // 2 :]) for p in heads]


def taken(features: list[T]) -> list[T]:
    """The coarsest level and the decoder's last two features, or its only one."""
    return [features[0], *features[1:][-2:]]


def resized(valid: Tensor, feature: Tensor) -> Tensor:
    """`(B, *S)` bool at the size of a feature."""
    return F.interpolate(valid.unsqueeze(1).to(torch.float32), size=feature.shape[2:], mode="nearest").squeeze(1) > 0


def pooled(feature: Tensor, valid: Tensor) -> Tensor:
    """Mean over valid places, `(B, F, *s)` to `(B, F, 1, ..)`."""
    inside, axes = valid.unsqueeze(1).to(torch.float32), tuple(range(2, feature.ndim))
    total = (at_least_fp32(feature) * inside).sum(dim=axes, keepdim=True)
    return total / inside.sum(dim=axes, keepdim=True).clamp(min=1)
