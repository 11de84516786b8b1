"""Mask-guided mean teacher with perturbation-sensitive sample mining (Zhou et al., MICCAI 2020), for segmentation.

    v(z) = mean over m of ‖p_f'(x_u + n_m) - p_f'(x_u)‖²                    how sensitive the teacher is there
    L = L_sup + λ w(t) · ( Σ_z v ‖p_f(x_u + n) - p_f'(x_u)‖² / Σ_z v  +  γ Σ_z o ‖e_f - e_f'‖² / (F Σ_z o) )
    θ' ← β θ' + (1 - β) θ after every step

e are the F channels that the label is read from, o = 1 - p_f' of background: the features of objects are distilled, not
those of the background. No gradient reaches v, o or the teacher. The paper finds cells: its samples are proposals, the
sensitive of which are picked, and its masks those of instances; samples are pixels here, weighted by v, and masks the
teacher's probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coranet.methods.consistency import TaughtConsistency
from coranet.nets import body_of
from coranet.ops.features import weighted_mean
from coranet.ops.losses import at_least_fp32, probabilities, squared_difference
from coranet.ops.perturbation import gaussian_noise
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class PerturbationMining(TaughtConsistency):
    """A student follows its teacher most where noise changes the teacher's mind, and in its features of objects."""

    paper: ClassVar[str] = "Zhou et al., MICCAI 2020"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    passes: int = 4
    """m, noisy looks of the teacher."""
    noise: float = 0.1
    """Standard deviation of the noise, in units of the scans' own spread."""
    distil: float = 1.0
    """γ, of the features beside the answers."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """Answers weighted by sensitivity, features by objects."""
        student, teacher = body_of(nets), body_of(nets, "teacher")
        with torch.no_grad():
            wanted = teacher.features(sample.image)
            target = probabilities(teacher.heads["main"](wanted))
            looks = [
                teacher(gaussian_noise(sample.image, self.noise * sample.unit))["main"] for _ in range(self.passes)
            ]
            changes = [squared_difference(probabilities(look), target) for look in looks]
            sensitivity, objects = torch.stack(changes).mean(dim=0), 1 - target[:, 0]
        features = student.features(gaussian_noise(sample.image, self.noise * sample.unit))
        answer = probabilities(student.heads["main"](features))
        apart = (at_least_fp32(features) - at_least_fp32(wanted)).square().mean(dim=1)
        return Terms(
            values={
                "consistency": weighted_mean(squared_difference(answer, target), sensitivity, sample.valid),
                "features": self.distil * weighted_mean(apart, objects, sample.valid),
            }
        )
