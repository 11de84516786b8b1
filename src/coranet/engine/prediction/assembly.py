"""What a predictor says of images part by part, put together in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coranet.engine.prediction.predictor import Predictor


def assemble(
    predictor: Predictor, images: Tensor, device: torch.device, *, soft: bool, scores: bool
) -> dict[str, NDArray[Any]]:
    """What is said of images `(N, C, *S)`, gathered from parts: maps `(N, *S)`, and probabilities `(N, K, *S)`.

    Args:
        predictor: what predicts.
        images: wherever they are.
        device: to predict on.
        soft: gather probabilities too.
        scores: gather the score behind the uncertain region too.
    """
    shape = (len(images), *images.shape[2:])
    whole: dict[str, NDArray[Any]] = {}
    for place, prediction in predictor.parts(images, device):
        maps = {"label": prediction.probabilities.argmax(dim=1)}
        if prediction.regions is not None:
            maps |= {"uncertain": prediction.regions.uncertain, **prediction.regions.maps}
        for name, values in maps.items():
            whole.setdefault(name, np.zeros(shape, np.uint8))[place] = values.to(torch.uint8).cpu().numpy()
        if scores and prediction.regions is not None:
            score = prediction.regions.score.float().cpu().numpy()
            whole.setdefault("score", np.zeros(shape, np.float32))[place] = score
        if soft:
            shares = prediction.probabilities.float().cpu().numpy()
            if "probabilities" not in whole:
                whole["probabilities"] = np.zeros((shape[0], shares.shape[1], *shape[1:]), np.float32)
            whole["probabilities"][(place[0], slice(None), *place[1:])] = shares
    return whole
