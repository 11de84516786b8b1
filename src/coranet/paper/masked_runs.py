"""What any mask can give, by training: CoraNet with its certain region replaced by another of the same size.

ONE OF THESE RUNS READS THE TRUTH OF UNLABELLED CASES. It shows the most that a mask could do and is no method; nothing
outside this study may train like that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from coranet.data.store import Store
from coranet.engine.log import Listener
from coranet.engine.run import Run
from coranet.engine.trainer import Trainer
from coranet.errors import InputError
from coranet.feed.batches import mix
from coranet.feed.pools import CaseMemory
from coranet.runs.comparison import Compare, Job
from coranet.runs.launch import MakeTrainer
from coranet.runs.options import Options

Source = Literal["crm", "softmax", "random", "oracle"]
"""Whose mask: CRM's as it is, the least confident pixels, any pixels, or mistaken pixels first."""

ROWS: dict[str, Source] = {f"masks-{source}": source for source in get_args(Source)}
"""Sources by the name of their runs."""


class MaskedTrainer(Trainer):
    """A trainer that, at every refresh, moves the uncertain region to other pixels and keeps its size.

    WITH THE SOURCE `oracle` IT READS THE TRUTH OF UNLABELLED CASES, which no training may: for the study of masks alone.
    Images, weights, pseudo-labels and all other randomness are those of the plain run with the same seed.
    """

    def __init__(
        self,
        run: Run,
        store: Store,
        folder: Path,
        device: torch.device,
        listeners: Sequence[Listener] = (),
        *,
        source: Source,
    ) -> None:
        super().__init__(replace(run, made_with={**run.made_with, "masks": source}), store, folder, device, listeners)
        self.source = source
        self.truth = _hidden_truth(run, store) if source == "oracle" else None

    def _amend(self, step: int, soft: CaseMemory | None) -> None:
        assert self.memory is not None
        if self.source == "crm":
            return
        certain, label = self.memory.flat["certain"], self.memory.flat["label"]
        if self.source == "oracle":
            assert self.truth is not None
            rank = (label.cpu() != self.truth).to(torch.uint8)
        elif self.source == "softmax":
            assert soft is not None, "the confidence is kept where train.keep_maps is on"
            rank = 255 - soft.flat["confidence"]
        else:
            rank = torch.zeros_like(label, device="cpu")
        generator = torch.Generator().manual_seed(mix(self.run.seed, "masks", step))
        highest = choose_highest(rank, int((certain == 0).sum()), generator, self.device)
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

    def trainer_of(self, job: Job) -> MakeTrainer:
        """One that replaces masks."""
        return partial(MaskedTrainer, source=ROWS[job.row])
