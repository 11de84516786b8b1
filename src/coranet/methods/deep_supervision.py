"""Deep supervision (Lee et al., AISTATS 2015; nnU-Net, Isensee et al., Nature Methods 2021), around any method.

Small heads on the main decoder's coarser features learn the labels too, made as coarse as they are. With S of them, the
first at half of the image's size,

    L = L_method + λ Σ_s 2^-s (CE_s + Dice_s),   s = 1 .. S

once a step, by a pass of its own over the labelled images: no method has to know of it. The heads take no part in
predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from coranet.methods.base import Method
from coranet.methods.one_vs_rest import OneVsRest
from coranet.methods.taps import PointHeads, features_inside, widths_inside
from coranet.nets import MakeNet, body_of
from coranet.types import Batch, Nets, Progress, Sample, Terms, Update

SCALES = 3
"""At most."""


@dataclass(frozen=True, kw_only=True)
class DeepSupervision(Method):
    """What another method learns, and the labels at coarser levels; for training alone."""

    inner: Method
    weight: float
    """λ."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """The method's own, and the heads."""
        own = self.inner.nets(make_net)
        widths = widths_inside(body_of(own), make_net)[:-1][-SCALES:]
        return {**own, "deep": PointHeads(make_net.dims, widths, make_net.classes)}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Both together."""
        return Terms.together([self.inner.loss(nets, batch, at), self.coarse_terms(nets, batch)])

    def objectives(self, phase: str) -> tuple[Update, ...]:
        """The method's own; the last one that moves the student learns the coarser labels too."""
        updates = list(self.inner.objectives(phase))
        last = max(number for number, update in enumerate(updates) if "student" in update.trains)
        own = updates[last]

        def loss(nets: Nets, batch: Batch, at: Progress) -> Terms:
            return Terms.together([own.loss(nets, batch, at), self.coarse_terms(nets, batch)])

        updates[last] = replace(own, loss=loss, trains=(*own.trains, "deep"))
        return tuple(updates)

    def begin_phase(self, nets: Nets, phase: str) -> None:
        """The method's own."""
        self.inner.begin_phase(nets, phase)

    def after_step(self, nets: Nets, at: Progress) -> None:
        """The method's own."""
        self.inner.after_step(nets, at)

    def coarse_terms(self, nets: Nets, batch: Batch) -> Terms:
        """λ Σ_s 2^-s (CE_s + Dice_s)."""
        features = features_inside(body_of(nets), batch.labelled.image)[:-1][-SCALES:]
        total = torch.zeros((), device=batch.labelled.image.device)
        for s, logits in enumerate(reversed(nets["deep"](features)), start=1):
            terms = self.inner.supervised_terms(logits, coarser(batch.labelled, logits.shape[2:]))
            total = total + 2.0**-s * torch.stack(list(terms.values())).sum()
        return Terms(values={"deep": total}, weights={"deep": self.weight})


def coarser(sample: Sample, shape: torch.Size) -> Sample:
    """Labels and what is valid at a smaller size: the voxel nearest to each middle."""
    assert sample.label is not None

    def shrunk(x: Tensor) -> Tensor:
        return F.interpolate(x.unsqueeze(1).float(), size=shape, mode="nearest-exact").squeeze(1)

    return replace(sample, label=shrunk(sample.label).long(), valid=shrunk(sample.valid) > 0.5)


def supervised_deeply(method: Method, weight: float) -> Method:
    """The method that is trained: of one-versus-rest, each sub-task's."""
    if not weight:
        return method
    if isinstance(method, OneVsRest):
        return replace(method, inner=supervised_deeply(method.inner, weight))
    return DeepSupervision(inner=method, weight=weight)
