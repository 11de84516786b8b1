"""Multi-task attention-based semi-supervised learning, MASSL (Chen et al., MICCAI 2019).

A second decoder reconstructs, for each class, the part of the image that the first assigns to it:

    L = L_sup + λ · mean over pixels of Σ_k ‖r_k(x) - p_k(x) x‖²          on labelled and unlabelled images alike

With two classes r reconstructs background and foreground, as in the paper; p, the attention, says which is which. The
encoder is shared, so that unlabelled images teach it to tell the two apart. The paper leaves open whether the segmentation
learns from the reconstruction's error through p. By default it does not: p = 0 for all objects would leave less to
reconstruct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import Feature, MakeNet
from coranet.ops.losses import masked_mean, probabilities, squared_difference
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class MultitaskAttention(Method):
    """A second decoder reconstructs what the first says is object and what it says is background."""

    paper: ClassVar[str] = "Chen et al., MICCAI 2019"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    weight: float = 1.0
    """λ, of the reconstruction of normalised intensities."""
    ramp: float = 0.0
    """Share of the run over which the weight grows."""
    live: bool = False
    """Let the segmentation learn from the reconstruction's error through the attention."""

    @property
    def needs(self) -> frozenset[Feature]:
        """A decoder for each task."""
        return frozenset({"decoders"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One encoder, and a decoder for each task."""
        heads = {"main": make_net.classes, "reconstruction": make_net.classes * make_net.channels}
        return {"student": make_net(heads, decoders={"reconstruction": "own"})}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and the reconstruction of every image."""
        count = len(batch.labelled.image)
        if batch.unlabelled is None:
            logits = nets["student"](batch.labelled.image, ("main",))["main"]
            return Terms(values=self.supervised_terms(logits, batch.labelled))
        image = torch.cat([batch.labelled.image, batch.unlabelled.image])
        valid = torch.cat([batch.labelled.valid, batch.unlabelled.valid])
        answers = nets["student"](image)
        values = self.supervised_terms(answers["main"][:count], batch.labelled)
        parts = self.parts(answers["main"], image)
        values["reconstruction"] = masked_mean(squared_difference(answers["reconstruction"], parts), valid, valid)
        weight = self.weight * gaussian_ramp(at.step, self.ramp * at.steps)
        return Terms(values=values, weights={"reconstruction": weight})

    def parts(self, logits: Tensor, image: Tensor) -> Tensor:
        """What to reconstruct, p_k x: `(B, K, *S)` and `(B, C, *S)` to `(B, K C, *S)`, class by class."""
        attention = probabilities(logits if self.live else logits.detach())
        return (attention.unsqueeze(2) * image.unsqueeze(1)).flatten(1, 2)
