"""CoraNet as its released code behaves, for those who compare with its numbers.

Facts about that code, which carries no licence and is not used here. It differs from the text in this:

- L_sup = (CE + Dice + CE_con + CE_rad) / 4; weighted means are divided by the sum of weights. The Dice is not in the text.
- The heads' names are exchanged: `con` is trained at costs (1, α), `rad` at (α, 1).
- On pseudo-labels those costs are crossed again, each head taking the other's, and both heads are trained there too:
  L_c = (CE + Dice + CE_con + CE_rad) / 4 over certain pixels, weighted terms divided by their count, not by their weights.
- L_u = mean over the three heads of Σ_k (p_k - p'_k)², averaged over uncertain pixels. The teacher has all heads.
- L = L_sup + 0.5 (L_c + 0.1 exp(-5 (1 - t/40)²) L_u), t in epochs of self-training; one update a step.
- The teacher averages parameters only, runs in training mode, and sees the student's very image.

CE of the main head and its part of L_u are the text's Eq. 7 and Eq. 8, divided by the region's pixels of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.methods.coranet import SeparateSelfTraining, Targets, refreshed, unlabelled
from coranet.nets import Body
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice, squared_difference
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import consistency_loss, pseudo_label_loss
from coranet.ops.teacher import follow, frozen_copy
from coranet.types import Batch, Nets, Phase, Progress, Terms, Update
from coranet.uncertainty import CRM
from coranet.uncertainty.crm import as_pairs, object_masks


@dataclass(frozen=True, kw_only=True)
class ReleasedCoraNet(SeparateSelfTraining):
    """What the released code does, in any dimension."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, released code"

    dice: float = 1.0
    """Weight of the Dice terms, on labels and on pseudo-labels. The released code has 1."""
    weights: tuple[float, float] = (0.5, 0.05)
    """Of the certain term and, once its ramp is over, of the uncertain one. With neither, unlabelled images are not
    looked at."""
    ramp_epochs: float = 40
    """Epochs of self-training over which the uncertain term grows."""
    refresh_every: float = 5
    """Epochs between two refreshes of pseudo-labels and masks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.regions, CRM) or self.regions.costs != "object":
            raise InputError(
                "The released code knows the conservative-radical module alone, with costs for each object: "
                "set other regions on the method coranet."
            )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """As in the text."""
        return refreshed(super().phases, self.refresh_every if self.uses_unlabelled else None)

    def make_teacher(self, student: Body) -> Body:
        """All heads, in training mode."""
        return frozen_copy(student).train()

    def after_step(self, nets: Nets, at: Progress) -> None:
        """Parameters only."""
        if at.phase == "selftrain":
            follow(nets["teacher"], nets["student"], self.beta, buffers=False)

    def selftraining(self) -> tuple[Update, ...]:
        """One update."""
        return (Update(name="joint", loss=self.loss),)

    def labelled_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_sup."""
        sample = batch.labelled
        assert sample.label is not None
        logits = nets["student"](sample.image)
        parts = self.four_terms(logits, sample.label, sample.valid, costs=((1.0, self.alpha), (self.alpha, 1.0)))
        return Terms(values={name: value / 4 for name, value in parts.items()})

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L, over labelled and unlabelled images."""
        sample = unlabelled(batch)
        targets = Targets.stored(sample)
        certain, uncertain = targets.certain & sample.valid, ~targets.certain & sample.valid
        student = nets["student"](sample.image)
        with torch.no_grad():
            teacher = nets["teacher"](sample.image)
        costs = ((self.alpha, 1.0), (1.0, self.alpha))
        parts = self.four_terms(student, targets.label, certain, costs=costs, by_count=True)
        values = {
            "certain": torch.stack(list(parts.values())).mean(),
            "consistency": torch.stack(gaps(student, teacher, uncertain)).mean(),
        }
        return Terms(
            values={**self.labelled_loss(nets, batch, at).values, **values},
            weights={
                "certain": self.weights[0],
                "consistency": self.weights[1] * gaussian_ramp(at.epoch, self.ramp_epochs),
            },
            measures={"uncertain_share": uncertain.float().mean()},
        )

    @property
    def alpha(self) -> float:
        """The estimator's ratio of costs."""
        assert isinstance(self.regions, CRM)
        return self.regions.alpha

    def four_terms(
        self,
        logits: Mapping[str, Tensor],
        label: Tensor,
        region: Tensor,
        *,
        costs: tuple[tuple[float, float], tuple[float, float]],
        by_count: bool = False,
    ) -> dict[str, Tensor]:
        """CE and Dice of the main head, weighted CE of the other two, over a region."""
        terms = {
            "ce": pseudo_label_loss(logits["main"], label, region, None, "batch"),
            "dice": self.dice * soft_dice(probabilities(logits["main"]), label, region),
        }
        for name, cost in zip(("con", "rad"), costs, strict=True):
            pairs = as_pairs(logits[name])
            objects = object_masks(label, pairs.shape[2])
            weights = torch.ones_like(objects) if by_count else torch.where(objects == 1, cost[1], cost[0])
            inside = region.unsqueeze(1).expand_as(objects)
            total = torch.where(inside, cross_entropy(pairs, objects, cost), 0.0).sum()
            terms[name] = total / torch.where(inside, weights, 0).sum().clamp(min=1)
        return terms


def gaps(student: Mapping[str, Tensor], teacher: Mapping[str, Tensor], region: Tensor) -> list[Tensor]:
    """Σ_k (p_k - p'_k)² of each head, averaged over the region; over objects too for heads that hold pairs."""
    main = consistency_loss(probabilities(student["main"]), probabilities(teacher["main"]), region, None, "batch")
    apart = []
    for head in ("con", "rad"):
        mine, theirs = (probabilities(as_pairs(logits[head])) for logits in (student, teacher))
        apart.append(masked_mean(squared_difference(mine, theirs).mean(dim=1), region, normalise="batch"))
    return [main, *apart]
