"""Deep co-training for semi-supervised image segmentation (Peng et al., Pattern Recognition 2020).

Two networks from different initialisations agree on unlabelled images, and are kept different: each should answer an image
made to fool the other as the other answers the clean one.

    L = Σ_i L_sup(p_i) + λ_js w(t) · JS(p₁(x_u), p₂(x_u)) + λ_adv w'(t) · mean over (i, j), x of KL(p_i(x) ‖ p_j(x + r_i))
    r_i = ε sign ∇_x CE(p_i(x), y),  y the label of x_l, and p_i's own of x_u

w grows over the first 50 of the paper's 120 epochs, w' from the 20th to the 50th; λ_js = 0.5, λ_adv = 0.05 and ε = 0.03 are
the released ones. p_i(x) is a target and gets no gradient. Its images lie between 0 and 1 and are clipped there; ours are
normalised, and are not. Adversarial images move no running statistics here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import Body, MakeNet, body_of
from coranet.ops.adversarial import fgsm
from coranet.ops.entropy import js_divergence, kl_divergence, log
from coranet.ops.losses import cross_entropy, masked_mean, probabilities
from coranet.ops.passes import frozen_statistics
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Sample, Terms, Update

PAIR = ("student", "second")


@dataclass(frozen=True, kw_only=True)
class DCTSeg(Method):
    """Two networks agree on unlabelled images, and on images made to fool one of them."""

    paper: ClassVar[str] = "Peng et al., Pattern Recognition 2020"
    high: ClassVar[str] = "consistency + adversarial"
    low: ClassVar[str] = "consistency + adversarial"

    weight: float = 0.5
    """λ_js, of agreement."""
    adversarial_weight: float = 0.05
    """λ_adv, of answers to the other's adversarial images."""
    adversarial_start: float = 1 / 6
    """Share of the run after which its weight begins to grow."""
    ramp: float = 0.4
    """Share of the run after which both weights are grown."""
    epsilon: float = 0.03
    """ε, by how much each pixel of an adversarial image differs, in intensities as they are: the authors' are in [0, 1]."""
    predicts: Literal["student", "mean"] = "student"
    """The first network, or the mean of both."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Two networks of one kind."""
        return {name: make_net() for name in PAIR}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Both at once."""
        return (Update(name="step", loss=self.loss, trains=PAIR),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        logits = {name: nets[name](batch.labelled.image)["main"] for name in PAIR}
        values = self.supervised_terms(logits["student"], batch.labelled)
        second = self.supervised_terms(logits["second"], batch.labelled)
        values |= {f"second_{name}": value for name, value in second.items()}
        if batch.unlabelled is None:
            return Terms(values=values)
        labelled = {name: probabilities(logits[name]) for name in PAIR}
        p = {name: probabilities(nets[name](batch.unlabelled.image)["main"]) for name in PAIR}
        valid = batch.unlabelled.valid
        values["agreement"] = masked_mean(js_divergence(*p.values()), valid)
        fooled = [self.fooled(nets, batch.labelled, labelled), self.fooled(nets, batch.unlabelled, p)]
        values["adversarial"] = torch.stack(fooled).mean()
        start, end = self.adversarial_start * at.steps, self.ramp * at.steps
        late = torch.where(at.step < start, 0.0, gaussian_ramp(at.step - start, end - start))
        weights = {
            "agreement": self.weight * gaussian_ramp(at.step, end),
            "adversarial": self.adversarial_weight * late,
        }
        return Terms(values=values, weights=weights)

    def fooled(self, nets: Nets, sample: Sample, p: Mapping[str, Tensor]) -> Tensor:
        """KL of each network's answer to the other's adversarial image, both averaged."""
        found = []
        for mine, other in (PAIR, PAIR[::-1]):
            target = p[mine].detach()
            own = target.argmax(dim=1)  # where nobody drew, too
            label = own if sample.label is None else torch.where(sample.valid, sample.label, own)

            def loss(image: Tensor, net: nn.Module = nets[mine], label: Tensor = label) -> Tensor:
                return masked_mean(cross_entropy(net(image)["main"], label), sample.inside)

            with frozen_statistics(*nets.values()):
                made = fgsm(loss, sample.image, self.epsilon)
                answer = nets[other](torch.where(sample.inside.unsqueeze(1), made, sample.image))["main"]
            found.append(masked_mean(kl_divergence(target, probabilities(answer)), sample.inside))
        return torch.stack(found).mean()

    def predicting(self, nets: Nets) -> Body:
        """The first network, or both as one."""
        return MeanBody([body_of(nets, name) for name in PAIR]) if self.predicts == "mean" else body_of(nets)


class MeanBody(Body):
    """Several networks as one, whose main head gives the logarithm of their mean probabilities."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(bodies)
        self.heads, self.decoders, self.widths = nn.ModuleDict({"main": nn.Identity()}), nn.ModuleDict(), ()
        self.multiple = bodies[0].multiple

    def encode(self, image: Tensor) -> list[Tensor]:
        """The logarithm, as the only level."""
        answers = [probabilities(body(image, ("main",))["main"]) for body in self.bodies]
        return [log(torch.stack(answers).mean(dim=0))]

    def decode(self, levels: list[Tensor], decoder: str = "main") -> list[Tensor]:
        """Nothing is left to do."""
        return levels
