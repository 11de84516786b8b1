"""Mutual consistency network, MC-Net (Wu et al., MICCAI 2021).

Two decoders A and B on one encoder, which up-sample in different ways. On labelled and unlabelled images alike,

    s(p)_k = p_k^(1/T) / (p_k^(1/T) + (1 - p_k)^(1/T))
    L = ½ (L_sup(A) + L_sup(B)) + λ w(t) · mean over pixels of 1/K ( ‖p_A - s(p_B)‖² + ‖p_B - s(p_A)‖² )

s(p) is a soft pseudo-label, sharpened class by class: of more than two classes, one above ½ is brought to 1, and where none
is, all are brought to 0, so that a pixel nobody is sure of gets no label. In the authors' code gradients flow through it as
well; the text speaks of a label, and here it is fixed unless `live` is set. λ and its growth are those of their volumes of
two classes; on cardiac slices of four they take λ = 0.1 and let it grow for the whole run. Their tests report both the
first decoder and the mean of both; checkpoints are chosen by the first, which predicts here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.methods.consistency import mean_difference
from coranet.methods.segmenter import Segmenter
from coranet.nets import Feature, MakeNet
from coranet.ops.losses import probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms

BOTH = ("main", "second")


@dataclass(frozen=True, kw_only=True)
class MutualConsistency(Method):
    """Two different decoders each learn from the other's sharpened answer."""

    paper: ClassVar[str] = "Wu et al., MICCAI 2021"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency + entropy minimisation"

    weight: float = 1.0
    """λ, of the mutual consistency; the authors take 0.1 on slices of four classes."""
    ramp: float = 0.4
    """Share of the run over which the weight grows."""
    temperature: float = 0.1
    """T of the sharpening."""
    live: bool = False
    """Let gradients through the sharpened answers, as the released code does."""
    predicts: Literal["main", "mean"] = "main"
    """The first decoder, or the mean of both."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Two decoders."""
        return frozenset({"decoders"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One encoder, two decoders, a head on each."""
        return {"student": make_net(dict.fromkeys(BOTH, make_net.classes), decoders={"second": "other"})}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Both decoders' supervised terms, and their consistency on all images."""
        samples = [batch.labelled] if batch.unlabelled is None else [batch.labelled, batch.unlabelled]
        logits = nets["student"](torch.cat([sample.image for sample in samples]))
        count = len(batch.labelled.image)
        each = [self.supervised_terms(logits[name][:count], batch.labelled) for name in BOTH]
        values = {name: (each[0][name] + each[1][name]) / 2 for name in each[0]}
        if batch.unlabelled is None:
            return Terms(values=values)
        valid = torch.cat([sample.inside for sample in samples])
        first, second = (probabilities(logits[name]) for name in BOTH)
        there = mean_difference(first, self.target(second), valid)
        back = mean_difference(second, self.target(first), valid)
        values["consistency"] = (there + back) / first.shape[1]
        return Terms(values=values, weights={"consistency": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def target(self, p: Tensor) -> Tensor:
        """The answer, each class of it sharpened against all others: `(B, K, *S)`."""
        odds = torch.logit(p if self.live else p.detach(), eps=1e-6)
        return torch.sigmoid(odds / self.temperature)

    def segmenter(self, nets: Nets, *, uncertainty: bool = True) -> Segmenter:
        """The first decoder, or both."""
        if self.predicts == "main":
            return super().segmenter(nets, uncertainty=uncertainty)
        return MeanOfDecoders(nets["student"], self.estimator if uncertainty else None)


class MeanOfDecoders(Segmenter):
    """Both decoders, each with the same say."""

    def infer(self, image: Tensor) -> dict[str, Tensor]:
        """The mean of both answers."""
        return {"main": torch.stack([probabilities(answer) for answer in self.net(image, BOTH).values()]).mean(dim=0)}
