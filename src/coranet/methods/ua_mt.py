"""Uncertainty-aware self-ensembling model, UA-MT (Yu et al., MICCAI 2019).

    u = H(mean over t of p_f'(x_u + n_t)),  t = 1 .. T            T noisy passes of the teacher, each with its own dropout
    L = L_sup + λ w(t) · Σ_z M ‖p_f(x_u) - p_f'(x_u + n)‖² / (2 Σ_z M),   M = [u < (¾ + ¼ w(t)) log K]

Sums go over the voxels of the whole batch. As in the authors' code only the teacher's images are noisy, the target is one
further pass of the teacher with dropout, the 2 stays whatever K is, both ramps last the whole run and the student is scored.
There the teacher normalises by the statistics of its batch; ours by the running averages that follow the student's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from coranet.methods.consistency import TaughtConsistency
from coranet.nets import Body, Feature, MakeNet
from coranet.ops.entropy import entropy
from coranet.ops.losses import probabilities, squared_difference
from coranet.ops.passes import dropout_on
from coranet.ops.perturbation import gaussian_noise
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import share
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class UncertaintyAwareMeanTeacher(TaughtConsistency):
    """A student follows its teacher where the teacher's dropout passes say much the same."""

    paper: ClassVar[str] = "Yu et al., MICCAI 2019"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "none"

    ramp: float = 1.0
    """Share of the run over which the weight grows."""
    predicts: Literal["student", "teacher"] = "student"
    """Which of the two is scored."""
    passes: int = 8
    """T, of the teacher for its uncertainty."""
    dropout: float = 0.5
    """Rate of dropout in student and teacher."""
    noise: float = 0.1
    """Standard deviation of the noise on the teacher's images, in units of the scans' own spread."""

    @property
    def needs(self) -> frozenset[Feature]:
        """The passes differ by their dropout."""
        return frozenset({"dropout"})

    def make_student(self, make_net: MakeNet) -> Body:
        """With dropout."""
        return make_net(dropout=self.dropout)

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance to the teacher where it is certain."""
        student = probabilities(nets["student"](sample.image)["main"])
        with torch.no_grad(), dropout_on(nets["teacher"]):
            target = self.ask(nets["teacher"], sample)
            answers = [self.ask(nets["teacher"], sample) for _ in range(self.passes)]
            uncertainty = entropy(torch.stack(answers).mean(dim=0))
        threshold = (0.75 + 0.25 * gaussian_ramp(at.step, at.steps)) * math.log(student.shape[1])
        certain = (uncertainty < threshold) & sample.valid
        total = torch.where(certain, squared_difference(student, target), 0.0).sum()
        return Terms(
            values={"consistency": total / (2 * certain.sum()).clamp(min=1)},
            measures={"uncertain_share": share(~certain, sample.valid)},
        )

    def ask(self, teacher: nn.Module, sample: Sample) -> Tensor:
        """One noisy pass."""
        return probabilities(teacher(gaussian_noise(sample.image, self.noise * sample.unit))["main"])
