"""Curriculum semi-supervised segmentation (Kervadec et al., MICCAI 2019): first learn how large, then where.

An easier task comes first: a network R learns from labelled images what share of an image each object takes. Then it is
frozen, and predictions on unlabelled images must have the sizes it expects, up to a margin γ:

    L_R = mean over objects of (R(x_l)_k - s_k(y_l))²
    L_f = L_sup + λ N Σ_k [max(0, s_k(p) - (1 + γ) r_k)]² + [max(0, (1 - γ) r_k - s_k(p))]²,  r = R(x_u)

s_k is the mean of class k over the N voxels of the image, soft where p is. The released code has γ = 0.1 and λ = 0.01, and
squares sizes in pixels over the pixels of an image, which is N times the square of shares. R is a ResNeXt there and a small
critic for each object here. The segmenter, which the paper trains afterwards, learns from labels while R does, so that it
sees as many steps as with any other method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.nets import MakeNet
from coranet.ops.losses import at_least_fp32, one_hot, probabilities
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms, Update


@dataclass(frozen=True, kw_only=True)
class SizeConstraint(Method):
    """Objects in unlabelled images have the sizes that a second network expects of them."""

    paper: ClassVar[str] = "Kervadec et al., MICCAI 2019"
    high: ClassVar[str] = "entropy minimisation"
    low: ClassVar[str] = "entropy minimisation"

    weight: float = 0.01
    """λ, of the penalty on sizes in voxels, over the voxels of an image."""
    margin: float = 0.1
    """γ, by which share of the expected size a size may differ."""
    pretrain_epochs: float = 30
    """Epochs in which sizes are learnt; a run of another length keeps the proportion."""
    train_epochs: float = 100
    """Epochs with unlabelled images."""

    def __post_init__(self) -> None:
        if min(self.pretrain_epochs, self.train_epochs) <= 0:
            raise InputError(
                "pretrain_epochs and train_epochs are larger than 0: sizes are learnt before they are used."
            )

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Sizes from labels, then unlabelled images."""
        first = Phase(name="pretrain", epochs=self.pretrain_epochs, alone=True)
        return (first, Phase(name="train", epochs=self.train_epochs))

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The segmenter and R."""
        return {"student": make_net(), "sizes": Sizes(make_net)}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """R is trained in the first phase alone."""
        if phase == "train":
            return (Update(name="step", loss=self.loss),)
        sizes = Update(name="sizes", loss=self.sizes_loss, trains=("sizes",), optimizer="sizes")
        return (sizes, Update(name="labels", loss=self.labels_loss))

    def sizes_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_R, in squared per cent."""
        sample = batch.labelled
        assert sample.label is not None
        regressed = nets["sizes"](inside(sample))
        truth = shares(one_hot(sample.label, regressed.shape[1] + 1), sample.valid)
        return Terms(values={"sizes": (regressed - 100 * truth).square().mean()})

    def labels_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_sup."""
        return Terms(values=self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled))

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_f."""
        values = dict(self.labels_loss(nets, batch, at).values)
        if batch.unlabelled is None:
            return Terms(values=values)
        sample = batch.unlabelled
        with torch.no_grad():
            expected = nets["sizes"](inside(sample)).clamp(min=0) / 100
        found = shares(probabilities(nets["student"](sample.image)["main"]), sample.valid)
        above = (found - (1 + self.margin) * expected).clamp(min=0)
        below = ((1 - self.margin) * expected - found).clamp(min=0)
        voxels = sample.valid.flatten(1).sum(dim=1)
        values["size"] = (voxels * (above.square() + below.square()).sum(dim=1)).mean()
        outside = ((above + below) > 0).float().mean()
        return Terms(values=values, weights={"size": self.weight}, measures={"sizes_outside": outside})


class Sizes(nn.Module):
    """R: from images `(B, C, *S)` to sizes in per cent, `(B, K - 1)`."""

    def __init__(self, make_net: MakeNet) -> None:
        super().__init__()
        self.objects = nn.ModuleList(make_net.critic(make_net.channels) for _ in range(make_net.classes - 1))

    def forward(self, image: Tensor) -> Tensor:
        """Any number; what is below 0 is meant as 0."""
        return at_least_fp32(torch.stack([regress(image) for regress in self.objects], dim=1))


def inside(sample: Sample) -> Tensor:
    """The images, and 0 outside of them."""
    return sample.image * sample.valid.unsqueeze(1)


def shares(p: Tensor, valid: Tensor) -> Tensor:
    """What share of an image's valid voxels each object takes: `(B, K, *S)` to `(B, K - 1)`."""
    kept = valid.flatten(1).unsqueeze(1).to(torch.float32)
    return (p.flatten(2)[:, 1:] * kept).sum(dim=2) / kept.sum(dim=2).clamp(min=1)
