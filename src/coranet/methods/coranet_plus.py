"""CoraNet for today: conservative and radical heads, one joint step, an averaged teacher and strong views.

What is CoraNet's (Shi et al., IEEE TMI 2021): two heads of opposite costs say which pixels of an unlabelled image are
certain (`uncertainty/crm.py`); certain ones learn from pseudo-labels, uncertain ones by consistency with a teacher. What is
new: all of it in one step, everything is said by the averaged teacher F' of the image as it is, and learnt by the student F
from strong views v of it, at other contrasts and with boxes of another image (FixMatch, Sohn et al., NeurIPS 2020; two views
and Dice as in UniMatch, Yang et al., CVPR 2023):

    q = F'(x),   ŷ = argmax_k q_k,   w = 1 where Y'_con = Y'_rad, else 0
    L = L_crm(x_l) + r [λ_c (CE_w(F(v x), v ŷ) + D_w(F(v x), v ŷ)) + λ_u mean (1 - v w) ‖F(v x) - v q‖²]
    F' ← β F' + (1 - β) F,   β from 0.99 to 0.999 over the run, but never over more than a sixth of its T steps: β ≤ 1 - 6/T

L_crm are the losses of all three heads on labels, r is a ramp after a warm-up on labels alone, D is Dice over pixels that
weigh w. Labels, weights and targets are cut like images. F' predicts. With `band` the heads' costs are shifted until as
many pixels are uncertain as a schedule says (`ops.regions.narrowest_margins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.methods.other_voice import heard
from coranet.nets import Body, MakeNet, body_of
from coranet.ops.losses import cross_entropy, masked_mean, probabilities, soft_dice, squared_difference
from coranet.ops.mixing import cutmix_boxes, cutmixed
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident, narrowest_margins, object_shares, share
from coranet.ops.teacher import copy_weights, follow, frozen_copy
from coranet.types import Batch, Nets, Phase, Progress, Sample, Terms, Update
from coranet.uncertainty import CRM
from coranet.uncertainty.crm import middle_of_heads


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
    band: tuple[float, float] | None = None
    """Uncertain pixels to one pixel of an object, at the beginning and at the end; None leaves it to alpha."""
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
    pseudo_dice: float = 1.0
    """Weight of Dice beside the cross-entropy on pseudo-labels."""
    weights: tuple[float, float] = (1.0, 1.0)
    """λ_c and λ_u, of certain and uncertain pixels."""
    warm_up: float = 0.15
    """Share of the run on labels alone."""
    ramp: float = 0.3
    """Share of what follows over which the weights grow."""
    wait: float = 0.0
    """Learn from unlabelled images only in steps in which pseudo-labels hold at least this share of what labels hold of each
    object; 0 does not wait."""
    beta: float = 0.99
    """How slowly the teacher follows."""
    beta_end: float | None = 0.999
    """How slowly at the end of the run; None keeps beta."""
    teachers: Literal[1, 2] = 1
    """Two follow by turns and teach by their mean (AD-MT, Zhao et al., ECCV 2024); the first of them predicts."""
    turn: int = 50
    """Steps that one of two teachers follows while the other rests."""
    prior: float | None = None
    """The share of pixels that the two heads give each object before they have learnt anything; None leaves it to chance."""
    predicts: Literal["student", "teacher"] = "teacher"
    """Who is asked for predictions: the student, or its average."""

    def __post_init__(self) -> None:
        if not 0 <= self.warm_up <= 1 or (self.prior is not None and not 0 < self.prior < 1):
            raise InputError(f"warm_up and prior are shares between 0 and 1, not {self.warm_up} and {self.prior}.")
        if min(self.views, self.turn) < 1 or min(self.wait, *(self.band or (0,))) < 0:
            raise InputError("views and turn are at least 1, wait and band are not negative.")

    @property
    def estimator(self) -> CRM:
        """The conservative-radical module, a pair of outputs for each object."""
        return CRM(alpha=self.alpha)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Labels alone, then all at once."""
        warm_up, rest = 130 * self.warm_up, 130 * (1 - self.warm_up)
        return Phase(name="labels", epochs=warm_up, alone=True), Phase(name="joint", epochs=rest)

    @property
    def lambdas(self) -> dict[str, float]:
        """The weight of each term that unlabelled images have."""
        return {"certain": self.weights[0], "uncertain": self.weights[1], "candidates": self.candidates}

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """Three heads, and a teacher of all of them."""
        student = make_net({"main": make_net.classes, **self.estimator.heads(make_net.classes)})
        if self.prior is not None:
            self.estimator.begin_at(student.heads, self.prior)
        teachers = ("teacher", "teacher2")[: self.teachers]
        return {"student": student, **{name: frozen_copy(student) for name in teachers}}

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """Teachers begin where the student is after the warm-up."""
        if phase == "joint" and any(self.lambdas.values()):
            for teacher in self.teaching(nets):
                copy_weights(teacher, nets["student"])

    def after_step(self, nets: Nets, at: Progress) -> None:
        """F' ← β F' + (1 - β) F, buffers too; of two teachers one rests."""
        beta = self.slowness(at)
        for number, teacher in enumerate(self.teaching(nets)):
            resting = (at.step // self.turn) % self.teachers != number
            follow(teacher, nets["student"], beta if self.teachers == 1 else torch.where(resting, 1.0, beta))

    def slowness(self, at: Progress) -> float | Tensor:
        """β of a step."""
        most = max(1 - 6 / at.steps, 0.0)
        if self.beta_end is None:
            return min(self.beta, most)
        return (self.beta + (self.beta_end - self.beta) * (at.step / at.steps)).clamp(max=most)

    def teaching(self, nets: Nets) -> list[Body]:
        """One teacher or two."""
        return [body_of(nets, name) for name in nets if name.startswith("teacher")]

    def predicting(self, nets: Nets) -> Body:
        """The student, or its average."""
        return body_of(nets, self.predicts)

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """One a step."""
        joint = phase == "joint" and any(self.lambdas.values())
        return (Update(name=phase, loss=self.loss if joint else self.labelled_loss),)

    def on_labels_alone(self) -> Method:
        """L_crm alone, which still says what is uncertain."""
        return replace(self, weights=(0.0, 0.0), candidates=0.0)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """L."""
        crm, sample = self.labelled_loss(nets, batch, at), batch.unlabelled
        if sample is None:
            return crm
        student, guide = body_of(nets), self.guide(self.teaching(nets), sample, at.phase_step / at.phase_steps)
        images, guides = zip(*(self.strong(sample, guide) for _ in range(self.views)), strict=True)
        logits = student(torch.cat(images), ("main",))["main"].chunk(self.views)
        ramp = gaussian_ramp(at.phase_step, self.ramp * at.phase_steps)
        if self.wait:
            assert batch.labelled.label is not None
            held = object_shares(batch.labelled.label, batch.labelled.valid, guide.target.shape[1])
            found = object_shares(guide.label, guide.valid, guide.target.shape[1])
            ramp = ramp * (found >= self.wait * held).all()
        parts = [self.taught(said, by) for said, by in zip(logits, guides, strict=True)]
        return Terms(
            values={**crm.values, **{name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}},
            weights={name: weight * ramp for name, weight in self.lambdas.items()},
            measures={"uncertain_share": share(1 - guide.weight, sample.valid)},
        )

    @torch.no_grad()
    def guide(self, teachers: Sequence[Body], sample: Sample, done: Tensor) -> Guide:
        """What the teachers say of images as they are, when so much of the phase is done."""
        each = [self.estimator.infer(teacher, sample.image) for teacher in teachers]
        maps = {name: torch.stack([one[name] for one in each]).mean(dim=0) for name in each[0]}
        regions, (target, con, rad) = self.estimator.judge(maps), (maps[name] for name in ("main", "con", "rad"))
        if self.labels == "heads":
            target = (target + middle_of_heads(con, rad)) / 2
        spoken = torch.cat([~(con > 0.5).any(dim=1, keepdim=True), (rad > 0.5) | (con > 0.5)], dim=1)
        label, certain = target.argmax(dim=1), regions.certain
        if self.band:
            width = self.band[0] + (self.band[1] - self.band[0]) * done
            certain = narrowest_margins(con, rad, sample.valid, width * ((label > 0) & sample.valid).sum())
        label, weight = heard(sample, label, self.weigh(certain, regions.score, target, sample.valid))
        return Guide(
            label=label,
            weight=weight,
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

    def strong(self, sample: Sample, guide: Guide) -> tuple[Tensor, Guide]:
        """A strong view, and what it is taught by."""
        image = strong_view(sample.image, self.strength, sample.unit)
        density = guide.score.roll(1, 0) if self.boxes == "disagreement" else None
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix, density=density)
        return cutmixed(image, boxes), Guide(*(cutmixed(part, boxes) for part in guide))

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
