"""FixMatch: simplifying semi-supervised learning with consistency and confidence (Sohn et al., NeurIPS 2020).

    q = p(x_u),   ŷ = argmax_k q_k,   M = 1[max_k q_k > τ]
    L = CE(f(x_l), y_l) + λ · mean over pixels of M · CE(f(A(x_u)), ŷ)

For segmentation (Yang et al., CVPR 2023): x_u is the image as the sampler cut it, the weak view. A changes contrast,
brightness, noise and sharpness, and pastes a box of another unlabelled image of the batch (CutMix); ŷ and M are pasted
alike. q is the student's own, without gradient and in evaluation mode, so that a look does not move running statistics. The
mean is over all pixels, kept or not, as in the paper. Neither paper has a ramp: confidence is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coranet.errors import InputError
from coranet.methods.base import Method
from coranet.ops.losses import cross_entropy, masked_mean
from coranet.ops.mixing import cutmix_boxes, cutmixed
from coranet.ops.passes import guess
from coranet.ops.perturbation import strong_view
from coranet.ops.ramps import gaussian_ramp
from coranet.ops.regions import confident, share
from coranet.types import Batch, Nets, Progress, Sample, Terms


@dataclass(frozen=True, kw_only=True)
class FixMatch(Method):
    """Confident labels of unlabelled images are learnt from strongly changed views of them."""

    paper: ClassVar[str] = "Sohn et al., NeurIPS 2020"
    high: ClassVar[str] = "pseudo-labels + consistency"
    low: ClassVar[str] = "none"

    weight: float = 1.0
    """λ, of the unlabelled term."""
    ramp: float = 0.0
    """Share of the run over which the weight grows; the paper has none."""
    threshold: float = 0.95
    """τ: pixels below this confidence are left out."""
    strength: float = 0.5
    """How much contrast and brightness of the strong view differ, in units of the scans' own spread."""
    cutmix: float = 0.5
    """Chance that a strong view holds a box of another image."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1 or not 0 <= self.cutmix <= 1:
            raise InputError(f"threshold and cutmix lie between 0 and 1, not at {self.threshold} and {self.cutmix}.")

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and cross-entropy of a strong view to confident labels."""
        values = self.supervised_terms(nets["student"](batch.labelled.image)["main"], batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        seen = guess(nets["student"], batch.unlabelled.image)
        view = self.changed(batch.unlabelled, seen)
        assert view.label is not None
        loss = cross_entropy(nets["student"](view.image)["main"], view.label)
        values["pseudo"] = masked_mean(loss, view.valid, region=view.maps["kept"])
        return Terms(
            values=values,
            weights={"pseudo": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)},
            measures={"kept_share": self.confident_share(batch.unlabelled, seen)},
        )

    def changed(self, sample: Sample, seen: Tensor) -> Sample:
        """A strong view with what was seen of it as its label, and the map `kept` of confident pixels."""
        image = strong_view(sample.image, self.strength, sample.unit)
        boxes = cutmix_boxes(len(image), image.shape[2:], image.device, self.cutmix)
        return Sample(
            image=cutmixed(image, boxes),
            valid=cutmixed(sample.valid, boxes),
            label=cutmixed(seen.argmax(dim=1), boxes),
            maps={"kept": cutmixed(confident(seen, self.threshold), boxes)},
            unit=sample.unit,
        )

    def confident_share(self, sample: Sample, seen: Tensor) -> Tensor:
        """The share of pixels whose labels are learnt."""
        kept = confident(seen, self.threshold)
        return share(kept, sample.valid)
