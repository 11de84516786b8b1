"""The processes that train one run together, each on its share of every batch.

Every process makes the same networks from the same seed, draws the same batch, and learns from its own rows of it. After
each backward pass gradients are averaged, so that all take the same step. The first process alone writes and speaks.

A process that was not started by `torchrun` is a group of one, for which nothing here costs anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module

import torch
from torch import Tensor, distributed

from coranet.errors import InputError
from coranet.feed.pools import CaseMemory

PATIENCE = timedelta(hours=2)
"""How long the others wait for the first process, which prepares scans and scores validation cases alone. One that dies is
noticed by `torchrun` at once."""


@dataclass(frozen=True)
class Group:
    """Which of how many processes this one is."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    @contextmanager
    def joined(cls, device: torch.device) -> Iterator[Group]:
        """The group that `torchrun` started this process in, left at the end of the block.

        Raises:
            InputError: another process of it has ended, and cannot be asked any more.
        """
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            yield cls(device=device)
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # Its functions take the group that is there when they are first read as their default, and hold it for good. An
        # optimizer reads them. The group's threads would then outlive it, and end a process that has done all its work.
        import_module("torch.distributed.nn.functional")
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        try:
            yield cls(distributed.get_rank(), size, device)
        except RuntimeError as error:
            if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
                raise
            raise InputError(
                "Another process of this run has ended, so this one ends too. Give the same command again with --resume."
            ) from error
        finally:
            distributed.destroy_process_group()

    @property
    def leads(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process goes through the block alone, then all others do."""
        if not self.leads:
            self._wait()
        yield
        if self.leads:
            self._wait()

    def share(self, count: int) -> slice:
        """This process's rows of a batch that can be shared out evenly."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Each tensor becomes the mean of what all processes have, by one exchange."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        distributed.all_reduce(flat)
        flat /= self.size
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))

    def mean(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Of numbers that every process has under the same names."""
        if self.size == 1 or not numbers:
            return dict(numbers)
        values = torch.tensor(list(numbers.values()), dtype=torch.float64, device=self.device)
        self.average([values])
        return dict(zip(numbers, values.tolist(), strict=True))

    def any(self, flag: bool) -> bool:
        """Whether the flag is up anywhere."""
        return self.mean({"up": float(flag)})["up"] > 0

    def together(self, rows: Tensor) -> Tensor:
        """All rows of a batch, of which each process has its share."""
        if self.size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.size)]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def exchange(self, memory: CaseMemory) -> None:
        """Maps of every image, of which each process made those whose number leaves its rank when divided by the size."""
        if self.size == 1:
            return
        for name in sorted(memory.flat):
            for number, kept in enumerate(memory[name]):
                sent = kept.to(self.device).contiguous()
                distributed.broadcast(sent, src=number % self.size)
                kept.copy_(sent)

    def _wait(self) -> None:
        if self.size > 1:
            self.any(False)


ALONE = Group()
"""One process, as most runs have."""
