"""The paper's figures from finished runs: one file a figure, or a pair of them that are made alike.

`DRAW` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from coranet.paper.figures.framework import draw_framework
from coranet.paper.figures.hearts import draw_hearts
from coranet.paper.figures.label_sources import draw_course, draw_first, judge_sources
from coranet.paper.figures.opposite_costs import draw_opposites
from coranet.paper.figures.outlines import draw_endocardium, draw_pancreas
from coranet.paper.figures.uncertain_regions import draw_costs, draw_refreshes
from coranet.report.pictures.paint import Picture

__all__ = ["DRAW", "Draw", "judge_sources"]

Draw = Callable[[Path], Sequence[Picture]]
"""From a folder of finished runs to pictures, none where runs are missing."""

DRAW: dict[str, Draw] = {
    "fig1": draw_opposites,
    "fig2": draw_framework,
    "fig3": draw_first,
    "fig4": draw_course,
    "fig5": draw_refreshes,
    "fig6": draw_pancreas,
    "fig7": draw_endocardium,
    "fig8": draw_costs,
    "fig9": draw_hearts,
}
"""By name."""
