"""Deep adversarial networks for biomedical image segmentation with unannotated images (Zhang et al., MICCAI 2017).

A critic is shown an image with its segmentation and tells labelled images from unlabelled ones, by the quality of what was
segmented; the segmenter learns to be taken for labelled on unlabelled images:

    m(x) = (p(x), x)        L_f = L_sup + λ w(t) · BCE(D(p(x_u), x_u), 1)

The weight λ = 0.1, its growth over the whole run, the critic's dropout and the order of updates are those of the field's
common implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.methods.critics import Adversarial
from coranet.nets import MakeNet
from coranet.ops.losses import probabilities


@dataclass(frozen=True, kw_only=True)
class DAN(Adversarial):
    """A critic of image and segmentation cannot tell unlabelled images from labelled ones."""

    paper: ClassVar[str] = "Zhang et al., MICCAI 2017"
    high: ClassVar[str] = "adversarial"
    low: ClassVar[str] = "adversarial"

    ramp: float = 1.0
    """Share of the run over which the weight grows."""
    critic_dropout: float = 0.5
    """Share of the critic's features that are dropped while it learns, after each convolution but the last."""

    def shown(self, logits: Mapping[str, Tensor], image: Tensor) -> Tensor:
        """(p, x)."""
        return torch.cat([probabilities(logits["main"]), image], dim=1)

    def shown_channels(self, make_net: MakeNet) -> int:
        """Classes and the image's own."""
        return make_net.classes + make_net.channels
