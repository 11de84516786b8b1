"""The conservative-radical module (Shi et al., IEEE TMI 2021, section III-B).

Two heads learn the same labels at opposite costs. For an object k against the rest, with background as class 0,

    L_ce-con = -Σ_z w_con q_z log p_z,  w_con = (α, 1)      a false object costs α
    L_ce-rad = -Σ_z w_rad q_z log p_z,  w_rad = (1, α)      a missed object costs α
    M_uc = Y_rad xor Y_con,  M_c = 1 - M_uc

With more objects than one each has a pair of its own, and a pixel is uncertain where any pair disagrees. With one object
this is the text. The other way to many classes has K outputs in each head, a cost for background and one for all objects:

    w_con = (α, 1, .., 1),  w_rad = (1, α, .., α),  M_uc = 1 where Y_rad ≠ Y_con

It is kept to show that it is blind between neighbouring organs. A head that has learnt the posterior p at costs w says
w_k p_k / Σ_j w_j p_j, so both heads keep the ratio of any two organs and prefer the same one, however close they are.

With α = 1 the heads differ by their initialisation alone, the row marked with a star in the paper's table of costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.ops.losses import cross_entropy, probabilities
from coranet.ops.regions import agreement
from coranet.types import Regions
from coranet.uncertainty.estimator import Estimator


@dataclass(frozen=True, kw_only=True)
class CRM(Estimator):
    """Uncertain is where a conservative and a radical head disagree."""

    rule: ClassVar[str] = (
        "con > 0.5 and rad > 0.5 differ for any object (for costs background, where their largest classes differ)"
    )

    alpha: float = 5.0
    """How many times dearer one kind of mistake is than the other."""
    costs: Literal["object", "background"] = "object"
    """A pair of outputs for each object, or one cost for the background and one for all objects: blind between organs."""

    def __post_init__(self) -> None:
        if self.alpha < 1:
            raise InputError(f"alpha is a ratio of costs and at least 1, not {self.alpha}.")

    def heads(self, classes: int) -> dict[str, int]:
        """A pair of outputs, rest and object, for each object; or an output for each class."""
        outputs = 2 * (classes - 1) if self.costs == "object" else classes
        return {"con": outputs, "rad": outputs}

    def losses(self, logits: Mapping[str, Tensor], label: Tensor) -> dict[str, Tensor]:
        """L_ce-con and L_ce-rad at every voxel, averaged over objects where each has its pair."""
        con, rad = logits["con"], logits["rad"]
        if self.costs == "background":
            objects = con.shape[1] - 1
            return {
                "con": cross_entropy(con, label, costs=(self.alpha, *[1.0] * objects)),
                "rad": cross_entropy(rad, label, costs=(1.0, *[self.alpha] * objects)),
            }
        con, rad = as_pairs(con), as_pairs(rad)
        masks = object_masks(label, con.shape[2])
        return {
            "con": cross_entropy(con, masks, costs=(self.alpha, 1.0)).mean(dim=1),
            "rad": cross_entropy(rad, masks, costs=(1.0, self.alpha)).mean(dim=1),
        }

    def begin_at(self, heads: nn.ModuleDict, prior: float) -> None:
        """Have both heads begin by giving each object that share of pixels, at their costs, whatever they see."""
        odds = torch.tensor(prior / (1 - prior))
        for name, cost in (("con", 1 / self.alpha), ("rad", self.alpha)):
            rest, objects = cast(Tensor, cast(nn.Sequential, heads[name])[-1].bias).data.chunk(2)
            rest.zero_()
            objects.fill_(float(torch.log(odds * cost)))

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """All three heads from one pass; con and rad as each object's probability, `(B, K - 1, *S)`, or each class's."""
        logits = net(image, ("main", "con", "rad"))
        return {"main": probabilities(logits["main"]), **{name: self.soft(logits[name]) for name in ("con", "rad")}}

    def soft(self, logits: Tensor) -> Tensor:
        """What a head says of each object, `(B, K - 1, *S)`, or of each class, `(B, K, *S)`."""
        return probabilities(as_pairs(logits))[:, 1] if self.costs == "object" else probabilities(logits)

    def judge(self, maps: Mapping[str, Tensor]) -> Regions:
        """M_c, with both masks kept as label maps to look at."""
        con, rad = maps["con"], maps["rad"]
        if self.costs == "object":
            certain = agreement(con > 0.5, rad > 0.5)
            conservative, radical = most_likely_object(con), most_likely_object(rad)
        else:
            conservative, radical = (soft.argmax(dim=1).to(torch.uint8) for soft in (con, rad))
            certain = conservative == radical
        return Regions(
            certain=certain,
            score=(rad - con).abs().amax(dim=1),
            maps={"conservative": conservative, "radical": radical},
            soft={"con": con, "rad": rad} if self.costs == "object" else {"con": con[:, 1:], "rad": rad[:, 1:]},
        )


def as_pairs(logits: Tensor) -> Tensor:
    """`(B, 2 (K - 1), *S)` to `(B, 2, K - 1, *S)`: rest and object, for each object."""
    pairs: Tensor = logits.unflatten(1, (2, -1))  # and no `len`, which an exported network would take for a constant
    return pairs


def object_masks(label: Tensor, objects: int) -> Tensor:
    """One mask for each object, `(B, *S)` classes to `(B, K - 1, *S)` of 0 and 1."""
    index = torch.arange(1, objects + 1, device=label.device).view(1, -1, *[1] * (label.ndim - 1))
    return (label.unsqueeze(1) == index).long()


def most_likely_object(probabilities: Tensor) -> Tensor:
    """A label map to look at: the most likely object where one is above one half, else background."""
    highest, which = probabilities.max(dim=1)
    return torch.where(highest > 0.5, which + 1, 0).to(torch.uint8)
