"""One image and what is said of it, kept at every check: the film of a training."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coranet.data.batches import Pool
from coranet.engine.predictor import Predictor
from coranet.files import write_atomically


def keep_picture(path: Path, pool: Pool, predictor: Predictor) -> None:
    """The middle slice of the pool's first case: image, prediction, uncertain region and what else there is to see."""
    at = pool.cases.count(pool.cases[0]) // 2
    height, width = (int(n) for n in pool.sizes[at])
    image = pool.image[at : at + 1, :, :height, :width]
    prediction = predictor(image)
    maps = {"prediction": prediction.probabilities.argmax(dim=1)}
    if prediction.regions is not None:
        maps |= {"uncertain": prediction.regions.uncertain, **prediction.regions.maps}
    arrays: dict[str, Any] = {name: values[0].to(torch.uint8).cpu().numpy() for name, values in maps.items()}
    path.parent.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, image=image[0, 0].cpu().numpy(), case=pool.cases[at], slice=at, **arrays)
    write_atomically(path, buffer.getvalue())
