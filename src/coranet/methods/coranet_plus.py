"""CoraNet for today: conservative and radical heads, one joint step, an averaged teacher and strong views.

What is CoraNet's (Shi et al., IEEE TMI 2021): two heads of opposite costs say how certain each pixel of an unlabelled image
is (`uncertainty/crm.py`). What is certain is learnt from pseudo-labels, the rest by consistency with a teacher. What is new:
a pixel is certain by degrees, and all is learnt in one step. The averaged teacher F' speaks of the image as it is. The
student F learns it from a strong view v, at other contrasts and with a box of another image (FixMatch, Sohn et al., NeurIPS
2020; mixing and Dice as in UniMatch, Yang et al., CVPR 2023):

    q = F'(x),   ŷ = argmax_k q_k,   w = 1 - max_k |p'_rad - p'_con|
    L = L_crm(x_l) + r t [λ_c (CE_w(F(v x), v ŷ) + D_w(F(v x), v ŷ)) + λ_u mean (1 - v w) ‖F(v x) - v q‖²]
    F' ← β F' + (1 - β) F,   β from 0.99 to 0.999 over the run, but never over more than a sixth of its T steps: β ≤ 1 - 6/T

L_crm are the losses of all three heads on labels, r is a ramp after a warm-up on labels alone, D is Dice over pixels that
weigh w. What a network teaches itself counts by what it knows of labels: t = (1 - D K / (K - 1)) min(1, n / 25) is 0 if it
finds no object in the step's labelled images, and small while it has seen them n < 25 times. Labels, weights and targets
are cut like images. F' predicts. The two heads begin at a small share of each object: else the conservative one says
nothing for long. docs/development.md has what else was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.other_voice import heard
from coranet.nets import Body, MakeNet, body_of
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice, squared_difference
from coranet.ops.mixing import cutmix_boxes, cutmixed
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident, share
from coranet.ops.teacher import copy_weights, follow, frozen_copy
from coranet.types import Batch, Nets, Phase, Progress, Regions, Sample, Terms, Update
from coranet.uncertainty import CRM


class Guide(NamedTuple):
    """What the teacher says of images, each `(B, *S)` or `(B, K, *S)`."""

    label: Tensor
    weight: Tensor
    """w, 1 where certain."""
    target: Tensor
    """q."""
    valid: Tensor


@dataclass(frozen=True, kw_only=True)
class CoraNetPlus(Method):
    """Certain pixels learn from an averaged teacher's labels, uncertain ones from its probabilities, by strong views."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, carried on here"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "consistency"
    hears: ClassVar[bool] = True

    alpha: float = 5.0
    """How many times dearer one kind of mistake is than the other to the conservative and the radical head."""
    region: Literal["soft", "crm", "softmax", "chance", "none"] = "soft"
    """How certain a pixel is: by how near the two heads are; yes or no, by whether they agree; by what the teacher's softmax
    is sure of; as many pixels as the heads agree on, but drawn by chance; or every pixel wholly."""
    threshold: float = 0.95
    """Of the region `softmax`."""
    views: int = 1
    """Strong views a step."""
    strength: float = 0.5
    """How much contrast, brightness and noise of a strong view differ, in units of the scans' spread."""
    cutmix: float = 0.5
    """The chance that a strong view holds a box of another image."""
    pseudo_dice: float = 1.0
    """Weight of Dice beside the cross-entropy on pseudo-labels."""
    weights: tuple[float, float] = (1.0, 1.0)
    """λ_c and λ_u, of certain and uncertain pixels."""
    warm_up: float = 0.15
    """Share of the run on labels alone."""
    ramp: float = 0.3
    """Share of what follows over which the weights grow."""
    passes: float = 25.0
    """How often each labelled image is seen before what the network teaches itself counts wholly; 0 begins so."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    beta_end: float = 0.999
    """How slowly at the end of the run."""
    prior: float | None = 0.02
    """The share of pixels that the two heads give each object before they have learnt anything; None leaves it to chance."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up <= 1 or (self.prior is not None and not 0 < self.prior < 1):
            raise InputError(f"warm_up and prior are shares between 0 and 1, not {self.warm_up} and {self.prior}.")
        if self.passes < 0:
            raise InputError(f"passes is at least 0, not {self.passes}.")
        if self.views < 1:
            raise InputError(f"views is at least 1, not {self.views}.")

    @property
    def estimator(self) -> CRM:
        """The conservative-radical module, a pair of outputs for each object."""
        return CRM(alpha=self.alpha)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Labels alone, then all at once."""
        warm_up, rest = 130 * self.warm_up, 130 * (1 - self.warm_up)
        return Phase(name="labels", epochs=warm_up, alone=True), Phase(name="joint", epochs=rest)

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Three heads, and a teacher of all of them."""
        student = make_net({"main": make_net.classes, **self.estimator.heads(make_net.classes)})
        if self.prior is not None:
            self.estimator.begin_at(student.heads, self.prior)
        return {"student": student, "teacher": frozen_copy(student)}

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """The teacher begins where the student is after the warm-up."""
        if phase == "joint" and any(self.weights):
            copy_weights(nets["teacher"], nets["student"])

    def after_step(self, nets: Nets, at: Progress) -> None:
        """F' ← β F' + (1 - β) F, buffers too."""
        follow(nets["teacher"], nets["student"], self.slowness(at))

    def slowness(self, at: Progress) -> Tensor:
        """β of a step."""
        most = max(1 - 6 / at.steps, 0.0)
        return (self.beta + (self.beta_end - self.beta) * (at.step / at.steps)).clamp(max=most)

    def predicting(self, nets: Nets) -> Body:
        """The average."""
        return body_of(nets, "teacher")

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """One a step."""
        joint = phase == "joint" and any(self.weights)
        return (Update(name=phase, loss=self.loss if joint else self.labelled_loss),)

    def on_labels_alone(self) -> Method:
        """L_crm alone, which still says what is uncertain."""
        return replace(self, weights=(0.0, 0.0))

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        crm, sample = self.labelled_loss(nets, batch, at), batch.unlabelled
        if sample is None:
            return crm
        student, guide = body_of(nets), self.guide(body_of(nets, "teacher"), sample)
        images, guides = zip(*(self.strong(sample, guide) for _ in range(self.views)), strict=True)
        logits = student(torch.cat(images), ("main",))["main"].chunk(self.views)
        trust = self.trust(crm, guide.target.shape[1], at)
        ramp = trust * gaussian_ramp(at.phase_step, self.ramp * at.phase_steps)
        parts = [self.taught(said, by) for said, by in zip(logits, guides, strict=True)]
        return Terms(
            values={**crm.values, **{name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}},
            weights={"certain": self.weights[0] * ramp, "uncertain": self.weights[1] * ramp},
            measures={"uncertain_share": share(1 - guide.weight, sample.valid)},
        )

    def trust(self, crm: Terms, classes: int, at: Progress) -> Tensor:
        """t, from 0 for a network that finds no object of K classes on labels, where Dice is learnt, to 1."""
        seen = (at.passes / self.passes).clamp(max=1) if self.passes else torch.ones_like(at.passes)
        if not self.dice:
            return seen
        return seen * (1 - crm.values["dice"].detach() / self.dice * classes / (classes - 1)).clamp(min=0)

    @torch.no_grad()
    def guide(self, teacher: Body, sample: Sample) -> Guide:
        """What the teacher says of images as they are."""
        maps = self.estimator.infer(teacher, sample.image)
        regions, target = self.estimator.judge(maps), maps["main"]
        weight = self.weigh(regions, target, sample.valid)
        label, weight = heard(sample, target.argmax(dim=1), weight)
        return Guide(label=label, weight=weight, target=target, valid=sample.valid)

    def weigh(self, regions: Regions, target: Tensor, valid: Tensor) -> Tensor:
        """The weight w of each pixel."""
        certain = regions.certain
        if self.region == "soft":
            return 1 - regions.score
        if self.region == "softmax":
            certain = confident(target, self.threshold)
        elif self.region == "chance":
            share = (certain & valid).sum() / valid.sum().clamp(min=1)
            certain = torch.rand_like(regions.score) < share
        elif self.region == "none":
            certain = torch.ones_like(certain)
        return certain.to(regions.score.dtype)

    def strong(self, sample: Sample, guide: Guide) -> tuple[Tensor, Guide]:
        """A strong view, and what it is taught by."""
        image = strong_view(sample.image, self.strength, sample.unit)
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix)
        return cutmixed(image, boxes), Guide(*(cutmixed(part, boxes) for part in guide))

    def taught(self, logits: Tensor, by: Guide) -> dict[str, Tensor]:
        """The terms of one view."""
        p = probabilities(logits)
        certain = masked_mean(by.weight * cross_entropy(logits, by.label), by.valid)
        if self.pseudo_dice:  # the root: sums in it hold the mask's square
            certain = certain + self.pseudo_dice * soft_dice(p, by.label, (by.weight * by.valid).sqrt())
        apart = (1 - by.weight) * squared_difference(p, by.target)
        return {"certain": certain, "uncertain": masked_mean(apart, by.valid)}
