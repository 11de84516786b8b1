"""What a predictor says of images part by part, put together in host memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.engine.prediction.predictor import Predictor
from coranet.uncertainty.tally import Tally
from coranet.uncertainty.wrongness import Wrongness

Place = tuple[slice, ...]


def assemble(
    predictor: Predictor,
    images: Tensor,
    device: torch.device,
    *,
    soft: bool,
    scores: bool,
    wrongness: Wrongness | None = None,
) -> tuple[dict[str, NDArray[Any]], Tally | None]:
    """What is said of images `(N, C, *S)`, gathered from parts: maps `(N, *S)`, and probabilities `(N, K, *S)`.

    And how often each sign of doubt occurs, where there are such signs.

    Args:
        predictor: what predicts.
        images: wherever they are.
        device: to predict on.
        soft: gather probabilities too.
        scores: gather a score of each voxel too.
        wrongness: what makes the score; the estimator's own where none is given.
    """
    gathered = _Gathered((len(images), *images.shape[2:]))
    for place, prediction in predictor.parts(images, device):
        gathered.add("label", place, prediction.probabilities.argmax(dim=1).to(torch.uint8))
        if soft:
            gathered.add_shares(place, prediction.probabilities)
        if (regions := prediction.regions) is None:
            continue
        for name, values in {"uncertain": regions.uncertain, **regions.maps}.items():
            gathered.add(name, place, values.to(torch.uint8))
        if scores:
            score = regions.score if wrongness is None else wrongness(prediction)
            gathered.add("score", place, score.float())
        here = Tally.of(prediction)
        gathered.tally = here if gathered.tally is None else gathered.tally + here
    return gathered.maps, gathered.tally


@dataclass
class _Gathered:
    """What is known so far of images of one shape."""

    shape: tuple[int, ...]
    maps: dict[str, NDArray[Any]] = field(default_factory=dict)
    tally: Tally | None = None

    def add(self, name: str, place: Place, values: Tensor) -> None:
        """What one part says."""
        part = values.cpu().numpy()
        self.maps.setdefault(name, np.zeros(self.shape, part.dtype))[place] = part

    def add_shares(self, place: Place, probabilities: Tensor) -> None:
        """Those of every class, on an axis of their own."""
        shares = probabilities.float().cpu().numpy()
        if "probabilities" not in self.maps:
            self.maps["probabilities"] = np.zeros((self.shape[0], shares.shape[1], *self.shape[1:]), np.float32)
        self.maps["probabilities"][(place[0], slice(None), *place[1:])] = shares
