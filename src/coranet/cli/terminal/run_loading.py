"""What every verb is told that loads a run and reads scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from coranet.cli.terminal.parsing import Device, MaxGb

if TYPE_CHECKING:
    from coranet.engine.prediction.trained import Trained

RunFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
ScanFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="SCANS")]
MadeBefore = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: made here)")]
"""The option `--predictions` of a verb that predicts where it is not given."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a run is loaded, and how large a scan may be."""

    trust: bool = False
    """Let the run's own method run, where it has one: a Python file in RUN. Read it before, if the run is not yours."""
    device: Device = None
    """cpu, cuda or cuda:1."""
    max_gb: MaxGb = None
    """Memory that one scan may take while it is read."""
    threads: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: PyTorch's)")] = None
    """Threads of sums on the CPU. Fewer are quicker where other programs use its cores."""

    def load(self, runs: Path | Sequence[Path], **settings: Any) -> Trained:
        """The run, on the device that is asked for.

        Raises:
            InputError: it cannot be loaded, there is no such device, or no thread is asked for.
        """
        from coranet.cli.terminal.show import say
        from coranet.engine.prediction.trained import Trained
        from coranet.runs.machine.device import find_device
        from coranet.runs.machine.machine_load import set_threads

        if self.threads is not None:
            set_threads(self.threads)
        return Trained.load(runs, find_device(self.device), trust=self.trust, say=say, **settings)
