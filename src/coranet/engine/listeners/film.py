"""One image and what is said of it, kept at every check: the film of a training."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coranet.engine.log import Check, Listener
from coranet.engine.prediction.predictor import Predictor
from coranet.feed.pools import Pool
from coranet.files import write_atomically
from coranet.ops.space.warp import cut


class Film(Listener):
    """Keeps a picture in `film/<step>.npz` of a run folder at every check."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder / "film"

    def on_check(self, check: Check) -> None:
        """One more picture."""
        self.folder.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **picture(check.pool, check.predictor))
        write_atomically(self.folder / f"{check.step:07d}.npz", buffer.getvalue())


def picture(pool: Pool, predictor: Predictor) -> dict[str, Any]:
    """The middle slice of the pool's first case: image, prediction, uncertain region and what else there is to see.

    Of a volume one window is predicted, the one in its middle.
    """
    at = shown = pool.cases.count(pool.cases[0]) // 2
    image = pool.image(at)
    if image.ndim == 4:
        corner = [max(n - w, 0) // 2 for n, w in zip(image.shape[1:], predictor.window.size, strict=True)]
        image = cut(image, corner, tuple(map(min, image.shape[1:], predictor.window.size)))
        shown = corner[-1] + image.shape[-1] // 2
    prediction = predictor(image.unsqueeze(0))
    maps = {"prediction": prediction.probabilities.argmax(dim=1)}
    if prediction.regions is not None:
        maps |= {"uncertain": prediction.regions.uncertain, **prediction.regions.maps}
    planes = {name: _plane(values[0].to(torch.uint8)) for name, values in maps.items()}
    return {"image": _plane(image[0]), "case": pool.cases[at], "slice": shown, **planes}


def _plane(array: torch.Tensor) -> Any:
    """Two axes of an image, or the middle plane of a volume."""
    return (array if array.ndim == 2 else array[..., array.shape[-1] // 2]).cpu().numpy()
