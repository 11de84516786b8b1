"""Uncertainty-aware multi-view co-training, UMCT (Xia et al., Medical Image Analysis 2020).

Network i sees the image in its own orientation T_i and answers in the image's: p_i(x) = T_i⁻¹ f_i(T_i x). With mean m_i and
variance v_i, summed over classes, of passes with dropout,

    q_i = Σ_{j≠i} m_j / v_j  /  Σ_{j≠i} 1 / v_j                              at every pixel: the others' word for view i
    L = Σ_i L_sup(p_i(x_l)) + λ w(t) Σ_i Dice(p_i(x_u), q_i)

q_i is soft, and no gradient flows into it. In 3D views are the orders of the axes, as in the paper; in 2D quarter turns,
then mirrorings. They may change the window's shape, which the networks do not mind. `2v` and `6v` are two and six views, of
which the first predicts; `6v+` averages all at test (`ensemble`). Passes for q_i leave running statistics as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.nets import Body, Feature, MakeNet, body_of
from coranet.ops.entropy import log
from coranet.ops.features import surest
from coranet.ops.losses import probabilities
from coranet.ops.mixing import mixed_dice
from coranet.ops.passes import dropout_on, evaluating
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.space.orientation import ORIENTATIONS, Orientation
from coranet.types import Batch, Nets, Progress, Terms, Update


@dataclass(frozen=True, kw_only=True)
class MultiViewCoTraining(Method):
    """Networks that see an image from different sides each learn from what the others are sure of."""

    paper: ClassVar[str] = "Xia et al., MedIA 2020"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    views: int = 2
    """How many networks, 2 to 6."""
    ensemble: bool = False
    """Predict with the mean of all views."""
    weight: float = 0.2
    """λ, of the co-training term."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    passes: int = 10
    """With dropout, for mean and variance."""
    dropout: float = 0.5
    """Rate of dropout."""

    def __post_init__(self) -> None:
        if not 2 <= self.views <= 6:
            raise InputError(f"There are 2 to 6 views, not {self.views}.")

    @property
    def needs(self) -> frozenset[Feature]:
        """Dropout is what makes the passes differ."""
        return frozenset({"dropout"})

    @property
    def names(self) -> tuple[str, ...]:
        """Of the networks, in order of the views."""
        return ("student", *(f"view{number}" for number in range(2, self.views + 1)))

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One for each view."""
        return {name: make_net(dropout=self.dropout) for name in self.names}

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """All of them at once."""
        return (Update(name="views", loss=self.loss, trains=self.names),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Each view's supervised terms, and its distance to the others' word."""
        sides = ORIENTATIONS[batch.labelled.valid.ndim - 1]
        pairs = [(nets[name], side) for name, side in zip(self.names, sides, strict=False)]
        each = [self.supervised_terms(answer(net, side, batch.labelled.image), batch.labelled) for net, side in pairs]
        values = {name: torch.stack([terms[name] for terms in each]).sum() for name in each[0]}
        if batch.unlabelled is None:
            return Terms(values=values)
        image, valid = batch.unlabelled.image, batch.unlabelled.valid
        looks = [self.look(net, side, image) for net, side in pairs]
        apart = []
        for number, (net, side) in enumerate(pairs):
            target = surest([look for other, look in enumerate(looks) if other != number])
            apart.append(mixed_dice(probabilities(answer(net, side, image)), target, valid))
        values["co-training"] = torch.stack(apart).sum()
        return Terms(values=values, weights={"co-training": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    @torch.no_grad()
    def look(self, net: nn.Module, side: Orientation, image: Tensor) -> tuple[Tensor, Tensor]:
        """Mean `(B, K, *S)` and variance `(B, 1, *S)` of passes with dropout."""
        with evaluating(net), dropout_on(net):
            drawn = torch.stack([probabilities(answer(net, side, image)) for _ in range(self.passes)])
        return drawn.mean(dim=0), drawn.var(dim=0, correction=0).sum(dim=1, keepdim=True)

    def predicting(self, nets: Nets) -> Body:
        """The first view, or all."""
        return ViewBodies([body_of(nets, name) for name in self.names]) if self.ensemble else body_of(nets)


class ViewBodies(Body):
    """One network for each view, as one that answers by the logarithm of their mean probability."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        super().__init__()
        self.views = nn.ModuleList(bodies)
        self.heads, self.decoders = nn.ModuleDict({"main": nn.Identity()}), nn.ModuleDict()
        self.multiple = bodies[0].multiple

    def encode(self, image: Tensor) -> list[Tensor]:
        """The first view's levels."""
        return cast(Body, self.views[0]).encode(image)

    def forward(self, image: Tensor, heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits of the head `main`."""
        pairs = zip(self.views, ORIENTATIONS[image.ndim - 2], strict=False)
        each = [probabilities(answer(body, side, image)) for body, side in pairs]
        return {"main": log(torch.stack(each).mean(dim=0))}


def answer(net: nn.Module, side: Orientation, image: Tensor) -> Tensor:
    """A view's logits in the image's own orientation, `(B, K, *S)`."""
    logits: Tensor = net(side.apply(image), ("main",))["main"]
    return side.undo(logits)
