"""Panels in the paper's colours: a grid of them, edges over them, and what the colours mean below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from coranet.report.pictures.paint import LARGEST, TEXT, WIDTH, Labels, Limits, outline, plain, square_around

YELLOW = "#FFE500"
"""Of the truth, where the paper has it so."""
DARK = ("#000000", "#1F3BFF")
"""Lines that need a light rim to be seen on a dark scan."""

Grid = NDArray[Any]
"""`(rows, columns)` of axes."""


def panel_grid(rows: int, columns: int) -> tuple[Figure, Grid]:
    """A figure of square panels, with room for two lines above each, three on the left and a legend below."""
    side = min(WIDTH / (columns + 0.4), LARGEST)
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.01, hspace=0.01)
    figure = Figure(figsize=(side * columns + 0.8, (side + 0.38) * rows + 0.6), layout=layout)
    return figure, figure.subplots(rows, columns, squeeze=False)


def edge(axes: Axes, mask: Labels, colour: str, linewidth: float = 1.4) -> None:
    """The line about a mask; none about an empty one."""
    if not np.any(mask):
        return
    lines = outline(axes, mask > 0, colour, linewidth)
    if colour in DARK:
        lines.set_path_effects([withStroke(linewidth=linewidth + 0.8, foreground="#FFFFFFB0")])


def name_row(axes: Axes, *lines: str) -> None:
    """What a row shows, left of its first panel."""
    axes.set_ylabel("\n".join(map(plain, lines)), fontsize=TEXT)


def key(figure: Figure, *, lines: Mapping[str, str], areas: Mapping[str, str]) -> None:
    """What colours mean, by name, below the panels."""
    handles: list[Line2D | Patch] = [Line2D([], [], color=colour, lw=2.5, label=name) for name, colour in lines.items()]
    handles += [Patch(color=colour, label=name) for name, colour in areas.items()]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 7),
        fontsize=TEXT,
        facecolor="0.45",
        labelcolor="w",
    )


def room_about(mask: Labels, spacing: tuple[float, float]) -> Limits:
    """A square twice as large as an object, with it in the middle; the whole image where there is none."""
    box = np.zeros(mask.shape, bool)
    found = np.argwhere(mask)
    if len(found):
        low, high = found.min(axis=0), found.max(axis=0) + 1
        margin = (high - low) // 3
        box[tuple(slice(max(a, 0), b) for a, b in zip(low - margin, high + margin, strict=True))] = True
    return square_around(box, spacing)
