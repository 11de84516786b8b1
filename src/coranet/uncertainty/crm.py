"""The conservative-radical module (Shi et al., IEEE TMI 2021, section III-B).

Two heads learn the same labels at opposite costs. For an object k against the rest, with background as class 0,

    L_ce-con = -Σ_z w_con q_z log p_z,  w_con = (α, 1)      a false object costs α
    L_ce-rad = -Σ_z w_rad q_z log p_z,  w_rad = (1, α)      a missed object costs α
    M_uc = Y_rad xor Y_con,  M_c = 1 - M_uc

With more objects than one each has a pair of its own, and a pixel is uncertain where any pair disagrees: one cost for the
background and one for all objects would never disagree between two neighbouring organs. With one object this is the text.
With α = 1 the heads differ by their initialisation alone, the row marked with a star in the paper's table of costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from coranet.errors import InputError
from coranet.nets import Body
from coranet.ops.losses import cross_entropy, probabilities
from coranet.ops.regions import agreement
from coranet.types import Regions
from coranet.uncertainty.base import Estimator


@dataclass(frozen=True, kw_only=True)
class CRM(Estimator):
    """Uncertain is where a conservative and a radical head disagree."""

    alpha: float = 5.0
    """How many times dearer one kind of mistake is than the other."""

    def __post_init__(self) -> None:
        if self.alpha < 1:
            raise InputError(f"alpha is a ratio of costs and at least 1, not {self.alpha}.")

    def heads(self, classes: int) -> dict[str, int]:
        """A pair of outputs, rest and object, for each object."""
        pairs = 2 * (classes - 1)
        return {"con": pairs, "rad": pairs}

    def losses(self, logits: Mapping[str, Tensor], label: Tensor) -> dict[str, Tensor]:
        """L_ce-con and L_ce-rad at every voxel, averaged over objects."""
        con, rad = as_pairs(logits["con"]), as_pairs(logits["rad"])
        objects = object_masks(label, con.shape[2])
        return {
            "con": cross_entropy(con, objects, costs=(self.alpha, 1.0)).mean(dim=1),
            "rad": cross_entropy(rad, objects, costs=(1.0, self.alpha)).mean(dim=1),
        }

    def infer(self, net: Body, image: Tensor) -> dict[str, Tensor]:
        """All three heads from one pass; con and rad as each object's probability, `(B, K - 1, *S)`."""
        logits = net(image, ("main", "con", "rad"))
        maps = {name: probabilities(as_pairs(logits[name]))[:, 1] for name in ("con", "rad")}
        return {"main": probabilities(logits["main"]), **maps}

    def regions(self, maps: Mapping[str, Tensor]) -> Regions:
        """M_c, with both masks kept as label maps to look at."""
        con, rad = maps["con"] > 0.5, maps["rad"] > 0.5
        return Regions(
            certain=agreement(con, rad),
            score=(maps["rad"] - maps["con"]).abs().amax(dim=1),
            maps={"conservative": most_likely_object(maps["con"]), "radical": most_likely_object(maps["rad"])},
        )


def as_pairs(logits: Tensor) -> Tensor:
    """`(B, 2 (K - 1), *S)` to `(B, 2, K - 1, *S)`: rest and object, for each object."""
    return logits.view(len(logits), 2, -1, *logits.shape[2:])


def object_masks(label: Tensor, objects: int) -> Tensor:
    """One mask for each object, `(B, *S)` classes to `(B, K - 1, *S)` of 0 and 1."""
    index = torch.arange(1, objects + 1, device=label.device).view(1, -1, *[1] * (label.ndim - 1))
    return (label.unsqueeze(1) == index).long()


def most_likely_object(probabilities: Tensor) -> Tensor:
    """A label map to look at: the most likely object where one is above one half, else background."""
    highest, which = probabilities.max(dim=1)
    return torch.where(highest > 0.5, which + 1, 0).to(torch.uint8)
