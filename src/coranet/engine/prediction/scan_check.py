"""Whether a run can predict a scan, asked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from coranet.data.prepare.cases import Preparation, plan
from coranet.data.readers import Volume
from coranet.engine.run import Data
from coranet.errors import InputError


def check_scan(data: Data, volumes: Sequence[Volume], settings: Preparation) -> None:
    """Refuse channels that do not fit a run, a thin volume, and one that the run's settings would make far too large.

    A run may come from anyone, and must not blow a scan up to what fills memory.

    Args:
        data: what the run was trained on.
        volumes: the scan's channels.
        settings: the run's, by which the scan is prepared.
    """
    first, window = volumes[0], data.window
    name = first.path or "The image"
    if len(volumes) != data.channels:
        raise InputError(f"The run was trained on {data.channels} channels; the scan has {len(volumes)}. Give as many.")
    if not window.takes(first.geometry.shape):
        raise InputError(
            f"{name}: is one voxel thin, and the run was trained on volumes. "
            "Predict it with a run of --dims 2, or give the whole volume."
        )
    try:
        shape = plan(first.geometry, settings).shape
    except InputError as error:
        raise InputError(f"{name}: cannot be brought to the run's grid, as {error}") from error
    if prod(window.size) > max(2**22, 64 * prod(shape)):
        raise InputError(
            f"{name}: is {' x '.join(map(str, shape))} voxels on the run's grid, far too small for its windows of "
            f"{' x '.join(map(str, window.size))}. Use a run of smaller windows (--patch)."
        )
