"""The preset for a first try: `auto`, on a coarse grid and by small windows, for as many steps as ten minutes have."""

from __future__ import annotations

from dataclasses import replace

from coranet.engine.run import Run
from coranet.feed.windows import Window
from coranet.methods import Method
from coranet.runs.presets.auto import auto_patches, auto_run, auto_slices
from coranet.runs.presets.scans import Scans

MINUTES = 10.0
SIDE = {2: 128, 3: 40}
"""Of a window. Of a patch, on the average."""


def quick_run(scans: Scans, method: Method) -> Run:
    """As `auto` has it, by windows that make a step of about a second on two cores."""
    run = auto_run(scans, method)
    window: Window = (
        auto_slices(scans, run.net, SIDE[2]) if scans.dims == 2 else auto_patches(scans, run.net, SIDE[3] ** 3)
    )
    return replace(run, data=replace(run.data, window=window))
