"""Universal semi-supervised semantic segmentation, USSS (Kalluri et al., ICCV 2019), for one set of images.

e(z) is a pixel's embedding, the feature its label is read from; c_k the mean embedding of class k, of length one:

    s_k(z) = exp⟨e(z), c_k⟩ / Σ_j exp⟨e(z), c_j⟩
    L = L_sup + λ w(t) · mean over pixels of unlabelled images of -Σ_k s_k log s_k
    c_k ← m c_k + (1 - m) · mean of e over labelled pixels of class k, after every labelled batch that has any

No gradient flows into the centres. The paper has a second such term against the classes of another data set, to share one
network between label sets; there is one set here. The authors take the centres of a network trained on labels before
and keep them; these follow the network instead, so that one run is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import MakeNet, body_of
from coranet.ops.entropy import entropy
from coranet.ops.features import class_means, similarities
from coranet.ops.losses import masked_mean, probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Sample, Terms


class Centres(nn.Module):
    """c, `(K, F)`: kept with the networks, moved without gradients. Zero for a class that was never seen."""

    centres: Tensor

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(classes, width))

    @torch.no_grad()
    def move(self, features: Tensor, sample: Sample, momentum: float) -> None:
        """Towards the means of labelled features `(B, F, *S)`."""
        assert sample.label is not None
        means, there = class_means(features, sample.label, sample.valid, len(self.centres))
        self.centres.copy_(torch.where(there, self.centres.lerp(means.to(self.centres), 1 - momentum), self.centres))


@dataclass(frozen=True, kw_only=True)
class EmbeddingEntropy(Method):
    """Embeddings of unlabelled pixels move towards the mean embedding of one class."""

    paper: ClassVar[str] = "Kalluri et al., ICCV 2019"
    high: ClassVar[str] = "entropy minimisation"
    low: ClassVar[str] = "entropy minimisation"

    weight: float = 0.1
    """λ, of the entropy; the field's usual value."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    momentum: float = 0.9
    """m: how slowly the centres of the classes follow."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A network, and the centres of its embeddings."""
        student = make_net()
        return {"student": student, "centres": Centres(make_net.classes, student.widths[0])}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms, and the entropy of similarities."""
        student, kept = body_of(nets), cast(Centres, nets["centres"])
        features = student.features(batch.labelled.image)
        values = self.supervised_terms(student.heads["main"](features), batch.labelled)
        if batch.unlabelled is None:
            return Terms(values=values)
        kept.move(features, batch.labelled, self.momentum)
        likeness = similarities(student.features(batch.unlabelled.image), kept.centres)
        valid = batch.unlabelled.valid
        values["entropy"] = masked_mean(entropy(probabilities(likeness)), valid)
        return Terms(values=values, weights={"entropy": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})
