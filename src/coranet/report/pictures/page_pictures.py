"""All pictures of a page, drawn: cases, the film of training, and curves. The one way in to matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coranet.report.curves import draw_curves
from coranet.report.pictures.filmstrip import draw_film
from coranet.report.pictures.gallery import draw_comparison
from coranet.report.pictures.paint import DPI, as_png
from coranet.report.run_files import FinishedRun


def draw_pictures(
    runs: Sequence[FinishedRun], images: Path | None, labels: Path | None
) -> dict[str, tuple[bytes, str]]:
    """Each picture that the files of these runs allow, as PNG with its caption, by name."""
    drawn = (
        draw_comparison(runs, images, labels) if images is not None else None,
        draw_film(runs),
        draw_curves(runs),
    )
    return {one.name: (as_png(one.figure, DPI), one.caption) for one in drawn if one}
