"""DMNet: difference minimisation network (Fang & Li, MICCAI 2020).

Two decoders on one encoder learn from each other: each should say of unlabelled images what the other says, made sharper,
which also lowers the entropy of both. A critic that is shown masks with their images tells labels from predictions, and
its confidence that a prediction is a label is raised:

    L_f = Σ_i L_sup(p_i) + λ w(t) ½ [KL(S(p₂) ‖ p₁) + KL(S(p₁) ‖ p₂)] + λ_D w(t) ½ Σ_i BCE(D(p_i(x_u), x_u), 1)
    S(p)_k = p_k^(1/T) / Σ_j p_j^(1/T), T = 0.5,  without gradient
    L_D = ½ [BCE(D(y_l, x_l), 1) + mean over i of BCE(D(p_i, x), 0)]

There is no released code. What the text leaves open is chosen here: the two weights, a critic that answers once for an
image, predictions on labelled images among its examples, lest it tell images rather than masks, and decoders that up-sample
in different ways. The first decoder predicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.dan import DAN
from coranet.nets import Feature, MakeNet
from coranet.ops.adversarial import belief
from coranet.ops.entropy import kl_divergence
from coranet.ops.losses import masked_mean, one_hot, probabilities
from coranet.ops.mixing import sharpen
from coranet.types import Batch, Nets, Progress, Sample, Terms

HEADS = ("main", "second")


@dataclass(frozen=True, kw_only=True)
class DMNet(DAN):
    """Two decoders agree on unlabelled images, and a critic takes what they say for labels."""

    paper: ClassVar[str] = "Fang & Li, MICCAI 2020"
    high: ClassVar[str] = "consistency + entropy minimisation + adversarial"
    low: ClassVar[str] = "consistency + entropy minimisation + adversarial"

    weight: float = 0.01
    """λ_D, of the segmenter's adversarial term."""
    ramp: float = 0.3
    """Share of the run over which the weights grow."""
    critic_dropout: float = 0.0
    """Share of the critic's features that are dropped while it learns, after each convolution but the last."""
    agreement: float = 1.0
    """λ, of what the decoders learn from each other."""
    temperature: float = 0.5
    """T, of sharpening."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise InputError(f"The temperature of sharpening is larger than 0, not {self.temperature}.")

    @property
    def needs(self) -> frozenset[Feature]:
        """A second decoder."""
        return frozenset({"decoders"})

    def make_student(self, make_net: MakeNet) -> nn.Module:
        """One encoder, two decoders."""
        return make_net(dict.fromkeys(HEADS, make_net.classes), decoders={"second": "other"})

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_f."""
        logits = nets["student"](batch.labelled.image)
        values = self.supervised_terms(logits["main"], batch.labelled)
        second = self.supervised_terms(logits["second"], batch.labelled)
        values |= {f"second_{name}": value for name, value in second.items()}
        if batch.unlabelled is None:
            return Terms(values=values)
        logits = nets["student"](batch.unlabelled.image)
        values["agreement"] = self.difference(logits, batch.unlabelled.valid)
        values["adversarial"] = belief(nets["critic"].eval()(self.inside(logits, batch.unlabelled)), 1)
        weights = {"agreement": self.grown(self.agreement, at), "adversarial": self.grown(self.weight, at)}
        return Terms(values=values, weights=weights)

    def difference(self, logits: Mapping[str, Tensor], valid: Tensor) -> Tensor:
        """Of each decoder to what the other says, sharpened."""
        first, second = (probabilities(logits[head]) for head in HEADS)
        there = kl_divergence(sharpen(second.detach(), self.temperature), first)
        back = kl_divergence(sharpen(first.detach(), self.temperature), second)
        return masked_mean((there + back) / 2, valid)

    def examples(self, nets: Nets, batch: Batch) -> Sequence[tuple[Tensor, float]]:
        """Labels are what they should be, predictions are not. Where nobody drew, the first decoder stands in."""
        sample = batch.labelled
        assert sample.label is not None
        samples = [sample] + ([batch.unlabelled] if batch.unlabelled else [])
        predicted = [self.inside(nets["student"](one.image), one) for one in samples]
        classes = predicted[0].shape[1] - sample.image.shape[1]
        said = predicted[0][: len(sample.image), :classes]
        label = torch.where(sample.valid.unsqueeze(1), one_hot(sample.label, classes), said)
        true = torch.cat([label, sample.image], dim=1) * sample.inside.unsqueeze(1)
        return [(true, 1.0), (torch.cat(predicted), 0.0)]

    def inside(self, logits: Mapping[str, Tensor], sample: Sample) -> Tensor:
        """The masks of one decoder after those of the other, each with its image: `(2 B, K + C, *S)`."""
        return torch.cat([super(DMNet, self).inside({"main": logits[head]}, sample) for head in HEADS])
