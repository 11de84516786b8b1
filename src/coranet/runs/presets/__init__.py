"""Presets: functions from what the data and the device are to a whole Run.

auto      body, width, window, batch and steps from the data and the device; a rate that falls to zero, a Dice term
beside the cross-entropy, gentle and upright views, labelled images at other grey levels, a watch over self-training. Chosen
on development cases (docs/development.md). What to use on scans of one's own.
quick     auto on a coarser grid and by smaller windows, with as many steps as ten minutes have on this machine. What is
taken where there is no GPU and no preset is asked for.
paper     section IV-A of Shi et al. (2021). On slices: U-Net of 64 channels, 256 x 256 pixels, 4 + 4 images a step, Adam
at a constant 1e-3, cross-entropy alone, 30 + 100 epochs, wide views. On volumes: V-Net of 16 channels, windows of 96 x 96 x
96 at random places and no other view, 30 + 200 epochs, 12 labelled volumes, windows 16 x 16 x 4 apart in the end.
acdc      paper on slices, with the views that the text has for ACDC: turns, flips, and crops of 85 to 95 % of a slice.
pancreas  paper, with the window (-100 to 240 HU) and the crops that the text has for CT of the pancreas: slices of 192 x 240
pixels. Volumes are the body at 1 mm.
la        after what the field trains on the left atrium with (Yu et al., UA-MT, MICCAI 2019, and those who followed): V-Net
of 16 channels, windows of 112 x 112 x 80, 2 + 2 volumes a step, SGD at 0.01 falling to zero over 6,000 steps, cross-entropy
and Dice, quarter turns and mirrors, windows 18 x 18 x 4 apart in the end. Where it differs: `field.py`.
released  the paper's released code, which differs from its text: docs/paper.md. Volumes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coranet.data.grid import choose_dims
from coranet.data.prepare.choices import (
    Choose,
    auto_preparation,
    pancreas_preparation,
    paper_preparation,
    quick_preparation,
)
from coranet.engine.run import Run
from coranet.errors import InputError, suggest
from coranet.methods import DEFAULT, Method
from coranet.runs.presets.auto import auto_run
from coranet.runs.presets.field import la_run, released_run
from coranet.runs.presets.paper import acdc_run, pancreas_run, paper_run, parameter_note
from coranet.runs.presets.quick import MINUTES, quick_run
from coranet.runs.presets.scans import Scans, describe, typical

__all__ = [
    "PRESETS",
    "Preset",
    "Scans",
    "choose_dims",
    "describe",
    "find_preset",
    "paper_preparation",
    "parameter_note",
    "typical",
]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How scans are prepared, and what is then trained on them."""

    prepare: Choose
    run: Callable[[Scans, Method], Run]
    method: str
    """What is trained unless something else is asked for."""
    dims: int | None = None
    """Axes of space, where the preset leaves no choice."""
    labelled: int | None = None
    """On volumes that are all labelled: how many labels are used."""
    val: int | None = None
    """Labelled cases kept out of training, where none are asked for; None leaves it to how many there are."""
    minutes: float | None = None
    """How long is trained, where that decides on the steps."""


def find_preset(name: str) -> Preset:
    """By name."""
    if name not in PRESETS:
        raise InputError(f"No preset is called {name!r}. {suggest(name, PRESETS)}")
    return PRESETS[name]


PRESETS: dict[str, Preset] = {
    "auto": Preset(prepare=auto_preparation, run=auto_run, method=DEFAULT),
    "quick": Preset(prepare=quick_preparation, run=quick_run, method=DEFAULT, minutes=MINUTES),
    "paper": Preset(prepare=paper_preparation, run=paper_run, method="coranet", labelled=12, val=0),
    "acdc": Preset(prepare=paper_preparation, run=acdc_run, method="coranet", dims=2, val=0),
    "pancreas": Preset(prepare=pancreas_preparation, run=pancreas_run, method="coranet", labelled=12, val=0),
    "la": Preset(prepare=auto_preparation, run=la_run, method="coranet", dims=3),
    "released": Preset(
        prepare=auto_preparation, run=released_run, method="coranet:released", dims=3, labelled=12, val=0
    ),
}
