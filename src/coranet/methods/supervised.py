"""The network trained on its labels alone: what every other method is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.ops.losses import cross_entropy, masked_mean
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class Supervised(Method):
    """L = CE(f(x), y) on labelled images; unlabelled images are not looked at."""

    costs: tuple[float, ...] | None = None
    """What a mistake costs at pixels of each class, background first; all alike where none are given. Dice has no costs."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """One, on labels alone."""
        return (Phase(name="train", epochs=130, alone=True),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Cross-entropy of labelled images."""
        logits = nets["student"](batch.labelled.image)["main"]
        terms = self.supervised_terms(logits, batch.labelled)
        if self.costs is not None:
            terms["ce"] = self._costly(logits, batch.labelled)
        return Terms(values=terms)

    def _costly(self, logits: Tensor, sample: Sample) -> Tensor:
        assert sample.label is not None
        assert self.costs is not None
        if len(self.costs) != logits.shape[1]:
            raise InputError(f"costs are one for each of {logits.shape[1]} classes, not {len(self.costs)}.")
        loss = cross_entropy(logits, sample.label, self.costs)
        return masked_mean(loss, sample.valid)
