"""CoraNet with the smallest change that put it ahead of the same network trained on labels alone, on the phantom.

In the text the student learns from pseudo-labels of the very image they were made from, but for its geometry: where a label
is wrong, the network that made it sees nothing that speaks against it. Here the student sees unlabelled images at another
contrast, brightness and noise level; pseudo-labels, masks and the teacher's targets still come from the image as it is:

    L_c-sn = 1/n Σ_j -Σ_z M_c q(x) log p(v(x)),   L_cnt = 1/n Σ_j ‖M_uc ⊗ (F(v(x)) - F'(x))‖²,   v(x) = c x + b + n

b and n are in units of the scans' own spread. Everything else is the text's. What it is worth: docs/demo.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coranet.methods.coranet import SeparateSelfTraining, Targets, refreshed, unlabelled
from coranet.ops.losses import probabilities
from coranet.ops.passes import guess
from coranet.ops.perturbation import intensity_view
from coranet.ops.regions import consistency_loss, pseudo_label_loss, share
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms, Update


@dataclass(frozen=True, kw_only=True)
class RepairedCoraNet(SeparateSelfTraining):
    """CoraNet whose student sees unlabelled images at another contrast than they were labelled at."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, changed here"
    hears: ClassVar[bool] = True

    view: float = 0.5
    """How much contrast, brightness and noise differ, in units of the scans' own spread."""
    weights: tuple[float, float] = (1.0, 1.0)
    """Of L_c-sn and L_cnt. A term that weighs nothing is left out."""
    refresh_every: float = 5
    """Epochs between two refreshes of pseudo-labels and masks."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """As in the text."""
        return refreshed(super().phases, self.refresh_every if self.uses_unlabelled else None)

    def selftraining(self) -> tuple[Update, ...]:
        """One update after the other, as in Algorithm 1."""
        losses = {"c-sn": self.certain_loss, "uc-sn": self.consistency_loss}
        weighing = [Update(name=name, loss=losses[name]) for name, w in zip(losses, self.weights, strict=True) if w]
        return (*weighing, Update(name="crm", loss=self.labelled_loss))

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """All three losses together; in training each has an update of its own."""
        return Terms.together(update.loss(nets, batch, at) for update in self.selftraining())

    def certain_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_c-sn."""
        sample = unlabelled(batch)
        label, certain = Targets.stored(sample)
        loss = pseudo_label_loss(self.look(nets, sample), label, sample.valid, certain)
        return Terms(values={"certain": loss}, weights={"certain": self.weights[0]})

    def consistency_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_cnt."""
        sample = unlabelled(batch)
        uncertain = ~Targets.stored(sample).certain
        p = probabilities(self.look(nets, sample))
        loss = consistency_loss(p, guess(nets["teacher"], sample.image), sample.valid, uncertain)
        return Terms(
            values={"consistency": loss},
            weights={"consistency": self.weights[1]},
            measures={"uncertain_share": share(uncertain, sample.valid)},
        )

    def look(self, nets: Nets, sample: Sample) -> Tensor:
        """The student's main logits of v(x)."""
        image = intensity_view(sample.image, self.view, sample.unit) if self.view else sample.image
        logits: Tensor = nets["student"](image, ("main",))["main"]
        return logits
