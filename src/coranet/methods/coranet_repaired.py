"""CoraNet with the smallest change that put it ahead of the same network trained on labels alone, on the phantom.

In the text the student learns from pseudo-labels of the very image they were made from, but for its geometry: where a label
is wrong, the network that made it sees nothing that speaks against it. Here the student sees unlabelled images at another
contrast, brightness and noise level; pseudo-labels, masks and the teacher's targets still come from the image as it is:

    L_c-sn = 1/n Σ_j -Σ_z M_c q(x) log p(v(x)),   L_cnt = 1/n Σ_j ‖M_uc ⊗ (F(v(x)) - F'(x))‖²,   v(x) = c x + b + n

b and n are in units of the scans' own spread. Everything else is the text's. What it is worth: docs/demo.md.

What stronger views of others amount to in CoraNet are further fields, off unless asked for, for one joint update: boxes of
another image (CutMix), several views, mirrored and turned ones, a view whose features are dropped (UniMatch, Yang et al.,
CVPR 2023), Dice beside the cross-entropy on certain pixels, an averaged guide, and weights that grow. Labels, regions and
targets are moved and cut like images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.methods.coranet import CoraNet, unlabelled
from coranet.nets import Body, Feature
from coranet.ops.features import drop_channels
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice, squared_difference
from coranet.ops.mixing import cutmix_boxes, cutmixed
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.teacher import frozen_copy
from coranet.ops.views import draw_symmetry
from coranet.types import Batch, Nets, Progress, Sample, Terms


class Guidance(NamedTuple):
    """What unlabelled images are taught by, each `(B, ...)`."""

    label: Tensor
    certain: Tensor
    teacher: Tensor
    """Probabilities."""
    valid: Tensor


@dataclass(frozen=True, kw_only=True)
class RepairedCoraNet(CoraNet):
    """CoraNet whose student sees unlabelled images at another contrast than they were labelled at."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, changed here"

    view: float = 0.5
    """How much contrast, brightness and noise differ, in units of the scans' own spread."""
    views: int = 0
    """Strong views a step, blurred now and then too; with none, the one view of the formulae above."""
    cutmix: float = 0.5
    """Of strong views: the chance that one holds a box of another image."""
    mirror: float = 0.0
    """Of strong views: how often each of the first two axes is mirrored; 0 where left and right are classes."""
    turns: bool = False
    """Of strong views: turned by none to three right angles in the plane of these axes; by none or two if not square."""
    feature_dropout: float = 0.0
    """Beside strong views: the share of channels that are dropped from each level for one more view; 0 leaves it out."""
    pseudo_dice: float = 0.0
    """Of strong views: weight of a Dice term over certain pixels beside their cross-entropy."""
    guide: Literal["student", "teacher"] = "student"
    """Of strong views: who says label and regions, the student as it is now or its average."""
    ramp: float = 0.0
    """Of strong views: share of self-training over which their weight grows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.views and (self.updates != "joint" or self.masks != "online"):
            raise InputError(
                "views of unlabelled images are learnt from jointly: set updates=joint and masks=online too."
            )

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels to drop channels of, where that is asked for."""
        return super().needs | (frozenset({"levels"}) if self.feature_dropout else frozenset())

    def make_teacher(self, student: Body) -> Body:
        """With all heads where it says what is certain."""
        return frozen_copy(student) if self.guide == "teacher" else super().make_teacher(student)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The joint update; with strong views, by all of them at once."""
        if not self.views:
            return super().loss(nets, batch, at)
        sample, student = unlabelled(batch), cast(Body, nets["student"])
        crm, guidance = self.crm_loss(nets, batch, at), self.guidance(nets, sample)
        images, guides = zip(*(self.strong(sample, guidance) for _ in range(self.views)), strict=True)
        logits = [*student(torch.cat(images), ("main",))["main"].chunk(self.views)]
        if self.feature_dropout:
            levels = [drop_channels(level, self.feature_dropout) for level in student.encode(sample.image)]
            logits.append(student.read(levels, ("main",))["main"])
            guides = (*guides, guidance)
        pairs = list(zip(logits, guides, strict=True))
        weight = gaussian_ramp(at.phase_step, self.ramp * at.phase_steps)
        everywhere = torch.ones_like(guidance.certain)
        return Terms(
            values={
                **crm.values,
                "certain": torch.stack([self.on_certain(said, by) for said, by in pairs]).mean(),
                "consistency": torch.stack([self.on_uncertain(said, by) for said, by in pairs]).mean(),
            },
            weights={"certain": self.weights[0] * weight, "consistency": self.weights[1] * weight},
            measures={"uncertain_share": masked_mean(everywhere.float(), ~guidance.certain, sample.valid)},
        )

    def guidance(self, nets: Nets, sample: Sample) -> Guidance:
        """Labels and regions by the guide, targets by the teacher, of images as they are."""
        with torch.no_grad():
            if self.guide == "teacher":
                seen = self.decide(self.infer(cast(Body, nets["teacher"]), sample.image))
                assert seen.regions is not None
                label, certain, teacher = seen.probabilities.argmax(dim=1), seen.regions.certain, seen.probabilities
            else:
                label, certain = self.targets(nets, sample)
                teacher = probabilities(nets["teacher"](sample.image, ("main",))["main"])
        return Guidance(label, certain, teacher, sample.valid)

    def strong(self, sample: Sample, guidance: Guidance) -> tuple[Tensor, Guidance]:
        """A strong view, and what it is taught by."""
        symmetry = draw_symmetry(sample.image, mirror=self.mirror, quarters=self.turns)
        image = strong_view(symmetry.apply(sample.image), self.view, sample.unit)
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix)
        return cutmixed(image, boxes), Guidance(*(cutmixed(symmetry.apply(part), boxes) for part in guidance))

    def on_certain(self, logits: Tensor, by: Guidance) -> Tensor:
        """L_c-sn of a view."""
        region = by.certain if self.mask else torch.ones_like(by.certain)
        loss = masked_mean(cross_entropy(logits, by.label), region, by.valid, self.normalise)
        if not self.pseudo_dice:
            return loss
        return loss + self.pseudo_dice * soft_dice(probabilities(logits), by.label, region & by.valid)

    def on_uncertain(self, logits: Tensor, by: Guidance) -> Tensor:
        """L_cnt of a view."""
        region = ~by.certain if self.mask else torch.ones_like(by.certain)
        difference = squared_difference(probabilities(logits), by.teacher)
        return masked_mean(difference, region, by.valid, self.normalise)
