"""CoraNet by strong views, in one joint update.

Labels, regions and the teacher's targets come from the image as it is; the student learns them from strong views of it, at
another contrast, blurred now and then, and with boxes of another image (CutMix). Labels, regions and targets are moved and
cut like images. With V views v_i, the last of which may be the image itself with features dropped (UniMatch, Yang et al.,
CVPR 2023),

    L = L_crm + w(t) / V · Σ_i [λ_c (L_c-sn(v_i) + d · Dice(v_i)) + λ_u L_cnt(v_i)]

where Dice is over certain pixels and w(t) = exp(-5 (1 - t/T)²) grows over the first part of self-training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.methods.coranet import SeparateSelfTraining, Targets, unlabelled
from coranet.methods.segmenter import Segmenter
from coranet.nets import Body, Feature, body_of
from coranet.ops.features import drop_channels
from coranet.ops.losses import probabilities, soft_dice
from coranet.ops.mixing import cutmix_boxes, cutmixed
from coranet.ops.passes import guess
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import consistency_loss, pseudo_label_loss, share
from coranet.ops.teacher import frozen_copy
from coranet.ops.views import draw_symmetry
from coranet.types import Batch, Nets, Progress, Sample, Terms, Update


class Guidance(NamedTuple):
    """What unlabelled images are taught by, each `(B, ...)`."""

    label: Tensor
    certain: Tensor
    teacher: Tensor
    """Probabilities."""
    valid: Tensor


@dataclass(frozen=True, kw_only=True)
class StrongViewCoraNet(SeparateSelfTraining):
    """CoraNet whose student learns from several strong views of unlabelled images at once."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, carried on here"

    views: int = 2
    """Strong views a step."""
    view: float = 0.5
    """How much contrast, brightness and noise of a view differ, in units of the scans' own spread."""
    cutmix: float = 0.5
    """The chance that a view holds a box of another image."""
    mirror: float = 0.0
    """How often each of the first two axes is mirrored; 0 where left and right are classes."""
    turns: bool = False
    """Turn views by none to three right angles in the plane of these axes; by none or two if it is not square."""
    feature_dropout: float = 0.0
    """The share of channels that are dropped from each level for one more view; 0 leaves it out."""
    pseudo_dice: float = 0.0
    """d, weight of a Dice term over certain pixels beside their cross-entropy."""
    guide: Literal["student", "teacher"] = "student"
    """Who says label and regions, the student as it is now or its average."""
    ramp: float = 0.0
    """Share of self-training over which the weights grow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.views < 1:
            raise InputError(f"There is at least one view, not {self.views}. Without views it is coranet:repaired.")

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels to drop channels of, where that is asked for."""
        return super().needs | (frozenset({"levels"}) if self.feature_dropout else frozenset())

    def make_teacher(self, student: Body) -> Body:
        """With all heads where it says what is certain."""
        return frozen_copy(student) if self.guide == "teacher" else super().make_teacher(student)

    def selftraining(self) -> tuple[Update, ...]:
        """One joint update."""
        return (Update(name="joint", loss=self.loss),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        sample, student = unlabelled(batch), body_of(nets)
        crm, guidance = self.crm_loss(nets, batch, at), self.guidance(nets, sample)
        images, guides = zip(*(self.strong(sample, guidance) for _ in range(self.views)), strict=True)
        logits = [*student(torch.cat(images), ("main",))["main"].chunk(self.views)]
        if self.feature_dropout:
            levels = [drop_channels(level, self.feature_dropout) for level in student.encode(sample.image)]
            logits.append(student.read(levels, ("main",))["main"])
            guides = (*guides, guidance)
        pairs = list(zip(logits, guides, strict=True))
        weight = gaussian_ramp(at.phase_step, self.ramp * at.phase_steps)
        return Terms(
            values={
                **crm.values,
                "certain": torch.stack([self.on_certain(said, by) for said, by in pairs]).mean(),
                "consistency": torch.stack([on_uncertain(said, by) for said, by in pairs]).mean(),
            },
            weights={"certain": self.weights[0] * weight, "consistency": self.weights[1] * weight},
            measures={"uncertain_share": share(~guidance.certain, sample.valid)},
        )

    @torch.no_grad()
    def guidance(self, nets: Nets, sample: Sample) -> Guidance:
        """Labels and regions by the guide, targets by the teacher, of images as they are."""
        if self.guide == "student":
            targets = self.targets_now(nets, sample)
            return Guidance(*targets, guess(nets["teacher"], sample.image), sample.valid)
        seen = Segmenter(self.regions.join(body_of(nets, "teacher"), nets), self.regions)(sample.image)
        return Guidance(*Targets.of(seen), seen.probabilities, sample.valid)

    def strong(self, sample: Sample, guidance: Guidance) -> tuple[Tensor, Guidance]:
        """A strong view, and what it is taught by."""
        symmetry = draw_symmetry(sample.image, mirror=self.mirror, quarters=self.turns)
        image = strong_view(symmetry.apply(sample.image), self.view, sample.unit)
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix)
        return cutmixed(image, boxes), Guidance(*(cutmixed(symmetry.apply(part), boxes) for part in guidance))

    def on_certain(self, logits: Tensor, by: Guidance) -> Tensor:
        """L_c-sn of a view, with Dice."""
        loss = pseudo_label_loss(logits, by.label, by.valid, by.certain)
        if not self.pseudo_dice:
            return loss
        return loss + self.pseudo_dice * soft_dice(probabilities(logits), by.label, by.certain & by.valid)


def on_uncertain(logits: Tensor, by: Guidance) -> Tensor:
    """L_cnt of a view."""
    return consistency_loss(probabilities(logits), by.teacher, by.valid, ~by.certain)
