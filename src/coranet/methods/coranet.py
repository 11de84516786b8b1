"""CoraNet: inconsistency-aware uncertainty estimation for semi-supervised segmentation (Shi et al., IEEE TMI 2021).

One encoder E, a main head D and two heads of opposite misclassification costs, D_con and D_rad. Where the latter disagree a
pixel of an unlabelled image is uncertain (`uncertainty/crm.py`). Certain pixels learn from the model's own pseudo-labels,
uncertain ones from a mean teacher:

    L_crm  = L_ce(D) + L_ce-con(D_con) + L_ce-rad(D_rad)            on labelled images              (Eq. 1)
    L_c-sn = 1/n Σ_j -Σ_z M_c q log p                               D against its pseudo-labels     (Eq. 7)
    L_cnt  = 1/n Σ_j ‖M_uc ⊗ (F(x) - F'(x))‖²                       D against the teacher's         (Eq. 8)
    E', D' ← β (E', D') + (1 - β) (E, D)                                                            (Eq. 9)

Algorithm 1, by its lines: pre-train with L_crm (2); start the teacher (3) and the masks (4); then in every step update by
L_c-sn (7), by L_cnt (9) and by L_crm (11), each with a fresh forward pass, and move the teacher (15). Pseudo-labels and
masks are refreshed (13) every five epochs (section IV-A).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.other_voice import heard
from coranet.nets import Body, Feature, MakeNet
from coranet.ops.losses import Normalise, probabilities
from coranet.ops.passes import evaluating, guess
from coranet.ops.regions import consistency_loss, pseudo_label_loss, share
from coranet.ops.teacher import copy_weights, follow
from coranet.types import Batch, Nets, Phase, Prediction, Progress, Sample, Terms, Update
from coranet.uncertainty import CRM, Estimator


class Targets(NamedTuple):
    """What the model says of unlabelled images, each `(B, *S)`."""

    label: Tensor
    """Y_u, integer classes."""
    certain: Tensor
    """M_c, bool."""

    @classmethod
    def of(cls, prediction: Prediction) -> Targets:
        """The main head's label, and where the estimator is certain."""
        assert prediction.regions is not None
        return cls(prediction.probabilities.argmax(dim=1), prediction.regions.certain)

    @classmethod
    def stored(cls, sample: Sample) -> Targets:
        """As they were at the last refresh, and as another model has it."""
        return cls(sample.maps["label"].long(), sample.maps["certain"].bool()).heard(sample)

    def heard(self, sample: Sample) -> Targets:
        """With the words of another model, but for those that are doubted."""
        return Targets(*heard(sample, self.label, self.certain))


@dataclass(frozen=True, kw_only=True)
class SeparateSelfTraining(Method):
    """What CoraNet and its variants share: networks, pre-training on labels, and a teacher for what comes after it."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "consistency"

    regions: Estimator = CRM(alpha=5.0)
    """What says which pixels are certain: the conservative-radical module, or another estimator."""
    weights: tuple[float, float] = (1.0, 1.0)
    """Of L_c-sn and L_cnt."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    pretrain_epochs: float = 30
    """Epochs on labels alone; a run of another length keeps the proportion."""
    selftrain_epochs: float = 100
    """Epochs with unlabelled images."""
    prior: float | None = None
    """The share of pixels that the two heads give each object before they have learnt anything; None leaves it to chance,
    as the text does."""

    def __post_init__(self) -> None:
        pairs = isinstance(self.regions, CRM) and self.regions.costs == "object"
        if self.prior is not None and not (0 < self.prior < 1 and pairs):
            raise InputError("prior is a share between 0 and 1, for the two heads of regions=crm with costs by object.")
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
        return (
            Phase(name="pretrain", epochs=self.pretrain_epochs, alone=True),
            Phase(name="selftrain", epochs=self.selftrain_epochs),
        )

    @property
    def uses_unlabelled(self) -> bool:
        """Whether any term needs unlabelled images."""
        return any(self.weights)

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """E with D, D_con and D_rad, the teacher, and networks that the estimator brings."""
        heads = {"main": make_net.classes, **self.regions.heads(make_net.classes)}
        student = make_net(heads, dropout=self.regions.dropout)
        if self.prior is not None and isinstance(self.regions, CRM):
            self.regions.begin_at(student.heads, self.prior)
        return {"student": student, "teacher": self.make_teacher(student), **self.regions.networks(make_net)}

    def make_teacher(self, student: Body) -> Body:
        """E' and D'."""
        return student.keeping(("main",)).requires_grad_(False).eval()

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """Line 2, then lines 7 to 11; networks that the estimator brings come last."""
        alone = phase == "pretrain" or not self.uses_unlabelled
        learnt = (Update(name="crm", loss=self.labelled_loss),) if alone else self.selftraining()
        return (*learnt, *self.regions.updates())

    @abstractmethod
    def selftraining(self) -> tuple[Update, ...]:
        """The updates of a step with unlabelled images, in order."""

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """Line 3: E', D' begin as E, D are after pre-training."""
        if phase == "selftrain":
            copy_weights(nets["teacher"], nets["student"])

    def remember(self, prediction: Prediction) -> dict[str, Tensor]:
        """Lines 4 and 13: Y_u and M_c."""
        return {name: values.to(torch.uint8) for name, values in Targets.of(prediction)._asdict().items()}

    def after_step(self, nets: Nets, at: Progress) -> None:
        """Line 15 (Eq. 9), during self-training."""
        if at.phase == "selftrain":
            follow(nets["teacher"], nets["student"], self.beta)

    def targets_now(self, nets: Nets, sample: Sample) -> Targets:
        """By the student as it is."""
        student = self.segmenter(nets)
        with evaluating(student.net), torch.no_grad():  # a look at the targets must not move running statistics
            return Targets.of(student(sample.image)).heard(sample)

    def on_labels_alone(self) -> Method:
        """L_crm alone, which still says what is uncertain."""
        return replace(self, weights=(0.0, 0.0))


@dataclass(frozen=True, kw_only=True)
class CoraNet(SeparateSelfTraining):
    """Certain pixels learn from pseudo-labels, uncertain ones from a mean teacher. The defaults are the text's."""

    hears: ClassVar[bool] = True

    self_training: bool = True
    """Learn from pseudo-labels (C-SN)."""
    mean_teacher: bool = True
    """Learn from the teacher (UC-SN)."""
    mask: bool = True
    """Keep the two to their regions; without it both learn from every pixel."""
    consistency_on: Literal["uncertain", "certain"] = "uncertain"
    """The teacher's region. `certain` is the other reading of the ablation's row `seg+mt (mask)`."""
    normalise: Normalise = "image"
    """Divide sums over pixels by the image's pixels or by the region's, of each image or of the batch. The paper's case
    for 1 : 1 needs the image."""
    updates: Literal["alternate", "joint"] = "alternate"
    """Three updates a step as in Algorithm 1, or one by the sum of the losses."""
    masks: Literal["stored", "online"] = "stored"
    """Pseudo-labels and masks kept between refreshes, or made anew in each step."""
    refresh_every: float = 5
    """Epochs between two refreshes of pseudo-labels and masks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.consistency_on == "certain" and self.uses_unlabelled and not (self.mask and self.mean_teacher):
            raise InputError("consistency_on=certain names the teacher's region: set mask and mean_teacher too.")

    @property
    def uses_unlabelled(self) -> bool:
        """Whether any term needs unlabelled images."""
        return self.self_training or self.mean_teacher

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Lines 2 and 5, with a refresh now and then (13)."""
        return refreshed(
            super().phases, self.refresh_every if self.masks == "stored" and self.uses_unlabelled else None
        )

    def selftraining(self) -> tuple[Update, ...]:
        """Lines 7, 9 and 11."""
        if self.updates == "joint":
            return (Update(name="joint", loss=self.loss),)
        certain = (Update(name="c-sn", loss=self.certain_loss),) if self.self_training else ()
        uncertain = (Update(name="uc-sn", loss=self.consistency_loss),) if self.mean_teacher else ()
        return (*certain, *uncertain, Update(name="crm", loss=self.labelled_loss))

    def certain_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_c-sn (Eq. 7)."""
        sample = unlabelled(batch)
        logits = nets["student"](sample.image, ("main",))["main"]
        return self.certain_terms(logits, self.targets(nets, sample), sample)

    def consistency_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_cnt (Eq. 8)."""
        sample = unlabelled(batch)
        logits = nets["student"](sample.image, ("main",))["main"]
        return self.consistency_terms(nets, logits, self.targets(nets, sample), sample)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """The sum of all, for one joint update, from one pass over labelled and one over unlabelled images."""
        sample = unlabelled(batch)
        targets = self.targets(nets, sample)
        logits = nets["student"](sample.image, ("main",))["main"]
        parts = [self.labelled_loss(nets, batch, at)]
        parts += [self.certain_terms(logits, targets, sample)] if self.self_training else []
        parts += [self.consistency_terms(nets, logits, targets, sample)] if self.mean_teacher else []
        return Terms.together(parts)

    def certain_terms(self, logits: Tensor, targets: Targets, sample: Sample) -> Terms:
        """Eq. 7, of logits."""
        region = targets.certain if self.mask else None
        loss = pseudo_label_loss(logits, targets.label, sample.valid, region, self.normalise)
        return Terms(values={"certain": loss}, weights={"certain": self.weights[0]})

    def consistency_terms(self, nets: Nets, logits: Tensor, targets: Targets, sample: Sample) -> Terms:
        """Eq. 8, of the student's logits."""
        region = targets.certain if self.consistency_on == "certain" else ~targets.certain
        teacher, within = guess(nets["teacher"], sample.image), region if self.mask else None
        loss = consistency_loss(probabilities(logits), teacher, sample.valid, within, self.normalise)
        return Terms(
            values={"consistency": loss},
            weights={"consistency": self.weights[1]},
            measures={"uncertain_share": share(~targets.certain, sample.valid)},
        )

    def targets(self, nets: Nets, sample: Sample) -> Targets:
        """Pseudo-label and certain mask of unlabelled images, from memory or from the student as it is now."""
        return Targets.stored(sample) if self.masks == "stored" else self.targets_now(nets, sample)

    def on_labels_alone(self) -> Method:
        """L_crm alone, which still says what is uncertain."""
        return replace(self, self_training=False, mean_teacher=False)


def unlabelled(batch: Batch) -> Sample:
    """The unlabelled half, which the trainer guarantees to methods that use it."""
    assert batch.unlabelled is not None
    return batch.unlabelled


def refreshed(phases: tuple[Phase, ...], every: float | None) -> tuple[Phase, ...]:
    """The same, with maps made anew in the last one as often as this."""
    return (*phases[:-1], replace(phases[-1], refresh_every=every))


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
