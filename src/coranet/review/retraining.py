"""Training on from the page: the command that a person could type, started and watched."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from coranet.errors import InputError
from coranet.json_files import read_json
from coranet.runs.gain import GAIN

_LINES = 12


@dataclass(kw_only=True)
class Retraining:
    """One training at a time, of corrections in addition to what the run was trained on."""

    data: Path
    run: Path
    corrections: Path
    extra: tuple[str, ...] = ()
    """Further words of the command."""
    process: subprocess.Popen[bytes] | None = None
    out: Path | None = None
    words: list[str] = field(default_factory=list)
    """Of the training that was started last."""
    starting: threading.Lock = field(default_factory=threading.Lock)

    def command(self) -> list[str]:
        """The words of the next training."""
        return [
            *("coranet", "train", str(self.data), "--labels", str(self.corrections), "--init", str(self.run)),
            *("--out", str(self._next()), *self.extra),
        ]

    def start(self) -> None:
        """Start it.

        Raises:
            InputError: one is running, or the data are gone.
        """
        with self.starting:
            if self.is_running:
                raise InputError("A training is running. Wait for its end.")
            if not self.data.is_dir():
                raise InputError(f"{self.data}: does not exist. Start the command yourself with the folder of scans.")
            self.words, self.out = self.command(), self._next()
            with self._log.open("wb") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "coranet", *self.words[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

    @property
    def is_running(self) -> bool:
        """Whether one is at work."""
        return self.process is not None and self.process.poll() is None

    def state(self) -> dict[str, Any]:
        """For the page."""
        ended = None if self.process is None else self.process.poll()
        said = self._log.read_text("utf-8", "replace").splitlines()[-_LINES:] if self._log.exists() else []
        gain = self.out / GAIN if self.out else None
        return {
            "command": shlex.join(self.words if self.is_running else self.command()),
            "running": self.is_running,
            "ended": ended,
            "said": said if self.process else [],
            "gain": read_json(gain) if gain and gain.exists() else None,
        }

    @property
    def _log(self) -> Path:
        return self.corrections / "training.log"

    def _next(self) -> Path:
        """A folder beside the run that is not there yet."""
        run = self.run.resolve()  # `.` has no name
        names = (run.with_name(f"{run.name}-corrected{number}") for number in count(1))
        return next(folder for folder in names if not folder.exists())
