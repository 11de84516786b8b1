"""What a task is on the machine where it runs: the command as a process of its own, which is told before time runs out.

The command saves its state when it is asked to stop, and goes on from there when it is given again. So all that is done
here is to ask, to put the task back into the queue, and to write down what became of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coranet.errors import InputError
from coranet.locks import OccupiedError, holding
from coranet.runs.cluster.ledger import Ledger, State, TaskNote, output_of, read_outcome, write_outcome
from coranet.signals import REQUESTS

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

_LOOK = 0.2
"""Seconds between two looks at the process."""
_STOPPED = {code for signum in REQUESTS for code in (-signum, 128 + signum)}
"""How a process ends that was asked to stop."""
_PATIENCE = 10.0
"""Seconds until the cluster says why it asked a process to stop."""


class FailedTaskError(Exception):
    """The command ended with an error, which its output has."""


@dataclass
class Worker:
    """A task; submitit calls it, and calls `checkpoint` before its time ends."""

    place: str
    name: str
    token: str
    words: tuple[str, ...]
    folder: str
    """The one in which the command was given."""
    slots: int | None
    """Tasks of this machine that may run at a time; None leaves it to the cluster."""
    grace: float
    """Seconds that saving may take."""
    devices: str | None = None
    """The GPUs that the command saw, where the cluster does not choose them."""
    child: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "child": None}

    def __call__(self) -> None:
        """Do it, unless it was handed to another job meanwhile."""
        if self._entrusted():
            with self._slot():
                self._work()

    def checkpoint(self) -> DelayedSubmission:
        """Time is nearly over: let the command save its state, and come back for the rest."""
        from submitit.helpers import DelayedSubmission

        if self.child is not None and not self._has_ended():
            self.child.terminate()
            end = time.monotonic() + self.grace
            while not self._has_ended() and time.monotonic() < end:
                time.sleep(_LOOK)
            with suppress(OSError):
                self.child.kill()
        self._note("stopped")
        return DelayedSubmission(self)

    def _entrusted(self) -> bool:
        ledger = Ledger.read(Path(self.place))
        return ledger is not None and self.name in ledger.entries and ledger.entries[self.name].token == self.token

    def _work(self) -> None:
        self._note("running", begins=True)
        file, environment = output_of(Path(self.place), self.name), dict(os.environ)
        if self.slots is not None:  # submitit hides the GPUs from local tasks
            environment.pop("CUDA_VISIBLE_DEVICES", None)
            environment |= {} if self.devices is None else {"CUDA_VISIBLE_DEVICES": self.devices}
        command = [sys.executable, "-m", "coranet", *self.words]
        with file.open("ab") as said:
            self.child = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        while (code := self.child.poll()) is None:
            time.sleep(_LOOK)
        if code in _STOPPED:
            time.sleep(_PATIENCE)  # if it is for the time's sake, `checkpoint` is called now, and does not return here
            self._note("stopped", "was asked to stop, and saved its state")
        elif code:
            self._note("failed", last_words(file, code))
        else:
            self._note("finished")
        if code:
            raise FailedTaskError(f"{self.name}: ended with status {code}; {file} has what it said.")

    def _note(self, state: State, error: str = "", *, begins: bool = False) -> None:
        place = Path(self.place)
        before = read_outcome(place, self.name, self.token)
        outcome = before or TaskNote(token=self.token, state=state, slice=0)
        if begins:
            outcome = TaskNote(token=self.token, state=state, slice=outcome.slice + 1)
        write_outcome(place, self.name, replace(outcome, state=state, error=error))

    def _has_ended(self) -> bool:
        """Asked without `poll`, which may be what the signal came in the middle of."""
        try:
            return os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # it was asked how it ended before
            return True

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Wait until fewer than `slots` tasks are at work."""
        with ExitStack() as held:
            while self.slots is not None:
                for number in range(self.slots):
                    with suppress(OccupiedError):
                        held.enter_context(holding(Path(self.place) / f".slot-{number}", Path(self.place)))
                        break
                else:
                    time.sleep(_LOOK)
                    continue
                break
            yield


def last_words(file: Path, code: int) -> str:
    """Why a command failed, in one line."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name} (out of memory?)"
    try:
        lines = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}).") from error
    return lines[-1].removeprefix("coranet: ") if lines else f"ended with status {code} and said nothing"
