"""What a run has learnt so far, and the files that hold it: last.pt, best.pt and memory-<step>.pt."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from coranet.engine import checkpoint
from coranet.engine.optimizers import make_optimizers
from coranet.engine.setup import Setup
from coranet.feed.pools import CaseMemory


class State:
    """All that changes from step to step, but for the clock."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        run = setup.run
        self.nets, self.device, self.folder = setup.nets, setup.device, folder
        self.optimizers = make_optimizers(run.method, setup.nets, run.optim, captured=run.accel.graphs)
        self.memory = CaseMemory(setup.unlabelled, setup.room) if setup.unlabelled else None
        self.memory_file: str | None = None
        self.traced = False
        """Whether anything was written to memory since it was saved."""
        self.done = self.updates = 0
        self.best = float("-inf")
        """The highest mean Dice of validation cases so far."""

    def save(self) -> None:
        """The newest state, whole or not at all."""
        if self.traced:
            self.save_memory(self.done)
        content = {
            "step": self.done,
            "updates": self.updates,
            "nets": self._weights(),
            "best": self.best,
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "memory": self.memory_file,
        }
        checkpoint.save(self.folder / checkpoint.LAST, content)
        for old in self.folder.glob("memory-*.pt"):
            if old.name != self.memory_file:
                old.unlink()

    def save_memory(self, step: int) -> None:
        """To a file of its own, which checkpoints name: it changes less often than they are written."""
        assert self.memory is not None
        self.memory_file, self.traced = f"memory-{step:07d}.pt", False
        checkpoint.save(self.folder / self.memory_file, {"maps": self.memory.flat})

    def save_best(self, dice: float) -> None:
        """The weights, if none before did as well on validation cases."""
        if dice > self.best:
            self.best = dice
            checkpoint.save(self.folder / checkpoint.BEST, {"step": self.done, "nets": self._weights()})

    def load(self) -> None:
        """The newest state."""
        source = self.folder / checkpoint.LAST
        content = checkpoint.load(source, self.device)
        checkpoint.load_weights(self.nets, content["nets"], source)
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(content["optimizers"][name])
        self.done, self.updates, self.memory_file = content["step"], content["updates"], content["memory"]
        self.best = content.get("best", self.best)
        if self.memory_file and self.memory:
            self.memory.load(checkpoint.load(self.folder / self.memory_file, torch.device("cpu"))["maps"])

    def start_from(self, run: Path) -> None:
        """Begin with another run's weights."""
        source = run / checkpoint.LAST if run.is_dir() else run
        checkpoint.load_weights(self.nets, checkpoint.load(source, self.device)["nets"], source)

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        return {name: net.state_dict() for name, net in self.nets.items()}
