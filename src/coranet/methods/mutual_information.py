"""Mutual information regularisation: the row `Mut. Info.` of Peng et al. (MIDL 2020).

    L = L_sup - λ · I(p(x_u), T⁻¹ p(T(x_u)))

I is the information that the class of a pixel in one answer has of the class, in the other, of the pixel itself and of its
neighbours up to `padding` away (`ops/information.py`). T mirrors each of two axes four times in five, each image in its own
way. As in the authors' code both answers come from one pass, both learn, and the weight does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.methods.consistency import Consistency
from coranet.ops.information import local_information
from coranet.ops.losses import probabilities
from coranet.ops.views import draw_symmetry
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class MutualInformation(Consistency):
    """What a network says of an image tells what it says of the mirrored one."""

    paper: ClassVar[str] = "Peng et al., MIDL 2020"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    weight: float = 0.1
    """λ, of the information."""
    ramp: float = 0.0
    """Share of the run over which the weight grows."""
    mirror: float = 0.8
    """How often each of the first two axes is mirrored. Not for data where left and right are classes of their own."""
    padding: int = 1
    """The largest displacement in voxels."""
    patch: int = 1024
    """Voxels along the side of the patches that have an information each."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """Minus the information, and what more is asked of the two answers."""
        view = draw_symmetry(sample.image, mirror=self.mirror)
        both = torch.cat([sample.image, view.apply(sample.image)])
        plain, seen = probabilities(nets["student"](both, ("main",))["main"]).chunk(2)
        back = view.undo(seen)
        found = local_information(plain, back, sample.valid, padding=self.padding, patch=self.patch)
        return Terms(values={"information": -found, **self.agreement(plain, back, sample.valid)})

    def agreement(self, plain: Tensor, back: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Further terms of the answers to the image and, mirrored back, to its view: two `(B, K, *S)` and `(B, *S)`."""
        return {}
