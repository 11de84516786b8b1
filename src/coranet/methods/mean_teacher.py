"""Mean teachers are better role models (Tarvainen & Valpola, NIPS 2017), for segmentation.

    L = CE(f(x_l), y_l) + λ w(t) · mean over pixels of ‖p_f(x_u + n) - p_f'(x_u + n')‖²
    θ' ← β θ' + (1 - β) θ after every step

n and n' are independent noise, w(t) = exp(-5 (1 - t/T)²). The teacher averages weights and running statistics and predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import nn

from coranet.methods.base import Method
from coranet.nets import Body, MakeNet
from coranet.ops.losses import masked_mean, probabilities, squared_difference
from coranet.ops.perturb import gaussian_noise
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.teacher import follow, frozen_copy
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class MeanTeacher(Method):
    """Student and averaged teacher agree on noisy views of unlabelled images."""

    beta: float = 0.99
    """How slowly the teacher follows."""
    weight: float = 0.1
    """λ, of the consistency term; the field's usual value."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    noise: float = 0.1
    """Standard deviation of the noise on normalised intensities."""
    predicts: Literal["student", "teacher"] = "teacher"
    """Which of the two is scored."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A student and its teacher."""
        student = make_net()
        return {"student": student, "teacher": frozen_copy(student)}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and consistency on unlabelled images."""
        values = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        image, valid = batch.unlabelled.image, batch.unlabelled.valid
        student = probabilities(nets["student"](gaussian_noise(image, self.noise))["main"])
        with torch.no_grad():
            teacher = probabilities(nets["teacher"](gaussian_noise(image, self.noise))["main"])
        difference = squared_difference(student, teacher)
        values["consistency"] = masked_mean(difference, torch.ones_like(valid), valid)
        return Terms(values=values, weights={"consistency": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def after_step(self, nets: Nets, at: Progress) -> None:
        """The teacher follows."""
        follow(nets["teacher"], nets["student"], self.beta)

    def inference_net(self, nets: Nets, *, uncertainty: bool = True) -> Body:
        """Teacher or student."""
        return cast(Body, nets[self.predicts])
