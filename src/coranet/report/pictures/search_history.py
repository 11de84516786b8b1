"""A search as a picture: how its trials did one after the other, and which field mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from matplotlib.figure import Figure

from coranet.files import write_atomically
from coranet.report.pictures.paint import as_png


def draw_search(file: Path, trials: Sequence[tuple[str, float | None]], importance: Mapping[str, float]) -> None:
    """Write it as PNG.

    Args:
        file: where to.
        trials: rows with their Dice of validation cases, in the order they were tried; None where a run failed.
        importance: of fields, as shares of one.

    Raises:
        InputError: the file cannot be written.
    """
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    known = [(number, value) for number, (_, value) in enumerate(trials, 1) if value is not None]
    numbers, values = [number for number, _ in known], [value for _, value in known]
    left.plot(numbers, values, "o", label="trial")
    left.step(numbers, list(accumulate(values, max)), where="post", label="best so far")
    left.set(xlabel="trial", ylabel="Dice of validation cases", title="History")
    if known:
        left.legend()
    names = sorted(importance, key=lambda name: importance[name])
    right.barh(names, [importance[name] for name in names])
    right.set(xlim=(0, 1), title="How much a field mattered" if names else "No field made a difference")
    write_atomically(file, as_png(figure, 120))
