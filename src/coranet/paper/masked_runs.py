"""What any mask can give, by training: CoraNet with its certain region replaced by another of the same size.

ONE OF THESE RUNS READS THE TRUTH OF UNLABELLED CASES. It shows the most that a mask could do and is no method; nothing
outside this study may train like that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from coranet.data.store import Store
from coranet.engine.listeners.map_archive import SoftMaps
from coranet.engine.log import Listener, Refresh
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.feed.batches import mix
from coranet.runs.comparison import Compare, Job
from coranet.runs.options import Options
from coranet.types import Prediction

Source = Literal["crm", "softmax", "random", "oracle"]
"""Whose mask: CRM's as it is, the least confident pixels, any pixels, or mistaken pixels first."""

ROWS: dict[str, Source] = {f"masks-{source}": source for source in get_args(Source)}
"""Sources by the name of their runs."""


class Masks(SoftMaps):
    """Moves the uncertain region to other pixels at every refresh, and keeps its size.

    WITH THE SOURCE `oracle` IT READS THE TRUTH OF UNLABELLED CASES, which no training may: for the study of masks alone.
    Images, weights, pseudo-labels and all other randomness are those of the plain run with the same seed.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source, self.marks = source, {"masks": source}

    def on_open(self, run: Run, store: Store) -> None:
        """Read the truth, where it is asked for."""
        self.truth = _hidden_truth(run, store) if self.source == "oracle" else None

    def on_prediction(self, refresh: Refresh, index: Tensor, planes: slice, prediction: Prediction) -> None:
        """Gather how confident it is, where that is asked for."""
        if self.source == "softmax":
            super().on_prediction(refresh, index, planes, prediction)

    def on_refresh(self, refresh: Refresh) -> None:
        """Replace the masks."""
        if self.source == "crm":
            return
        certain, label = refresh.memory.flat["certain"], refresh.memory.flat["label"]
        if self.source == "oracle":
            assert self.truth is not None
            rank = (label.cpu() != self.truth).to(torch.uint8)
        elif self.source == "softmax":
            rank = 255 - self.take().flat["confidence"]
        else:
            rank = torch.zeros_like(label, device="cpu")
        generator = torch.Generator().manual_seed(mix(refresh.run.seed, "masks", refresh.step))
        highest = choose_highest(rank, int((certain == 0).sum()), generator, refresh.pool.device)
        certain.copy_(~highest)


def choose_highest(rank: Tensor, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """As many pixels as asked for, `(V,)` bool: the highest ranked, `(V,)` uint8, and chance among equals."""
    chance = torch.rand(rank.shape, generator=generator, dtype=torch.float64)  # fp32 ties among millions
    chosen = torch.zeros(rank.shape, dtype=torch.bool, device=device)
    chosen[(rank.to(device) + chance.to(device)).topk(count, sorted=False).indices] = True
    return chosen


def _hidden_truth(run: Run, store: Store) -> Tensor:
    """The labels of unlabelled cases, all pixels in one row as memory has them."""
    if absent := [name for name in run.split.unlabelled if not store.cases[name].labelled]:
        raise InputError(
            f"The oracle's mask needs the truth of every unlabelled case, and {absent[0]} has none. Use a set that is "
            "labelled throughout."
        )
    labels = (run.data.window.split(store.label(name)).ravel() for name in run.split.unlabelled)
    return torch.from_numpy(np.concatenate(list(labels)))


@dataclass(frozen=True, kw_only=True)
class Masked(Compare):
    """CoraNet's runs once more, each with masks from another source."""

    @classmethod
    def like(cls, compare: Compare) -> Masked:
        """On the same scans, with the same options and seeds."""
        return cls(**(vars(compare) | {"rows": tuple(ROWS)}))

    def options_of(self, job: Job) -> Options:
        """CoraNet's."""
        return super().options_of(Job("coranet", job.seed))

    def listeners_of(self, job: Job) -> tuple[Listener, ...]:
        """The one that replaces masks."""
        return (Masks(ROWS[job.row]),)
