"""Transformation consistency: the row `Cons. Reg.` of Peng et al. (MIDL 2020; journal version IEEE TMI 2021).

    L = L_sup + λ · mean over pixels of ‖p(T(x_u)) - T(p(x_u))‖²,   no gradient into T(p(x_u))

T mirrors each of two axes four times in five, each image in its own way. As in the authors' code both answers are one
network's, from one pass of images and views together, the second is a target, and the weight does not grow. Their 5 times
the mean over the four classes of ACDC is our 1.25 times the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coranet.methods.consistency import Consistency, mean_difference
from coranet.ops.losses import probabilities
from coranet.ops.views import draw_symmetry
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class TransformConsistency(Consistency):
    """A network's answer to a mirrored image is its answer to the image, mirrored."""

    paper: ClassVar[str] = "Peng et al., MIDL 2020"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    weight: float = 1.25
    """λ."""
    ramp: float = 0.0
    """Share of the run over which the weight grows."""
    mirror: float = 0.8
    """How often each of the first two axes is mirrored. Not for data where left and right are classes of their own."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance to the view of the answer."""
        view = draw_symmetry(sample.image, mirror=self.mirror)
        both = torch.cat([sample.image, view.apply(sample.image)])
        plain, of_view = probabilities(nets["student"](both)["main"]).chunk(2)
        target, valid = view.apply(plain.detach()), view.apply(sample.valid)
        return Terms(values={"consistency": mean_difference(of_view, target, valid)})
