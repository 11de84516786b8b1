"""Mean teachers are better role models (Tarvainen & Valpola, NIPS 2017), for segmentation.

    L = CE(f(x_l), y_l) + λ w(t) · mean over pixels of ‖p_f(x_u + n) - p_f'(x_u + n')‖²
    θ' ← β θ' + (1 - β) θ after every step

n and n' are independent noise, w(t) = exp(-5 (1 - t/T)²). The teacher averages weights and running statistics and predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coranet.methods.consistency import TaughtConsistency, mean_difference
from coranet.ops.losses import probabilities
from coranet.ops.perturbation import gaussian_noise
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class MeanTeacher(TaughtConsistency):
    """Student and averaged teacher agree on noisy views of unlabelled images."""

    paper: ClassVar[str] = "Tarvainen & Valpola, NIPS 2017"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    noise: float = 0.1
    """Standard deviation of the noise, in units of the scans' own spread."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance between two noisy views' answers."""
        student = probabilities(nets["student"](gaussian_noise(sample.image, self.noise * sample.unit))["main"])
        with torch.no_grad():
            teacher = probabilities(nets["teacher"](gaussian_noise(sample.image, self.noise * sample.unit))["main"])
        return Terms(values={"consistency": mean_difference(student, teacher, sample.valid)})
