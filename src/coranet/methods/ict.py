"""Interpolation consistency training, ICT (Verma et al., IJCAI 2019), for segmentation.

    L = L_sup + λ w(t) · mean over pixels of ‖p_f(Mix(x_i, x_j)) - Mix(p_f'(x_i), p_f'(x_j))‖²
    Mix(a, b) = μ a + (1 - μ) b,   μ from Beta(α, α), one for each pair

x_j is the image before x_i in the batch, and f' the averaged teacher, which sees the images as they are. α = 0.2 and the
student being scored are the settings of the field's segmentation code (SSL4MIS), where one half of the batch is mixed into
the other. Images come in random order, so that which of two has the larger share is left to chance as it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from coranet.methods.consistency import TaughtConsistency, mean_difference
from coranet.ops.losses import probabilities
from coranet.ops.mixing import mixed_up, mixup_shares
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class InterpolationConsistency(TaughtConsistency):
    """A student's answer to a mixture of two images is the mixture of its teacher's answers."""

    paper: ClassVar[str] = "Verma et al., IJCAI 2019"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    predicts: Literal["student", "teacher"] = "student"
    """Which of the two is scored."""
    alpha: float = 0.2
    """Of the shares' distribution: near 0 a mixture is mostly one image, at 1 all shares are alike."""

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """The distance to the mixed answers, where both images are."""
        shares = mixup_shares(len(sample.image), self.alpha, sample.image.device)
        with torch.no_grad():
            answers = probabilities(nets["teacher"](sample.image)["main"])
        target = mixed_up(answers, answers.roll(1, 0), shares)
        mixture = mixed_up(sample.image, sample.image.roll(1, 0), shares)
        student = probabilities(nets["student"](mixture)["main"])
        valid = sample.valid & sample.valid.roll(1, 0)
        return Terms(values={"consistency": mean_difference(student, target, valid)})
