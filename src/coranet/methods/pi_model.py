"""The Π-model (Laine & Aila, ICLR 2017), for segmentation.

    L = L_sup(T(x_l) + n, T(y_l)) + λ w(t) · mean over pixels of ‖T₁⁻¹ p(T₁(x_u) + n₁) - T₂⁻¹ p(T₂(x_u) + n₂)‖²

T, T₁ and T₂ are mirrorings and n, n₁ and n₂ noise, drawn independently, as are the passes' dropout masks. Both passes over
x_u are the same network's, and gradients go into both, as in the authors' code. As there, labelled images are seen the way
unlabelled ones are: else no label says what a mirrored image shows, and the two answers agree on a wrong one as well. There,
images are also shifted by up to two pixels, which cannot be undone exactly; the first epoch has weight 0 where our ramp
begins with exp(-5); and labelled images take part in the second term too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.consistency import Consistency, mean_difference
from coranet.nets import Feature, MakeNet
from coranet.ops.losses import probabilities
from coranet.ops.perturbation import gaussian_noise
from coranet.ops.views import Symmetry, draw_symmetry
from coranet.types import Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class PiModel(Consistency):
    """A network agrees with itself on two random views of unlabelled images."""

    paper: ClassVar[str] = "Laine & Aila, ICLR 2017"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    noise: float = 0.15
    """Standard deviation of the noise, in units of the scans' own spread."""
    mirror: float = 0.5
    """How often each of the first two axes is mirrored; 0 where sides are classes of their own, or all scans lie alike."""
    dropout: float = 0.5
    """Rate of dropout in both passes."""

    @property
    def needs(self) -> frozenset[Feature]:
        """Dropout, unless it is switched off."""
        return frozenset({"dropout"} if self.dropout else ())

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """One network with dropout."""
        return {"student": make_net(dropout=self.dropout)}

    def seen(self, sample: Sample) -> Sample:
        """T(x_l) + n and T(y_l)."""
        assert sample.label is not None
        view = draw_symmetry(sample.image, mirror=self.mirror)
        label, valid = view.apply(sample.label), view.apply(sample.valid)
        return replace(sample, image=self.look(sample, view), label=label, valid=valid, extent=None)

    def unlabelled_terms(self, nets: Nets, sample: Sample, at: Progress) -> Terms:
        """Two views through one pass, compared where they came from."""
        views = [draw_symmetry(sample.image, mirror=self.mirror) for _ in range(2)]
        images = torch.cat([self.look(sample, view) for view in views])
        seen = probabilities(nets["student"](images)["main"]).chunk(2)
        first, second = (view.undo(p) for view, p in zip(views, seen, strict=True))
        return Terms(values={"consistency": mean_difference(first, second, sample.valid)})

    def look(self, sample: Sample, view: Symmetry) -> Tensor:
        """T(x) + n."""
        return gaussian_noise(view.apply(sample.image), self.noise * sample.unit)
