"""ADVENT: adversarial entropy minimisation (Vu et al., CVPR 2019), from labelled to unlabelled images.

The critic is shown weighted self-information alone, whose sum over classes is the normalised entropy. Unlabelled images
come to look as sure as labelled ones, in the same places:

    m(x)_k = -p_k log₂ p_k / log₂ K        L_f = L_sup + λ · BCE(D(m(x_u)), 1)

The paper adapts between domains, source being what is labelled here; its λ = 0.001 does not grow. Its critic answers for
every place of an image and is trained by the mean over places; ours answers once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coranet.methods.critics import Adversarial
from coranet.nets import MakeNet
from coranet.ops.entropy import log
from coranet.ops.losses import probabilities


@dataclass(frozen=True, kw_only=True)
class Advent(Adversarial):
    """A critic of entropy maps cannot tell unlabelled images from labelled ones."""

    paper: ClassVar[str] = "Vu et al., CVPR 2019"
    high: ClassVar[str] = "adversarial + entropy minimisation"
    low: ClassVar[str] = "adversarial + entropy minimisation"

    weight: float = 0.001
    """λ, of the segmenter's adversarial term."""
    ramp: float = 0.0
    """Share of the run over which the weight grows."""

    def shown(self, logits: Mapping[str, Tensor], image: Tensor) -> Tensor:
        """-p log p / log K."""
        p = probabilities(logits["main"])
        return -p * log(p) / math.log(p.shape[1])

    def shown_channels(self, make_net: MakeNet) -> int:
        """One for each class."""
        return make_net.classes
