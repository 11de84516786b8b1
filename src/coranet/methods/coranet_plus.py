"""CoraNet for today: conservative and radical heads, one joint step, an averaged teacher and strong views.

What is CoraNet's (Shi et al., IEEE TMI 2021): two heads of opposite costs say which pixels of an unlabelled image are
certain (`uncertainty/crm.py`); certain ones learn from pseudo-labels, uncertain ones by consistency with a teacher. What is
new: all of it in one step, everything is said by the averaged teacher F' of the image as it is, and learnt by the student F
from strong views v of it, at other contrasts and with boxes of another image (FixMatch, Sohn et al., NeurIPS 2020; two views
and Dice as in UniMatch, Yang et al., CVPR 2023):

    q = F'(x),   ŷ = argmax_k q_k,   w = 1 where Y'_con = Y'_rad, else 0
    L = L_crm(x_l) + r [λ_c (CE_w(F(v x), v ŷ) + D_w(F(v x), v ŷ)) + λ_u mean (1 - v w) ‖F(v x) - v q‖²]
    F' ← β F' + (1 - β) F

L_crm are the losses of all three heads on labels, r is a ramp after a warm-up on labels alone, D is Dice over pixels that
weigh w. Labels, weights and targets are cut like images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.other_voice import doubted, told_terms
from coranet.nets import Body, Feature, MakeNet, body_of
from coranet.ops.features import drop_channels
from coranet.ops.losses import cross_entropy, masked_mean, one_hot, probabilities, soft_dice, squared_difference
from coranet.ops.mixing import cutmix_boxes, cutmixed, pasted
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident, share
from coranet.ops.teacher import copy_weights, follow, frozen_copy
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms, Update
from coranet.uncertainty import CRM, Estimator


class Guide(NamedTuple):
    """What the teacher says of images, each `(B, *S)` or `(B, K, *S)`."""

    label: Tensor
    weight: Tensor
    """w, 1 where certain."""
    target: Tensor
    """q."""
    allowed: Tensor
    """Classes that one of the two heads speaks for."""
    score: Tensor
    """How far the heads are apart."""
    valid: Tensor


@dataclass(frozen=True, kw_only=True)
class CoraNetPlus(Method):
    """Certain pixels learn from an averaged teacher's labels, uncertain ones from its probabilities, by strong views."""

    paper: ClassVar[str] = "Shi et al., IEEE TMI 2021, carried on here"
    high: ClassVar[str] = "pseudo-labels"
    low: ClassVar[str] = "consistency"
    hears: ClassVar[bool] = True

    alpha: float = 5.0
    """How many times dearer one kind of mistake is than the other to the conservative and the radical head."""
    region: Literal["crm", "softmax", "chance", "none"] = "crm"
    """What is certain: where the two heads agree, what the teacher's softmax is sure of, as many pixels as the heads leave
    but drawn by chance, or every pixel."""
    threshold: float = 0.95
    """Of the region `softmax`."""
    soft: bool = False
    """Weigh pixels by how near the heads are to each other, w = 1 - max_k |p_rad - p_con|, rather than by yes or no."""
    labels: Literal["main", "heads"] = "main"
    """Whose labels are learnt: the main head's, or its mean with the two others, whose biases by cost cancel."""
    candidates: float = 0.0
    """Weight of -log Σ p_k over the classes that either head speaks for, in the uncertain region."""
    views: int = 2
    """Strong views a step."""
    strength: float = 0.5
    """How much contrast, brightness and noise of a strong view differ, in units of the scans' spread."""
    cutmix: float = 0.5
    """The chance that a strong view holds a box of another image."""
    boxes: Literal["random", "disagreement"] = "random"
    """Where boxes lie: anywhere, or about voxels that the heads disagree on in the image they are taken from."""
    paste: float = 0.0
    """The chance that a strong view holds a box of a labelled image, with its label."""
    feature_dropout: float = 0.0
    """The share of channels that are dropped from each level for one more view; 0 leaves it out."""
    pseudo_dice: float = 1.0
    """Weight of Dice beside the cross-entropy on pseudo-labels."""
    weights: tuple[float, float] = (1.0, 1.0)
    """λ_c and λ_u, of certain and uncertain pixels."""
    warm_up: float = 0.15
    """Share of the run on labels alone."""
    ramp: float = 0.3
    """Share of what follows over which the weights grow."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    beta_end: float | None = None
    """How slowly at the end of the run, where it slows down."""
    prior: float | None = None
    """The share of pixels that the two heads give each object before they have learnt anything; None leaves it to chance."""
    predicts: Literal["student", "teacher"] = "student"
    """Who is asked for predictions: the student, or its average."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up <= 1 or self.views < 1:
            raise InputError(
                f"warm_up is a share of the run and views are at least 1, not {self.warm_up}, {self.views}."
            )
        if self.prior is not None and not 0 < self.prior < 1:
            raise InputError(f"prior is a share of pixels between 0 and 1, not {self.prior}.")

    @property
    def needs(self) -> frozenset[Feature]:
        """Levels to drop channels of, where that is asked for."""
        return frozenset({"levels"}) if self.feature_dropout else frozenset()

    @property
    def estimator(self) -> Estimator:
        """The conservative-radical module, a pair of outputs for each object."""
        return CRM(alpha=self.alpha)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Labels alone, then all at once."""
        return Phase(name="labels", epochs=130 * self.warm_up), Phase(name="joint", epochs=130 * (1 - self.warm_up))

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Three heads, and a teacher of all of them."""
        student = make_net({"main": make_net.classes, **self.estimator.heads(make_net.classes)})
        if self.prior is not None:
            odds = self.prior / (1 - self.prior)
            for name, cost in (("con", 1 / self.alpha), ("rad", self.alpha)):
                rest, objects = cast(Tensor, cast(nn.Sequential, student.heads[name])[-1].bias).data.chunk(2)
                rest.zero_()
                objects.fill_(float(torch.tensor(odds * cost).log()))
        return {"student": student, "teacher": frozen_copy(student)}

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """The teacher begins where the student is after the warm-up."""
        if phase == "joint":
            copy_weights(nets["teacher"], nets["student"])

    def after_step(self, nets: Nets, at: Progress) -> None:
        """F' ← β F' + (1 - β) F, buffers too."""
        follow(nets["teacher"], nets["student"], self.slowness(at))

    def slowness(self, at: Progress) -> float | Tensor:
        """β of a step."""
        return self.beta if self.beta_end is None else self.beta + (self.beta_end - self.beta) * (at.step / at.steps)

    def predicting(self, nets: Nets) -> Body:
        """The student, or its average."""
        return body_of(nets, self.predicts)

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """One a step."""
        return (Update(name=phase, loss=self.loss if phase == "joint" else self.crm_loss),)

    def crm_loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L_crm."""
        sample = batch.labelled
        assert sample.label is not None
        logits = nets["student"](sample.image)
        own = self.estimator.losses(logits, sample.label)
        told = told_terms(
            batch.unlabelled,
            at,
            self.phases[0].name,
            lambda told: self.supervised_terms(nets["student"](told.image, ("main",))["main"], told),
        )
        return Terms(
            values=self.supervised_terms(logits["main"], sample)
            | {name: masked_mean(loss, sample.valid) for name, loss in own.items()}
            | told
        )

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        crm, sample = self.crm_loss(nets, batch, at), batch.unlabelled
        if sample is None:
            return crm
        student, guide = body_of(nets), self.guide(body_of(nets, "teacher"), sample)
        images, guides = zip(*(self.strong(sample, guide, batch.labelled) for _ in range(self.views)), strict=True)
        logits = [*student(torch.cat(images), ("main",))["main"].chunk(self.views)]
        if self.feature_dropout:
            levels = [drop_channels(level, self.feature_dropout) for level in student.encode(sample.image)]
            logits.append(student.read(levels, ("main",))["main"])
            guides = (*guides, guide)
        ramp = gaussian_ramp(at.phase_step, self.ramp * at.phase_steps)
        parts = [self.taught(said, by) for said, by in zip(logits, guides, strict=True)]
        return Terms(
            values={**crm.values, **{name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}},
            weights={
                "certain": self.weights[0] * ramp,
                "uncertain": self.weights[1] * ramp,
                "candidates": self.candidates * ramp,
            },
            measures={"uncertain_share": share(1 - guide.weight, sample.valid)},
        )

    @torch.no_grad()
    def guide(self, teacher: Body, sample: Sample) -> Guide:
        """What the teacher says of images as they are."""
        maps = self.estimator.infer(teacher, sample.image)
        regions, (target, con, rad) = self.estimator.judge(maps), (maps[name] for name in ("main", "con", "rad"))
        if self.labels == "heads":
            objects = torch.sigmoid((torch.logit(con, 1e-6) + torch.logit(rad, 1e-6)) / 2)
            both = torch.cat([(1 - objects.sum(dim=1, keepdim=True)).clamp(min=1e-6), objects], dim=1)
            target = (target + both / both.sum(dim=1, keepdim=True)) / 2
        spoken = torch.cat([~(con > 0.5).any(dim=1, keepdim=True), (rad > 0.5) | (con > 0.5)], dim=1)
        label = target.argmax(dim=1)
        weight = self.weigh(regions.certain, regions.score, target, sample.valid)
        return Guide(
            label=label,
            weight=weight * doubted(sample, label, torch.ones_like(regions.certain)),
            target=target,
            allowed=spoken,
            score=torch.where(sample.valid, regions.score, 0.0),
            valid=sample.valid,
        )

    def weigh(self, certain: Tensor, score: Tensor, target: Tensor, valid: Tensor) -> Tensor:
        """The weight w of each pixel."""
        if self.region == "softmax":
            certain = confident(target, self.threshold)
        elif self.region == "chance":
            share = (certain & valid).sum() / valid.sum().clamp(min=1)
            certain = torch.rand_like(score) < share
        elif self.region == "none":
            certain = torch.ones_like(certain)
        return 1 - score if self.soft else certain.to(score.dtype)

    def strong(self, sample: Sample, guide: Guide, labelled: Sample) -> tuple[Tensor, Guide]:
        """A strong view, and what it is taught by."""
        image = strong_view(sample.image, self.strength, sample.unit)
        density = guide.score.roll(1, 0) if self.boxes == "disagreement" else None
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix, density=density)
        image, guide = cutmixed(image, boxes), Guide(*(cutmixed(part, boxes) for part in guide))
        if not self.paste:
            return image, guide
        number = torch.arange(len(image), device=image.device) % len(labelled.image)
        assert labelled.label is not None
        label, valid = labelled.label[number], labelled.valid[number]
        truth = one_hot(label, guide.target.shape[1])
        known = Guide(label, torch.ones_like(guide.weight), truth, truth > 0, torch.zeros_like(guide.score), valid)
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.paste)
        piece = strong_view(labelled.image[number], self.strength, labelled.unit)
        return pasted(image, piece, boxes), Guide(*(pasted(a, b, boxes) for a, b in zip(guide, known, strict=True)))

    def taught(self, logits: Tensor, by: Guide) -> dict[str, Tensor]:
        """The terms of one view."""
        p = probabilities(logits)
        certain = masked_mean(by.weight * cross_entropy(logits, by.label), by.valid)
        if self.pseudo_dice:  # the root: sums in it hold the mask's square
            certain = certain + self.pseudo_dice * soft_dice(p, by.label, (by.weight * by.valid).sqrt())
        apart = (1 - by.weight) * squared_difference(p, by.target)
        terms = {"certain": certain, "uncertain": masked_mean(apart, by.valid)}
        if self.candidates:
            inside = (p * by.allowed).sum(dim=1).clamp(min=1e-6)
            terms["candidates"] = masked_mean(-(1 - by.weight) * inside.log(), by.valid)
        return terms
