"""The network trained on its labels alone: what every other method is measured against."""

from __future__ import annotations

from dataclasses import dataclass

from coranet.methods.base import Method
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class Supervised(Method):
    """L = CE(f(x), y) on labelled images; unlabelled images are not looked at."""

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Cross-entropy of labelled images."""
        logits = nets["student"](batch.labelled.image)["main"]
        return Terms(values=self.supervised_terms(logits, batch.labelled))
