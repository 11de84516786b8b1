"""A deep ensemble (Lakshminarayanan et al., NIPS 2017).

    p = 1/M Σ_m softmax f_m(x),   certain where max_k p_k > threshold

M networks start from weights of their own and learn labelled images by cross-entropy, beside the one that predicts; the
label is the latter's. In a step all of them see the same images. The adversarial examples that the authors add are left
out. The text's row of two initialisations of one head is another thing: `CRM(alpha=1)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from coranet.errors import InputError
from coranet.nets import Body, MakeNet
from coranet.ops.losses import cross_entropy, masked_mean, probabilities
from coranet.types import Batch, Nets, Progress, Regions, Terms, Update
from coranet.uncertainty.softmax import Softmax


@dataclass(frozen=True, kw_only=True)
class Ensemble(Softmax):
    """Certain is where networks that started from different weights are confident together."""

    rule: ClassVar[str] = "members has no class above the threshold"

    threshold: float = 0.8
    """Between 0 and 1."""
    members: int = 5
    """M, networks beside the one that predicts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.members < 1:
            raise InputError(f"An ensemble has at least one member, not {self.members}.")

    def networks(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The members, as one."""
        return {"members": nn.ModuleList(make_net() for _ in range(self.members))}

    def updates(self) -> tuple[Update, ...]:
        """One step for all members, none of which sees another."""
        return (Update(name="members", loss=self.loss, trains=("members",)),)

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Each member's cross-entropy on labelled images."""
        sample = batch.labelled
        assert sample.label is not None
        values = {}
        for number, member in enumerate(_bodies(nets["members"]), start=1):
            loss = cross_entropy(member(sample.image)["main"], sample.label)
            values[f"member {number}"] = masked_mean(loss, sample.valid)
        return Terms(values=values)

    def join(self, net: Body, nets: Nets) -> Body:
        """The network that predicts, and the members."""
        return EnsembleBody(net, [*_bodies(nets["members"])])

    def infer(self, net: nn.Module, image: Tensor) -> dict[str, Tensor]:
        """Probabilities of the network that predicts, and the members' mean."""
        assert isinstance(net, EnsembleBody)
        each = [probabilities(member(image, ("main",))["main"]) for member in _bodies(net.members)]
        return {**super().infer(net, image), "members": torch.stack(each).mean(dim=0)}

    def judge(self, maps: Mapping[str, Tensor]) -> Regions:
        """By the members' mean."""
        return super().judge({"main": maps["members"]})


class EnsembleBody(Body):
    """A network that predicts, and others that say how far to trust it; calling it asks the first."""

    def __init__(self, body: Body, members: Sequence[Body]) -> None:
        super().__init__()
        self.body, self.members = body, nn.ModuleList(members)
        self.multiple, self.widths = body.multiple, body.widths

    def encode(self, image: Tensor) -> list[Tensor]:
        """The levels of the network that predicts."""
        return self.body.encode(image)

    def forward(self, image: Tensor, heads: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Logits of the network that predicts."""
        logits: dict[str, Tensor] = self.body(image, heads)
        return logits


def _bodies(members: nn.Module) -> Iterator[Body]:
    return (cast(Body, member) for member in members.children())
