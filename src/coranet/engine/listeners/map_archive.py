"""Listeners to refreshes: soft maps behind labels and regions, gathered while they are predicted, and kept in files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from coranet.engine.log import Listener, Refresh
from coranet.feed.case_maps import soft_maps, write_maps
from coranet.feed.pools import CaseMemory
from coranet.feed.residency import Room
from coranet.types import Prediction


class SoftMaps(Listener):
    """Gathers, in host memory, what is behind labels and regions."""

    def __init__(self) -> None:
        self.gathered: CaseMemory | None = None

    def on_prediction(self, refresh: Refresh, index: Tensor, planes: slice, prediction: Prediction) -> None:
        """Keep some images' maps."""
        if self.gathered is None:
            room = Room.of(torch.device("cpu"), None, refresh.run.accel.host_bytes)
            self.gathered = CaseMemory(refresh.pool, room)
        self.gathered.write(index, soft_maps(prediction), planes)

    def take(self) -> CaseMemory:
        """The maps of a whole refresh. They are no longer kept here."""
        assert self.gathered is not None
        gathered, self.gathered = self.gathered, None
        return gathered


class MapArchive(SoftMaps):
    """Keeps all maps of every refresh in `maps/<step>.npz` of a run folder, for those who look later.

    Who changes the memory listens before: what is kept here is what is learnt from.
    """

    def __init__(self, run_folder: Path) -> None:
        super().__init__()
        self.folder = run_folder / "maps"

    def on_refresh(self, refresh: Refresh) -> None:
        """One more file. The clock stands still meanwhile: it is no part of what training takes."""
        with refresh.clock.paused():
            write_maps(self.folder / f"{refresh.step:07d}.npz", refresh.pool, refresh.memory, self.take())
