"""What a run says of one scan as one picture, for notebooks: the slice that shows most of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from coranet.data.grid import through_plane_axis
from coranet.data.readers import Volume
from coranet.report.pictures.paint import LARGEST, TEXT, Panel, as_png, draw_panel, legend
from coranet.report.pictures.upright import upright, upright_spacing

Map = NDArray[np.uint8]
_DPI = 100


def answer_png(volume: Volume, label: Map, uncertain: Map | None, classes: Mapping[int, str]) -> bytes:
    """The image, its classes, and what is uncertain beside each other, upright.

    Args:
        volume: the scan, of several channels the first.
        label: `(x, y, z)`.
        uncertain: `(x, y, z)`, 1 where a person should look; None where nobody asked.
        classes: names by value.
    """
    spacing = upright_spacing(volume.geometry)
    axis = through_plane_axis(upright(label, volume.geometry).shape, spacing)
    maps = [label] if uncertain is None else [label, uncertain]
    image, *planes = (np.moveaxis(upright(each, volume.geometry), axis, 0) for each in (volume.array, *maps))
    index = _fullest(planes)
    x, y = (step for other, step in enumerate(spacing) if other != axis)
    bare = image[index].astype(np.float32)
    panels = [Panel(image=bare, title="image"), Panel(image=bare, title="label", filled=planes[0][index])]
    if uncertain is not None:
        panels.append(Panel(image=bare, title="uncertain", outlined=planes[0][index], uncertain=planes[1][index]))
    whole = np.array([[-0.5, size - 0.5] for size in bare.shape])
    height = LARGEST * min(max(bare.shape[1] * y / (bare.shape[0] * x), 0.25), 2)
    figure = Figure(figsize=(LARGEST * len(panels), height + 0.9), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw_panel(axes, panel, whole, (x, y))
    figure.suptitle(f"slice {index + 1} of {len(image)}", fontsize=TEXT)
    legend(
        figure, {value: name for value, name in classes.items() if value}, uncertain=uncertain is not None, truth=False
    )
    return as_png(figure, _DPI)


def _fullest(planes: list[Map]) -> int:
    """The slice with most of the label, else with most that is uncertain, else the middle one."""
    for volume in planes:
        if volume.any():
            return int(np.argmax([np.count_nonzero(plane) for plane in volume]))
    return len(planes[0]) // 2
