"""Semi-supervised learning for network-based cardiac MR image segmentation (Bai et al., MICCAI 2017): self-training.

Train on labels alone; then alternate two steps:

    1. with θ fixed, label every unlabelled image: Ŷ_u = argmax_k p_k(X_u)
    2. with Ŷ_u fixed, minimise L(θ) = CE(f(x_l), y_l) + λ CE(f(x_u), ŷ_u) over all pixels

Here Ŷ_u is stored for whole images and refreshed every few epochs; networks and optimizer go on from where they are. Phases
are as long as CoraNet's, to compare with. The paper also smooths Ŷ_u by a conditional random field over the image, which is
left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.ops.losses import cross_entropy, masked_mean
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class SelfTraining(Method):
    """Whole unlabelled images are labelled by the network every few epochs, and learnt like labelled ones in between."""

    paper: ClassVar[str] = "Bai et al., MICCAI 2017"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "pseudo-labels"

    weight: float = 1.0
    """λ, of unlabelled images beside labelled ones."""
    pretrain_epochs: float = 30
    """Epochs on labels alone; a run of another length keeps the proportion."""
    selftrain_epochs: float = 100
    """Epochs with unlabelled images."""
    refresh_every: float = 5
    """Epochs between two labellings of the unlabelled images."""

    def __post_init__(self) -> None:
        if min(self.pretrain_epochs, self.selftrain_epochs) <= 0 or self.refresh_every <= 0:
            raise InputError("pretrain_epochs, selftrain_epochs and refresh_every are more than 0.")

    @property
    def phases(self) -> tuple[Phase, ...]:
        """On labels alone, then with stored labels of unlabelled images."""
        return (
            Phase(name="pretrain", epochs=self.pretrain_epochs, alone=True),
            Phase(name="selftrain", epochs=self.selftrain_epochs, refresh_every=self.refresh_every),
        )

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and after pre-training cross-entropy to the stored labels."""
        values = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        sample = batch.unlabelled
        if sample is None or at.phase == "pretrain":
            return Terms(values=values)
        loss = cross_entropy(nets["student"](sample.image)["main"], sample.maps["label"])
        values["pseudo"] = masked_mean(loss, sample.valid)
        return Terms(values=values, weights={"pseudo": self.weight})

    def remember(self, prediction: Prediction) -> dict[str, Tensor]:
        """Ŷ_u."""
        return {"label": prediction.probabilities.argmax(dim=1).to(torch.uint8)}
