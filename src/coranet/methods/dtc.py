"""DTC: dual-task consistency (Luo et al., AAAI 2021).

One head segments, another predicts signed distance maps S; each map becomes a segmentation by a steep sigmoid, and the two
should agree on all images, labelled or not:

    T⁻¹(S) = σ(-k S), k = 1500
    L = CE + β · mean (S(x_l) - SDM(y_l))² + λ w(t) · mean over x_l, x_u, objects and voxels of (σ(-k S) - p)²

S = tanh of the head, one for each object, negative inside; p is the object's probability. SDM is that of the released code
(`ops/distance.py`), as are β = 0.3 and λ = 1. Its one object has a sigmoid of its own; here p is the softmax's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from coranet.methods.base import Method
from coranet.nets import MakeNet
from coranet.ops.distance import distance_error, distance_maps
from coranet.ops.losses import masked_mean, probabilities
from coranet.ops.ramps import gaussian_ramp
from coranet.types import Batch, Nets, Progress, Terms


@dataclass(frozen=True, kw_only=True)
class DTC(Method):
    """Segmentation and predicted distance maps agree on all images."""

    paper: ClassVar[str] = "Luo et al., AAAI 2021"
    high: ClassVar[str] = "consistency"
    low: ClassVar[str] = "consistency"

    weight: float = 1.0
    """λ, of the agreement of both tasks."""
    ramp: float = 0.3
    """Share of the run over which the weight grows."""
    beta: float = 0.3
    """Of the distance maps' error on labelled images."""
    steepness: float = 1500.0
    """k, of the sigmoid that makes a distance map a segmentation."""

    def nets(self, make_net: MakeNet) -> dict[str, nn.Module]:
        """A head for classes, and one for a distance map of each object."""
        return {"student": make_net({"main": make_net.classes, "distance": make_net.classes - 1})}

    def loss(self, nets: Nets, batch: Batch, at: Progress) -> Terms:
        """Supervised terms of both tasks, and their agreement."""
        sample = batch.labelled
        assert sample.label is not None
        logits = nets["student"](sample.image)
        values = self.supervised_terms(logits["main"], sample)
        values["distance"] = self.beta * distance_error(distance_maps(logits["distance"]), sample.label, sample.valid)
        if batch.unlabelled is None:
            return Terms(values=values)
        others = nets["student"](batch.unlabelled.image)
        main, distance = (torch.cat([logits[head], others[head]]) for head in ("main", "distance"))
        valid = torch.cat([sample.inside, batch.unlabelled.valid])
        values["agreement"] = masked_mean(self.disagreement(main, distance), valid)
        return Terms(values=values, weights={"agreement": self.weight * gaussian_ramp(at.step, self.ramp * at.steps)})

    def disagreement(self, main: Tensor, distance: Tensor) -> Tensor:
        """(σ(-k S) - p)², averaged over objects, `(B, *S)`."""
        segmented = torch.sigmoid(-self.steepness * distance_maps(distance))
        return (segmented - probabilities(main)[:, 1:]).square().mean(dim=1)
