"""What a run has learnt so far, and the files that hold it: last.pt, best.pt and memory-<step>.pt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coranet.engine import checkpoint
from coranet.engine.optimizers import make_optimizers
from coranet.engine.setup import Setup
from coranet.errors import DivergenceError, InputError
from coranet.feed.pools import CaseMemory
from coranet.json_files import read_json


class State:
    """All that changes from step to step, but for the clock."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        run = setup.run
        self.nets, self.device, self.folder, self.identity = setup.nets, setup.device, folder, run.identity
        self.writes = setup.group.leads
        self.optimizers = make_optimizers(run.learning, setup.nets, run.optim, captured=run.accel.graphs)
        self.memory = CaseMemory(setup.unlabelled, setup.room) if setup.unlabelled else None
        self.memory_file: str | None = None
        self.traced = False
        """Whether anything was written to memory since it was saved."""
        self.done = self.updates = 0
        self.best = float("-inf")
        """The highest mean Dice of validation cases so far."""
        self.fell_back = False
        """Whether the run went back to labels alone."""

    def save(self) -> None:
        """The newest state, whole or not at all; one that is of no use leaves the last good one in place.

        Raises:
            DivergenceError: a weight is no longer finite.
        """
        self._check_finite()
        if self.traced:
            self.save_memory(self.done)
        self.write_whole(checkpoint.LAST, {"fell_back": self.fell_back})
        for old in self.folder.glob("memory-*.pt"):
            if self.writes and old.name != self.memory_file:
                old.unlink()

    def write_whole(self, name: str, more: dict[str, Any]) -> None:
        """All that training goes on from, and more, to a file."""
        content = {
            "step": self.done,
            "updates": self.updates,
            "nets": self._weights(),
            "best": self.best,
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "memory": self.memory_file,
        }
        self._write(name, content | more)

    def save_memory(self, step: int) -> None:
        """To a file of its own, which checkpoints name: it changes less often than they are written."""
        assert self.memory is not None
        self.memory_file, self.traced = f"memory-{step:07d}.pt", False
        self._write(self.memory_file, {"maps": self.memory.flat})

    def save_best(self, dice: float) -> None:
        """The weights, if none before did as well on validation cases."""
        if dice > self.best:
            self.best = dice
            self._write(checkpoint.BEST, {"step": self.done, "nets": self._weights()})

    def load(self, say: checkpoint.Say = checkpoint.warn, source: str = checkpoint.LAST) -> None:
        """The newest state, or that of another file of the run; `say` hears of files without checksums."""
        file, needs = self.folder / source, {"step": int, "updates": int, "nets": dict, "optimizers": dict}
        content = checkpoint.load(file, self.device, needs, run=self.identity, say=say)
        checkpoint.load_weights(self.nets, content["nets"], file)
        for name, optimizer in self.optimizers.items():
            try:
                optimizer.load_state_dict(content["optimizers"][name])
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                raise InputError(f"{file}: its optimizer {name!r} is not this run's. {checkpoint.WAY_OUT}") from error
        self.done, self.updates, self.memory_file = content["step"], content["updates"], content.get("memory")
        self.best = best if isinstance(best := content.get("best"), float) else self.best
        self.fell_back = content.get("fell_back") is True
        if self.memory_file and self.memory:
            self.memory.load(self._maps(file, self.memory_file, say))

    def start_from(self, run: Path, say: checkpoint.Say = checkpoint.warn) -> None:
        """Begin with another run's weights."""
        source, identity = run, ""
        if run.is_dir():
            source, file = run / checkpoint.LAST, run / "run.json"
            about = read_json(file) if file.exists() else None
            identity = str(about.get("identity", "")) if isinstance(about, dict) else ""
        content = checkpoint.load(source, self.device, {"nets": dict}, run=identity, say=say)
        checkpoint.load_weights(self.nets, content["nets"], source)

    def _maps(self, source: Path, name: Any, say: checkpoint.Say) -> dict[str, Tensor]:
        """What a file beside the checkpoint remembers of unlabelled images."""
        if not (isinstance(name, str) and re.fullmatch(r"memory-\d+\.pt", name)):
            raise InputError(f"{source}: names a file that is none of the run's. {checkpoint.WAY_OUT}")
        file = self.folder / name
        maps: dict[str, Tensor] = checkpoint.load(
            file, torch.device("cpu"), {"maps": dict}, run=self.identity, say=say
        )["maps"]
        if not all(isinstance(row, Tensor) and 1 <= row.ndim <= 2 for row in maps.values()):
            raise InputError(f"{file}: holds no maps. {checkpoint.WAY_OUT}")
        return maps

    def _write(self, name: str, content: dict[str, Any]) -> None:
        if self.writes:
            checkpoint.save(self.folder / name, {"run": self.identity, **content})

    def _check_finite(self) -> None:
        for name, net in self.nets.items():
            for key, weight in net.named_parameters():
                if not torch.isfinite(weight).all():
                    raise DivergenceError(
                        f"Step {self.done}: the weight {name}.{key} is no longer finite. What was saved before is whole: "
                        "lower optim.lr (--set), and start anew."
                    )

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        return {name: net.state_dict() for name, net in self.nets.items()}
