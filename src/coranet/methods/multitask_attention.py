"""Multi-task attention-based semi-supervised learning, MASSL (Chen et al., MICCAI 2019).

A second decoder reconstructs, for each class, the part of the image that the first assigns to it:

    L_seg = L_sup                                                      on labelled images
    L_rec = mean over pixels of Σ_k ‖r_k(x) - p_k(x) x‖²               on unlabelled ones

With two classes r reconstructs background and foreground, as in the paper; p, the attention, says which is which. The
encoder is shared, so that unlabelled images teach it to tell the two apart. The two losses take turns, each with an
optimizer of its own, which the paper found better and steadier than their sum. As in the released code the reconstruction
learns at a tenth of the rate, and its decoder is given the coarsest features alone: through skips it could copy the image.
The paper leaves open whether the segmentation learns from the reconstruction's error through p. By default it does not:
p = 0 for all objects would leave less to reconstruct.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import Feature, MakeNet, body_of
from coranet.ops.losses import masked_mean, probabilities, squared_difference
from coranet.types import Batch, Nets, Progress, Terms, Update


@dataclass(frozen=True, kw_only=True)
class MultitaskAttention(Method):
    """A second decoder reconstructs what the first says is object and what it says is background."""

    paper: ClassVar[str] = "Chen et al., MICCAI 2019"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    reconstruction_rate: float = 0.1
    """The reconstruction's learning rate, times the run's."""
    live: bool = False
    """Let the segmentation learn from the reconstruction's error through the attention."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels of which to give the coarsest, and a decoder for each task."""
        return frozenset({"levels", "decoders"})

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One encoder, and a decoder for each task."""
        heads = {"main": make_net.classes, "reconstruction": make_net.classes * make_net.channels}
        return {"student": make_net(heads, decoders={"reconstruction": "own"})}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """The two tasks in turn."""
        reconstruction = Update(
            name="reconstruction",
            loss=self.reconstruction_loss,
            optimizer="reconstruction",
            rate=self.reconstruction_rate,
        )
        return (Update(name="segmentation", loss=self.loss), reconstruction)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_seg."""
        logits = nets["student"](batch.labelled.image, ("main",))["main"]
        return Terms(values=self.supervised_terms(logits, batch.labelled))

    def reconstruction_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_rec, of labelled images where there are no others."""
        sample = batch.unlabelled or batch.labelled
        student = body_of(nets)
        levels = student.encode(sample.image)
        with nullcontext() if self.live else torch.no_grad():
            attention = probabilities(student.read(levels, ("main",))["main"])
        *finer, coarsest = levels
        found = student.read([*map(torch.zeros_like, finer), coarsest], ("reconstruction",))["reconstruction"]
        difference = squared_difference(found, parts(attention, sample.image))
        return Terms(values={"reconstruction": masked_mean(difference, sample.inside)})


def parts(attention: Tensor, image: Tensor) -> Tensor:
    """What to reconstruct, p_k x: `(B, K, *S)` and `(B, C, *S)` to `(B, K C, *S)`, class by class."""
    return (attention.unsqueeze(2) * image.unsqueeze(1)).flatten(1, 2)
