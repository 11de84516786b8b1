"""Bidirectional copy-paste for semi-supervised medical image segmentation (Bai et al., CVPR 2023).

A box B, two thirds of each side of the image, is copied both ways between labelled images a, b and unlabelled ones p, q:

    x_in = x_a outside B, x_p inside;   x_out = x_q outside B, x_b inside
    ℓ(R) = ½ (CE + Dice) of the student over the region R
    L = Σ over both mixtures of ℓ(the labelled part) + α ℓ(the unlabelled part),   α = ½
    θ' ← β θ' + (1 - β) θ after every step

The unlabelled part's label is the teacher's: of each object's argmax the largest component, here found on the device.
Before, the student is trained on labelled images pasted into one another, and the teacher starts as its copy. As in the
authors' code one box serves a whole batch, α has no ramp, and the student predicts; there the teacher runs in training mode,
here not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.nets import MakeNet
from coranet.ops.components import largest_components
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice
from coranet.ops.mixing import copy_paste, halves, placed_boxes
from coranet.ops.passes import guess
from coranet.ops.teacher import copy_weights, follow, frozen_copy
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class BCP(Method):
    """Boxes are pasted both ways between labelled and unlabelled images, the latter labelled by an averaged teacher."""

    paper: ClassVar[str] = "Bai et al., CVPR 2023"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "pseudo-labels"

    dice: float = 1.0
    """Weight of Dice beside cross-entropy in ℓ, which is their weighted mean."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    weight: float = 0.5
    """α, of unlabelled parts; labelled ones weigh 1."""
    side: float = 2 / 3
    """Of the box, as a share of the image's side."""
    largest: bool = True
    """Keep the largest component of each object in the teacher's labels."""
    pretrain_epochs: float = 40
    """Epochs on labelled images alone; a run of another length keeps the proportion."""
    selftrain_epochs: float = 120
    """Epochs with unlabelled images."""

    def __post_init__(self) -> None:
        if not 0 < self.side < 1 or min(self.pretrain_epochs, self.selftrain_epochs) <= 0:
            raise InputError("side lies between 0 and 1, and pretrain_epochs and selftrain_epochs are more than 0.")

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One part on labelled images, three with unlabelled ones, as in the authors' code for ACDC."""
        lengths = {"pretrain": self.pretrain_epochs, "selftrain": self.selftrain_epochs}
        return tuple(Phase(name=name, epochs=epochs, alone=name == "pretrain") for name, epochs in lengths.items())

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A student, and a teacher to follow it."""
        student = make_net()
        return {"student": student, "teacher": frozen_copy(student)}

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """The teacher starts from the pre-trained student."""
        if phase == "selftrain":
            copy_weights(nets["teacher"], nets["student"])

    def after_step(self, nets: Nets, at: Progress) -> None:
        """The teacher follows, once it teaches."""
        if at.phase == "selftrain":
            follow(nets["teacher"], nets["student"], self.beta)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Both mixtures; before self-training one of labelled images."""
        a, b = halves(batch.labelled)
        shape = batch.labelled.image.shape[2:]
        box = placed_boxes(torch.full((1, len(shape)), self.side, device=batch.labelled.image.device), shape)
        if at.phase == "pretrain" or batch.unlabelled is None:
            mixed = copy_paste(a, b, box)
            logits = nets["student"](mixed.image)["main"]
            return Terms(values={"labelled": self.part_loss(logits, mixed)})
        p, q = halves(self.taught(nets["teacher"], batch.unlabelled))
        inward, outward = copy_paste(a, p, box), copy_paste(q, b, box)
        logits = nets["student"](torch.cat([inward.image, outward.image]))["main"]
        first, second = logits.split([len(inward.image), len(outward.image)])
        return Terms(
            values={
                "labelled": self.part_loss(first, inward, ~box) + self.part_loss(second, outward, box),
                "unlabelled": self.part_loss(first, inward, box) + self.part_loss(second, outward, ~box),
            },
            weights={"unlabelled": self.weight},
        )

    def taught(self, teacher: nn.Module, sample: Sample) -> Sample:
        """Unlabelled images with the teacher's labels."""
        seen = guess(teacher, sample.image)
        label = seen.argmax(dim=1)
        return replace(sample, label=largest_components(label, seen.shape[1]) if self.largest else label)

    def part_loss(self, logits: Tensor, mixed: Sample, region: Tensor | None = None) -> Tensor:
        """ℓ over one part of the mixtures, or over all of them."""
        assert mixed.label is not None
        inside = mixed.valid if region is None else region & mixed.valid
        ce = masked_mean(cross_entropy(logits, mixed.label), mixed.valid, region=inside, normalise="region")
        dice = soft_dice(probabilities(logits), mixed.label, inside)
        return (ce + self.dice * dice) / (1 + self.dice)
