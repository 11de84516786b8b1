"""An image and what is said of it: one panel, drawn the same way in every picture.

Arrays are `(X, Y)`. X, which points to the patient's right or front, runs to the left as radiologists hold it; Y upwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import log
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from coranet.file_names import printable

Image = NDArray[Any]
"""`(X, Y)` grey levels."""
Labels = NDArray[Any]
"""`(X, Y)` classes by value, 0 is background; a mask is one of a single class."""
Limits = NDArray[np.float64]
"""`(2, 2)`: from and to along X, from and to along Y, in voxels."""

COLOURS = ("#56B4E9", "#F0E442", "#2FCB8F", "#CC79A7", "#E69F00", "#A6A8FF")
"""Of classes 1, 2, ...: apart for colour-blind eyes too, bright on grey, and none of them red."""
UNCERTAIN = "#FF2020"
TRUTH = "#FFFFFF"

DUSK, NIGHT = 0.35, 0.02
"""Shares of white: what three quarters of an image are darker than where it is lifted, and where it is just empty."""

TEXT = 11
"""Points; in a figure of WIDTH inches shown 900 pixels wide a letter is about as high as in running text."""
WIDTH = 12.0
LARGEST = 2.6
"""Inches of a panel, however few there are."""
DPI = 150


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure and the words below it."""

    name: str
    """Of the file, without its ending."""
    figure: Figure
    caption: str
    numbers: Sequence[Mapping[str, str | float]] = ()
    """What it is drawn from, where that is few numbers: rows of a table."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """An image and what is drawn over it."""

    image: Image
    title: str = ""
    filled: Labels | None = None
    """Classes as translucent areas with an edge."""
    outlined: Labels | None = None
    """Classes as edges alone."""
    truth: Labels | None = None
    """Classes as white edges below the others: they show where the others leave them."""
    uncertain: Labels | None = None
    """Where a person should look, in red."""


def as_png(figure: Figure, dpi: int) -> bytes:
    """The file of a figure, which is laid out first: one that is not is drawn twice by matplotlib, once to do so."""
    figure.set_dpi(dpi)
    if layout := figure.get_layout_engine():
        layout.execute(figure)
        figure.set_layout_engine(None)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    return content.getvalue()


def draw_panel(axes: Axes, panel: Panel, limits: Limits, spacing: tuple[float, float] = (1.0, 1.0)) -> None:
    """Paint a panel and look at a part of it."""
    grey = grey_levels(panel.image)
    axes.imshow(grey.T, origin="lower", cmap="gray", vmin=0, vmax=1, interpolation="bilinear")
    if panel.uncertain is not None:
        _fill(axes, panel.uncertain > 0, UNCERTAIN, 0.6)
    for _, mask in _masks(panel.truth):
        outline(axes, mask, TRUTH, linewidth=1.1)
    for value, mask in _masks(panel.filled):
        _fill(axes, mask, colour_of(value), 0.3)
        outline(axes, mask, colour_of(value), linewidth=1.3)
    for value, mask in _masks(panel.outlined):
        outline(axes, mask, colour_of(value), linewidth=0.8)
    axes.set(xlim=limits[0][::-1], ylim=limits[1], aspect=spacing[1] / spacing[0])
    axes.set(xticks=[], yticks=[], facecolor="black")
    axes.set_title(panel.title, fontsize=TEXT, pad=3)


def grey_levels(image: Image) -> NDArray[np.float64]:
    """An image from black, its 1st percentile, to white, its 99th.

    Near a coil a scan may be so bright that all else is dark. Then shades are lifted until a quarter of the image is at
    least as bright as DUSK, or until a dark shade is its own square root.
    """
    finite = np.nan_to_num(image.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = np.percentile(finite, (1, 99))
    grey: NDArray[np.float64] = ((finite - low) / (high - low if high > low else 1)).clip(0, 1)
    bright = float(np.percentile(grey, 75))
    power = log(DUSK) / log(bright) if NIGHT < bright < DUSK else 1.0
    return grey ** max(power, 0.5)


def legend(figure: Figure, classes: dict[int, str], *, uncertain: bool, truth: bool) -> None:
    """What the colours mean, below the panels."""
    handles: list[Patch | Line2D] = [
        Patch(color=colour_of(value), label=plain(name)) for value, name in classes.items()
    ]
    handles += [Patch(color=UNCERTAIN, label="uncertain")] if uncertain else []
    handles += [Line2D([], [], color=TRUTH, label="edge of the truth")] if truth else []
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 7),
        fontsize=TEXT,
        facecolor="0.2",
        labelcolor="w",
    )


def square_around(mask: Labels, spacing: tuple[float, float] = (1.0, 1.0)) -> Limits:
    """A part of the image, square in millimetres, with the mask in its middle and room about it."""
    size, step = np.array(mask.shape), np.array(spacing)
    found = np.argwhere(mask) if mask.any() else np.array([(0, 0), size - 1])
    low, high = found.min(axis=0), found.max(axis=0) + 1
    side = max(1.25 * ((high - low) * step).max(), (size * step).min() / 3)
    half = min(side, (size * step).max()) / step / 2
    middle = np.where(2 * half >= size, size / 2, ((low + high) / 2).clip(half, np.maximum(half, size - half)))
    limits: Limits = np.stack([middle - half, middle + half], axis=1) - 0.5  # voxel 0 reaches from -1/2 to 1/2
    return limits


def colour_of(value: int) -> str:
    """The colour of a class; with many of them colours return."""
    return COLOURS[(value - 1) % len(COLOURS)]


def plain(text: str) -> str:
    r"""`text` as it is: between two dollar signs a figure would read a formula. It has no letters for what is no text."""
    return printable(text).replace("$", r"\$")


def _masks(labels: Labels | None) -> list[tuple[int, NDArray[np.bool_]]]:
    """Each class that occurs, with where it does."""
    return [] if labels is None else [(int(value), np.equal(labels, value)) for value in np.unique(labels) if value]


def _fill(axes: Axes, mask: NDArray[np.bool_], colour: str, opacity: float) -> None:
    axes.imshow(
        np.multiply.outer(mask.T, to_rgba(colour)) * (1, 1, 1, opacity), origin="lower", interpolation="nearest"
    )


def outline(axes: Axes, mask: NDArray[np.bool_], colour: str, linewidth: float) -> QuadContourSet:
    """The line about a mask."""
    x, y = (np.arange(-1, size + 1) for size in mask.shape)  # a margin closes lines at the border
    edges = np.pad(mask, 1).T.astype(float)
    return axes.contour(x, y, edges, levels=[0.5], colors=[colour], linewidths=linewidth)
