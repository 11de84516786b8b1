"""Transformation-consistent self-ensembling model, TCSM (Li et al., IEEE TNNLS 2021).

    L = L_sup + λ w(t) · mean over pixels of ‖p_f(T(x_u) + n) - T(p_f'(x_u + n'))‖²

T mirrors, turns by right angles and scales, each image in its own way; f' is the averaged teacher. Only the student sees
T(x_u), so that a gradient reaches it through the transformed image. What T brings in from outside belongs to no loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coranet.methods.consistency import TaughtConsistency, mean_difference
from coranet.ops.losses import probabilities
from coranet.ops.perturbation import gaussian_noise
from coranet.ops.views import draw_symmetry, draw_warp, warped, warped_mask
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class TransformationConsistentTeacher(TaughtConsistency):
    """A student's answer to a turned and scaled image is its teacher's answer, turned and scaled."""

    paper: ClassVar[str] = "Li et al., IEEE TNNLS 2021"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    noise: float = 0.1
    """Standard deviation of the noise, in units of the scans' own spread."""
    mirror: float = 0.5
    """How often each of the first two axes is mirrored; 0 where left and right are classes of their own."""
    turns: bool = True
    """Turn by none to three right angles in the plane of the first two axes; by none or two where it is not square."""
    rotate: float = 0.0
    """Further degrees to either side. The paper turns by right angles alone."""
    scale: tuple[float, float] = (0.8, 1.2)
    """Smallest and largest magnification."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance between the answer to the view and the view of the answer."""
        symmetry = draw_symmetry(sample.image, mirror=self.mirror, quarters=self.turns)
        warp = draw_warp(sample.image, rotate=self.rotate, scale=self.scale)

        def view(x: Tensor) -> Tensor:
            return warped(symmetry.apply(x), warp)

        student = probabilities(nets["student"](gaussian_noise(view(sample.image), self.noise * sample.unit))["main"])
        with torch.no_grad():
            teacher = view(
                probabilities(nets["teacher"](gaussian_noise(sample.image, self.noise * sample.unit))["main"])
            )
        valid = warped_mask(symmetry.apply(sample.valid), warp)
        return Terms(values={"consistency": mean_difference(student, teacher, valid)})
