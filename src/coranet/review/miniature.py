"""A small picture of a case: the slice with most to look at, with the prediction's edge and what is uncertain."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coranet.data.grid import orientation
from coranet.data.readers import Volume
from coranet.review.pieces import Answers

SIDE = 192
"""Pixels of the longer side."""
PAINT = ((86, 180, 233), (240, 228, 66), (47, 203, 143), (204, 121, 167), (230, 159, 0), (166, 168, 255))
"""Of classes 1, 2, ...: apart for colour-blind eyes too, bright on grey, and none of them red."""
_RED = np.array((255, 72, 72))


def miniature(scan: Volume, answers: Answers, axis: int, window: tuple[float, float]) -> bytes:
    """As JPEG, upright: right of the patient to the left of the picture, as radiologists look at it."""
    asked = answers.in_question if answers.in_question.any() else answers.prediction > 0
    counts = np.count_nonzero(asked, axis=tuple(other for other in range(3) if other != axis))
    index = int(np.argmax(counts)) if counts.any() else len(counts) // 2
    axes, flips = orientation(scan.geometry)
    order = [other for other in axes if other != axis]
    spacing = [scan.geometry.spacing[other] for other in order]

    def plane(array: NDArray[Any]) -> NDArray[Any]:
        """Rows from the top: front or up, columns from the patient's right, or from the front."""
        taken = np.take(array, index, axis)
        taken = taken if order[0] < order[1] else taken.T
        for place, other in enumerate(order):
            if flips[axes.index(other)]:
                taken = np.flip(taken, place)
        return np.ascontiguousarray(np.flip(taken, (0, 1)).T)

    size = np.array([n * step for n, step in zip(plane(scan.array).shape[::-1], spacing, strict=True)])
    width, height = (max(1, round(SIDE * float(side / size.max()))) for side in size)
    low, high = window
    grey = ((np.nan_to_num(plane(scan.array)).astype(np.float64) - low) / (high - low)).clip(0, 1) * 255
    pixels = np.array(Image.fromarray(grey.astype(np.uint8)).resize((width, height)).convert("RGB"), np.float64)

    def scaled(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        picture = Image.fromarray(plane(mask).astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)
        return np.array(picture) > 0

    unsure = scaled(answers.in_question)
    pixels[unsure] = 0.55 * pixels[unsure] + 0.45 * _RED
    for value in np.unique(answers.prediction)[1:].tolist():
        mask = scaled(answers.prediction == value)
        inner = mask & np.roll(mask, 1, 0) & np.roll(mask, -1, 0) & np.roll(mask, 1, 1) & np.roll(mask, -1, 1)
        pixels[mask & ~inner] = PAINT[(value - 1) % len(PAINT)]
    content = BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, format="JPEG", quality=85)
    return content.getvalue()
