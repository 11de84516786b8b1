"""SASSNet: shape-aware semi-supervised 3D semantic segmentation (Li et al., MICCAI 2020).

A second head predicts signed distance maps S(x) of the objects, which hold their shape; a critic of those maps and the
image tells labelled images from unlabelled ones:

    L_sup = CE + β · mean (S(x_l) - SDM(y_l))²        S = tanh of the head, one for each object
    m(x) = (S(x), x)        L_f = L_sup + λ w(t) · BCE(D(S(x_u), x_u), 1)

SDM is the normalised signed distance of the released code (`ops/distance.py`), as are β = 0.3, λ = 0.01, its growth over
the whole run and the critic's dropout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.critics import Adversarial
from coranet.nets import MakeNet
from coranet.ops.distance import distance_error, distance_maps
from coranet.types import Sample


@dataclass(frozen=True, kw_only=True)
class SASSNet(Adversarial):
    """A critic of predicted distance maps cannot tell unlabelled images from labelled ones."""

    paper: ClassVar[str] = "Li et al., MICCAI 2020"
    high: ClassVar[str] = "adversarial"
    low: ClassVar[str] = "adversarial"

    weight: float = 0.01
    """λ, of the segmenter's adversarial term."""
    ramp: float = 1.0
    """Share of the run over which the weight grows."""
    critic_dropout: float = 0.5
    """Share of the critic's features that are dropped while it learns, after each convolution but the last."""
    beta: float = 0.3
    """Of the distance maps' error on labelled images."""

    def make_student(self, make_net: MakeNet) -> nn.Module:
        """A head for classes, and one for a distance map of each object."""
        return make_net({"main": make_net.classes, "distance": make_net.classes - 1})

    def shown(self, logits: Mapping[str, Tensor], image: Tensor) -> Tensor:
        """(S, x)."""
        return torch.cat([distance_maps(logits["distance"]), image], dim=1)

    def shown_channels(self, make_net: MakeNet) -> int:
        """Objects and the image's own channels."""
        return make_net.classes - 1 + make_net.channels

    def labelled_terms(self, logits: Mapping[str, Tensor], sample: Sample) -> dict[str, Tensor]:
        """L_sup."""
        assert sample.label is not None
        error = distance_error(distance_maps(logits["distance"]), sample.label, sample.valid)
        return {**self.supervised_terms(logits["main"], sample), "distance": self.beta * error}
