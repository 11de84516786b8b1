"""What methods with a critic D share: it tells what is from labelled images, and the segmenter learns to be taken for that.

    L_f = L_sup + λ w(t) · BCE(D(m(x_u)), 1)
    L_D = ½ [BCE(D(m(x_l)), 1) + BCE(D(m(x_u)), 0)]

m(x) are maps of an image that the critic is shown; each method says which. In every step the segmenter is updated first
and then the critic, each while the other is frozen. The critic looks at what the segmenter says in training, whose running
statistics a second look does not move. Dropout keeps it from knowing the few labelled images by heart, where a method's
authors have it; it is on while the critic learns and off while it judges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import Critic, MakeNet
from coranet.nets.layers import CHANNEL_DROPOUT
from coranet.ops.adversarial import belief
from coranet.ops.passes import frozen_statistics
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Sample, Terms, Update


@dataclass(frozen=True, kw_only=True)
class Adversarial(Method):
    """A segmenter against a critic."""

    weight: float = 0.1
    """λ, of the segmenter's adversarial term."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    critic_lr: float = 1e-4
    """The learning rate of the critic, whose optimizer is Adam whatever the run's: by SGD it would not learn."""
    critic_dropout: float = 0.0
    """Share of the critic's features that are dropped while it learns, after each convolution but the last."""

    @abstractmethod
    def shown(self, logits: Mapping[str, Tensor], image: Tensor) -> Tensor:
        """m(x), `(B, M, *S)`, of what the student says of an image."""

    @abstractmethod
    def shown_channels(self, make_net: MakeNet) -> int:
        """M."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The segmenter and its critic."""
        return {"student": self.make_student(make_net), "critic": self.make_critic(make_net)}

    def make_student(self, make_net: MakeNet) -> nn.Module:
        """The segmenter."""
        return make_net()

    def make_critic(self, make_net: MakeNet) -> Critic:
        """The critic."""
        critic = make_net.critic(self.shown_channels(make_net))
        if self.critic_dropout:
            for layer in [*critic.layers][:-1]:
                cast(nn.Sequential, layer).append(CHANNEL_DROPOUT[make_net.dims](self.critic_dropout))
        return critic

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """First the segmenter, then the critic."""
        critic = Update(
            name="critic", loss=self.critic_loss, trains=("critic",), optimizer="critic", adam=self.critic_lr
        )
        return (Update(name="segmenter", loss=self.loss), critic)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_f."""
        values = self.labelled_terms(nets["student"](batch.labelled.image), batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        logits = nets["student"](batch.unlabelled.image)
        judge = nets["critic"].eval()
        values["adversarial"] = belief(judge(self.inside(logits, batch.unlabelled)), 1)
        return Terms(values=values, weights={"adversarial": self.grown(self.weight, at)})

    def labelled_terms(self, logits: Mapping[str, Tensor], sample: Sample) -> dict[str, Tensor]:
        """L_sup."""
        return self.supervised_terms(logits["main"], sample)

    def critic_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_D, each kind of example counting alike."""
        with torch.no_grad(), frozen_statistics(nets["student"]):
            examples = self.examples(nets, batch)
        beliefs = [belief(nets["critic"](maps), truth) for maps, truth in examples]
        return Terms(values={"critic": torch.stack(beliefs).mean()})

    def examples(self, nets: Nets, batch: Batch) -> Sequence[tuple[Tensor, float]]:
        """Maps, and what the critic is told of them: 1 for labelled images, 0 for unlabelled ones."""
        kinds = [(batch.labelled, 1.0)] + ([(batch.unlabelled, 0.0)] if batch.unlabelled else [])
        return [(self.inside(nets["student"](sample.image), sample), truth) for sample, truth in kinds]

    def inside(self, logits: Mapping[str, Tensor], sample: Sample) -> Tensor:
        """m(x), and 0 outside the image. Where a labelled image is not drawn it is shown too: else that would tell it."""
        return self.shown(logits, sample.image) * sample.inside.unsqueeze(1)

    def grown(self, weight: float, at: Progress) -> Tensor:
        """λ w(t)."""
        return weight * gaussian_ramp(at.step, self.ramp * at.steps)
