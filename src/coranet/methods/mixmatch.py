"""MixMatch: a holistic approach to semi-supervised learning (Berthelot et al., NeurIPS 2019), voxel by voxel.

    q̄ = 1/N Σ_n p(A_n(x_u)),   q_k = q̄_k^(1/T) / Σ_j q̄_j^(1/T)                  guess, then sharpen
    W = shuffle(X ∪ U),   U = {(A_n(x_u), q)},   X = {(A(x_l), y_l)}
    x' = λ' x + (1 - λ') w,   λ' = max(λ, 1 - λ),   λ ~ Beta(α, α)                 mixup of images and of label maps
    L = CE(f(x'_l), y'_l) + λ_u w(t) · mean over pixels of 1/K ‖p(x'_u) - q'‖²

A pixel counts where both images of its mixture have one. For segmentation the guesses must lie on one another: A_n changes
contrast, brightness and noise, while geometry is the sampler's, the same for all N. Labelled images are changed alike, or
a network could tell the two kinds apart. As in the authors' code guesses normalise by the statistics of their batch, since
the running ones are of mixtures; they move none and carry no gradient. λ_u is the smallest of the paper's 75 to 250, which
are for the classes of whole photographs; short runs on the phantom did better with 1 and worse than supervised with any of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.ops.losses import masked_mean, one_hot, probabilities, squared_difference
from coranet.ops.mixing import mixed_dice, mixed_up, mixup_shares, sharpen, soft_cross_entropy
from coranet.ops.passes import frozen_statistics
from coranet.ops.perturbation import intensity_view
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class MixMatch(Method):
    """Guesses over several views are averaged and sharpened, and all images are learnt in mixtures of two."""

    paper: ClassVar[str] = "Berthelot et al., NeurIPS 2019"
    high: ClassVar[str] = "consistency + entropy minimisation"
    low: ClassVar[str] = "consistency + entropy minimisation"

    weight: float = 75.0
    """λ_u, of the unlabelled term."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    views: int = 2
    """N: how many guesses are averaged, and how many views of each image are learnt."""
    view: float = 0.5
    """How much contrast, brightness and noise of a view differ, in units of the scans' own spread."""
    temperature: float = 0.5
    """T: the smaller, the closer a guess is brought to one class."""
    alpha: float = 0.75
    """α of the Beta distribution that mixtures are drawn from."""

    def __post_init__(self) -> None:
        if self.views < 1 or min(self.temperature, self.alpha) <= 0:
            raise InputError("MixMatch needs at least 1 view, and temperature and alpha above 0.")

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Cross-entropy of mixed labelled images, squared distance of mixed unlabelled ones."""
        student, labelled, sample = nets["student"], batch.labelled, batch.unlabelled
        assert labelled.label is not None
        if sample is None:
            return Terms(values=self.supervised_terms(student(labelled.image)["main"], labelled))
        views = [intensity_view(sample.image, self.view, sample.unit) for _ in range(self.views)]
        with torch.no_grad(), frozen_statistics(student):
            seen = torch.stack([probabilities(student(view, ("main",))["main"]) for view in views]).mean(dim=0)
        guessed = sharpen(seen, self.temperature)
        image = torch.cat([intensity_view(labelled.image, self.view, labelled.unit), *views])
        valid = torch.cat([labelled.valid, *[sample.valid] * self.views])
        label = torch.cat([one_hot(labelled.label, seen.shape[1]).to(seen.dtype), *[guessed] * self.views])
        shares = mixup_shares(len(image), self.alpha, image.device)
        other = torch.rand(len(image), device=image.device).argsort()
        logits = student(mixed_up(image, image[other], shares))["main"]
        label, valid = mixed_up(label, label[other], shares), valid & valid[other]
        count = len(labelled.image)
        distance = squared_difference(probabilities(logits[count:]), label[count:]) / seen.shape[1]
        values = self.mixed_terms(logits[:count], label[:count], valid[:count])
        values["guess"] = masked_mean(distance, valid[count:])
        return Terms(values=values, weights={"guess": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def mixed_terms(self, logits: Tensor, label: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """Cross-entropy, and Dice where asked for, to labels that are mixtures."""
        terms = {"ce": masked_mean(soft_cross_entropy(logits, label), valid)}
        if self.dice:
            terms["dice"] = self.dice * mixed_dice(probabilities(logits), label, valid)
        return terms
