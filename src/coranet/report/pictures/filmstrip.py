"""One slice over the course of training: what a run predicts, where it is uncertain, and how large a share that is."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from coranet.data.problem import FileError
from coranet.data.readers.volume import check_file
from coranet.errors import InputError, brief
from coranet.report.curves import Curve, curve_of, mark_steps
from coranet.report.pictures.paint import (
    LARGEST,
    TEXT,
    UNCERTAIN,
    WIDTH,
    Panel,
    Picture,
    draw_panel,
    legend,
    square_around,
)
from coranet.report.run_files import FinishedRun

MOST = 8
"""Frames in a strip."""
MOST_BYTES = 2**26
"""Of the arrays of a frame: a slice of 2,000 x 2,000 pixels with all its maps has fewer."""

Frame = dict[str, NDArray[Any]]
"""The arrays of one check by name."""


def draw_film(runs: Sequence[FinishedRun]) -> Picture | None:
    """The film of the run that keeps most maps, the first of equals; None where none has a film."""
    maps = {run.name: read_frame(run.film[0]).keys() for run in runs if run.film}
    if not maps:
        return None
    run = max(runs, key=lambda one: len(maps.get(one.name, ())))
    frames = {int(file.stem): read_frame(file) for file in evenly(run.film)}
    shares = curve_of(run.log, "measures", "uncertain_share")
    heights = [min(WIDTH / len(frames), LARGEST), 1.6][: 1 + bool(shares)]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.9), layout="constrained")
    rows = figure.add_gridspec(len(heights), len(frames), height_ratios=heights)
    _draw_strip([figure.add_subplot(rows[0, column]) for column in range(len(frames))], frames)
    if shares:
        _draw_shares(figure.add_subplot(rows[1, :]), shares, run, frames)
    legend(figure, run.classes, uncertain="uncertain" in maps[run.name], truth=False)
    return Picture(name="film", figure=figure, caption=_caption(run, frames, bool(shares)))


def evenly(files: Sequence[Path]) -> list[Path]:
    """At most MOST of them, evenly spaced, the first and the last among them."""
    places = np.linspace(0, len(files) - 1, min(len(files), MOST)).round().astype(int)
    return [files[place] for place in places]


def read_frame(file: Path) -> Frame:
    """One check's arrays.

    Raises:
        FileError: it is damaged, or holds something else.
    """
    try:
        check_file(file)
        with zipfile.ZipFile(file) as packed:
            claimed = sum(part.file_size for part in packed.infolist())
        if claimed > MOST_BYTES:
            raise ValueError(f"{claimed} bytes")
        with np.load(file, allow_pickle=False) as arrays:
            frame = dict(arrays)
    except InputError:
        raise
    except Exception as error:  # NumPy raises whatever the parts that it calls do
        raise _broken(file, f"damaged: {brief(str(error), 100)}") from error
    maps = [frame[name] for name in ("prediction", "uncertain", "image") if name in frame]
    if not {"image", "prediction", "case", "slice"} <= frame.keys() or maps[-1].dtype.kind not in "iuf":
        raise _broken(file, "without image or prediction")
    if (
        any(one.dtype.kind not in "biu" for one in maps[:-1])
        or len({one.shape for one in maps}) > 1
        or maps[0].ndim != 2
    ):
        raise _broken(file, "with maps that do not lie on its image")
    return frame


def _broken(file: Path, why: str) -> FileError:
    return FileError(file, f"is no picture of a training ({why})", "Delete it, and the page is made without it")


def _draw_strip(strip: Sequence[Axes], frames: Mapping[int, Frame]) -> None:
    """All frames show the part of the image that matters in the last."""
    *_, last = frames.values()
    limits = square_around((last["prediction"] > 0) | (last.get("uncertain", last["prediction"]) > 0))
    for axes, (step, frame) in zip(strip, frames.items(), strict=True):
        panel = Panel(image=frame["image"], outlined=frame["prediction"], uncertain=frame.get("uncertain"))
        draw_panel(axes, replace(panel, title=f"step {step}"), limits)


def _draw_shares(axes: Axes, shares: Curve, run: FinishedRun, steps: Collection[int]) -> None:
    axes.plot(list(shares), list(shares.values()), color=UNCERTAIN)
    axes.plot(list(steps), [0] * len(steps), "^", color="0.2", clip_on=False)
    mark_steps(axes, run.log)
    axes.margins(y=0.25)
    axes.set(xlim=(0, run.log[-1]["step"] * 1.01), ylim=(0, None))
    axes.set_ylabel("uncertain", fontsize=TEXT)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))


def _caption(run: FinishedRun, frames: Mapping[int, Frame], shares: bool) -> str:
    frame = next(iter(frames.values()))
    where = f"case {frame['case']}, slice {int(frame['slice']) + 1}"
    said = (
        f"{run.name} in training, at the same slice ({where}) after more and more steps: "
        "lines are what it predicts" + (", red is where it is uncertain." if "uncertain" in frame else ".")
    )
    return said + " Below, the uncertain share of all unlabelled pixels; triangles mark the frames." if shares else said
