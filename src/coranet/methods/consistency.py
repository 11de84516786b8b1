"""What methods share that add one term on unlabelled images, and those among them that have a teacher.

    L = L_sup(x_l, y_l) + λ w(t) · L_u(x_u)

w(t) = exp(-5 (1 - t/T)²), and 1 from T on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import Body, MakeNet, body_of
from coranet.ops.losses import masked_mean, squared_difference
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.teacher import follow, frozen_copy
from coranet.types import Batch, Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class Consistency(Method):
    """Labels, and one term of unlabelled images whose weight grows; that term is what a method has to write."""

    weight: float = 0.1
    """λ, of the term on unlabelled images; the field's usual value."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""

    @abstractmethod
    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """L_u, not yet weighted, with its measures and traces."""

    def seen(self, sample: Sample) -> Sample:
        """Labelled images as the network gets them: as they are, unless a method shows them like unlabelled ones."""
        return sample

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        labelled = self.seen(batch.labelled)
        supervised = self.supervised_terms(nets["student"](labelled.image)["main"], labelled)
        if batch.unlabelled is None:
            return Terms(values=supervised)
        found = self.unlabelled_terms(nets, batch.unlabelled, at)
        weight = self.weight * gaussian_ramp(at.step, self.ramp * at.steps)
        return replace(found, values=supervised | dict(found.values), weights=dict.fromkeys(found.values, weight))


@dataclass(frozen=True, kw_only=True)
class TaughtConsistency(Consistency):
    """A student and a teacher that averages it: θ' ← β θ' + (1 - β) θ after every step, running statistics included."""

    beta: float = 0.99
    """How slowly the teacher follows."""
    predicts: Literal["student", "teacher"] = "teacher"
    """Which of the two is scored."""

    def make_student(self, make_net: MakeNet) -> Body:
        """The network that learns; the teacher is a copy of it."""
        return make_net()

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Student and teacher."""
        student = self.make_student(make_net)
        return {"student": student, "teacher": frozen_copy(student)}

    def after_step(self, nets: Nets, at: Progress) -> None:
        """The teacher moves."""
        follow(nets["teacher"], nets["student"], self.beta)

    def predicting(self, nets: Nets) -> Body:
        """Whichever predicts."""
        return body_of(nets, self.predicts)


def mean_difference(p: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Mean over images and their valid voxels of Σ_k (p_k - q_k)²: two `(B, K, *S)` and `(B, *S)` to a scalar."""
    return masked_mean(squared_difference(p, target), valid)
