"""CoraNet: inconsistency-aware uncertainty estimation for semi-supervised segmentation (Shi et al., IEEE TMI 2021).

One encoder E, a main head D and two heads of opposite misclassification costs, D_con and D_rad. Where the latter disagree a
pixel of an unlabelled image is uncertain (`uncertainty/crm.py`). Certain pixels learn from the model's own pseudo-labels,
uncertain ones from a mean teacher:

    L_crm  = L_ce(D) + L_ce-con(D_con) + L_ce-rad(D_rad)            on labelled images              (Eq. 1)
    L_c-sn = 1/n Σ_j -Σ_z M_c q log p                               D against its pseudo-labels     (Eq. 7)
    L_cnt  = 1/n Σ_j ‖M_uc ⊗ (F(x) - F'(x))‖²                       D against the teacher's         (Eq. 8)
    E', D' ← β (E', D') + (1 - β) (E, D)                                                            (Eq. 9)

Algorithm 1: pre-train with L_crm; then in every step update by L_c-sn, by L_cnt and by L_crm, each with a fresh forward
pass, and the teacher. Pseudo-labels and masks are refreshed every five epochs (section IV-A).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.nets import Body, Feature, MakeNet
from coranet.ops.losses import Normalise, cross_entropy, masked_mean, probabilities, squared_difference
from coranet.ops.perturbation import intensity_view
from coranet.ops.teacher import copy_weights, follow
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Sample, Terms, Update
from coranet.uncertainty import CRM, Estimator


@dataclass(frozen=True, kw_only=True)
class CoraNet(Method):
    """Certain pixels learn from pseudo-labels, uncertain ones from a mean teacher. The defaults are the text's."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "consistency"

    regions: Estimator = CRM(alpha=5.0)
    """What says which pixels are certain: the conservative-radical module, or another estimator."""
    self_training: bool = True
    """Learn from pseudo-labels (C-SN)."""
    mean_teacher: bool = True
    """Learn from the teacher (UC-SN)."""
    mask: bool = True
    """Keep the two to their regions; without it both learn from every pixel."""
    consistency_on: Literal["uncertain", "certain"] = "uncertain"
    """The teacher's region. `certain` is the other reading of the ablation's row `seg+mt (mask)`."""
    weights: tuple[float, float] = (1.0, 1.0)
    """Of L_c-sn and L_cnt."""
    normalise: Normalise = "image"
    """Divide sums over pixels by the image's pixels or by the region's. The paper's case for 1 : 1 needs the image."""
    updates: Literal["alternate", "joint"] = "alternate"
    """Three updates a step as in Algorithm 1, or one by the sum of the losses."""
    masks: Literal["stored", "online"] = "stored"
    """Pseudo-labels and masks kept between refreshes, or made anew in each step."""
    view: float = 0.0
    """How much the student's view of unlabelled images differs in contrast, brightness and noise. The text has none."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    pretrain_epochs: float = 30
    """Epochs on labels alone; a run of another length keeps the proportion."""
    selftrain_epochs: float = 100
    """Epochs with unlabelled images."""
    refresh_every: float = 5
    """Epochs between two refreshes of pseudo-labels and masks."""

    def __post_init__(self) -> None:
        if min(self.pretrain_epochs, self.selftrain_epochs) < 0 or not self.pretrain_epochs + self.selftrain_epochs > 0:
            raise InputError("pretrain_epochs and selftrain_epochs are not negative, and not both 0.")

    @property
    def needs(self) -> frozenset[Feature]:
        """What the estimator needs."""
        return self.regions.needs

    @property
    def estimator(self) -> Estimator:
        """The field `regions`."""
        return self.regions

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, then self-training."""
        stored = self.masks == "stored" and self.uses_unlabelled
        return (
            Phase(name="pretrain", epochs=self.pretrain_epochs),
            Phase(name="selftrain", epochs=self.selftrain_epochs, refresh_every=self.refresh_every if stored else None),
        )

    @property
    def uses_unlabelled(self) -> bool:
        """Whether any term needs unlabelled images."""
        return self.self_training or self.mean_teacher

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The three heads, a teacher of E and D alone, and networks that the estimator brings."""
        heads = {"main": make_net.classes, **self.regions.heads(make_net.classes)}
        student = make_net(heads, dropout=self.regions.dropout)
        return {"student": student, "teacher": self.make_teacher(student), **self.regions.networks(make_net)}

    def make_teacher(self, student: Body) -> Body:
        """E' and D'."""
        return student.keeping(("main",)).requires_grad_(False).eval()

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """E', D' are initialised with E, D after pre-training (Algorithm 1, line 3)."""
        if phase == "selftrain":
            copy_weights(nets["teacher"], nets["student"])

    def after_step(self, nets: Nets, at: Progress) -> None:
        """Eq. 9, during self-training."""
        if at.phase == "selftrain":
            follow(nets["teacher"], nets["student"], self.beta)

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Algorithm 1, lines 7 to 11; networks that the estimator brings come last."""
        crm, own = Update(name="crm", loss=self.crm_loss), self.regions.updates()
        if phase == "pretrain" or not self.uses_unlabelled:
            return (crm, *own)
        if self.updates == "joint":
            return (Update(name="joint", loss=self.loss), *own)
        certain = (Update(name="c-sn", loss=self.certain_loss),) if self.self_training else ()
        uncertain = (Update(name="uc-sn", loss=self.consistency_loss),) if self.mean_teacher else ()
        return (*certain, *uncertain, crm, *own)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The sum of all, for one joint update, from one pass over labelled and one over unlabelled images."""
        sample = unlabelled(batch)
        targets = self.targets(nets, sample)
        logits = self.look(nets, sample)
        parts = [self.crm_loss(nets, batch, at)]
        parts += [self.certain_terms(logits, targets, sample)] if self.self_training else []
        parts += [self.consistency_terms(nets, logits, targets, sample)] if self.mean_teacher else []
        return Terms(
            values={name: value for part in parts for name, value in part.values.items()},
            weights={name: weight for part in parts for name, weight in part.weights.items()},
            measures={name: measure for part in parts for name, measure in part.measures.items()},
        )

    def crm_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_crm (Eq. 1): the main head's cross-entropy and the estimator's own losses."""
        sample = batch.labelled
        assert sample.label is not None
        logits = nets["student"](sample.image)
        everywhere = torch.ones_like(sample.valid)
        own = self.regions.losses(logits, sample.label)
        return Terms(
            values=self.supervised_terms(logits["main"], sample)
            | {name: masked_mean(loss, everywhere, sample.valid) for name, loss in own.items()}
        )

    def certain_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_c-sn (Eq. 7): masked cross-entropy of the main head against its pseudo-labels."""
        sample = unlabelled(batch)
        return self.certain_terms(self.look(nets, sample), self.targets(nets, sample), sample)

    def consistency_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_cnt (Eq. 8): masked squared difference of the student's and the teacher's probabilities."""
        sample = unlabelled(batch)
        return self.consistency_terms(nets, self.look(nets, sample), self.targets(nets, sample), sample)

    def look(self, nets: Nets, sample: Sample) -> Tensor:
        """The student's main logits of its view of unlabelled images."""
        logits: Tensor = nets["student"](self.student_view(sample), ("main",))["main"]
        return logits

    def certain_terms(self, logits: Tensor, targets: tuple[Tensor, Tensor], sample: Sample) -> Terms:
        """Eq. 7, of logits."""
        pseudo_label, certain = targets
        region = certain if self.mask else torch.ones_like(certain)
        loss = cross_entropy(logits, pseudo_label)
        return Terms(
            values={"certain": masked_mean(loss, region, sample.valid, self.normalise)},
            weights={"certain": self.weights[0]},
        )

    def consistency_terms(self, nets: Nets, logits: Tensor, targets: tuple[Tensor, Tensor], sample: Sample) -> Terms:
        """Eq. 8, of the student's logits."""
        _, certain = targets
        region = certain if self.consistency_on == "certain" else ~certain
        with torch.no_grad():
            teacher = probabilities(nets["teacher"](sample.image, ("main",))["main"])
        difference = squared_difference(probabilities(logits), teacher)
        if not self.mask:
            region = torch.ones_like(region)
        return Terms(
            values={"consistency": masked_mean(difference, region, sample.valid, self.normalise)},
            weights={"consistency": self.weights[1]},
            measures={"uncertain_share": masked_mean(torch.ones_like(difference), ~certain, sample.valid)},
        )

    def student_view(self, sample: Sample) -> Tensor:
        """The image as it is, or at another contrast."""
        return intensity_view(sample.image, self.view, sample.unit) if self.view else sample.image

    def targets(self, nets: Nets, sample: Sample) -> tuple[Tensor, Tensor]:
        """Pseudo-label and certain mask of unlabelled images, from memory or from the student as it is now."""
        if self.masks == "stored":
            return sample.maps["label"].long(), sample.maps["certain"].bool()
        net = self.inference_net(nets)
        training = net.training
        net.eval()  # the batch statistics of a look at the targets must not move the student
        with torch.no_grad():
            seen = self.remember(self.decide(self.infer(net, sample.image)))
        net.train(training)
        return seen["label"].long(), seen["certain"].bool()

    def inference_net(self, nets: Nets, *, uncertainty: bool = True) -> Body:
        """The student, with what its estimator needs or with its main head alone."""
        net = super().inference_net(nets, uncertainty=uncertainty)
        return self.regions.join(net, nets) if uncertainty else net

    def remember(self, prediction: Prediction) -> dict[str, Tensor]:
        """Y_u and M_c."""
        assert prediction.regions is not None
        label = prediction.probabilities.argmax(dim=1)
        return {"label": label.to(torch.uint8), "certain": prediction.regions.certain.to(torch.uint8)}

    def on_labels_alone(self) -> Method:
        """L_crm alone, which still says what is uncertain."""
        return replace(self, self_training=False, mean_teacher=False)


def unlabelled(batch: Batch) -> Sample:
    """The unlabelled half, which the trainer guarantees to methods that use it."""
    assert batch.unlabelled is not None
    return batch.unlabelled


ABLATION: dict[str, CoraNet] = {
    "seg": CoraNet(self_training=False, mean_teacher=False),
    "seg+st": CoraNet(mean_teacher=False, mask=False),
    "seg+st (mask)": CoraNet(mean_teacher=False),
    "seg+mt": CoraNet(self_training=False, mask=False),
    "seg+mt (mask)": CoraNet(self_training=False),
    "seg+mt (mask, other reading)": CoraNet(self_training=False, consistency_on="certain"),
    "ours": CoraNet(),
}
"""The rows of the paper's ablation (Table 4). One row's text reads two ways; both are here."""
