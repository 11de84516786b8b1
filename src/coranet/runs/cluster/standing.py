"""How tasks stand: what waits, runs, is finished or failed, from their files and from the cluster's queue."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from coranet.errors import InputError, one_line
from coranet.processes import is_running, machine, start_of
from coranet.runs.cluster.ledger import Entry, Ledger, TaskNote, output_of, read_outcome

Standpoint = Literal["runs", "waits", "unknown", "cut off", "failed", "finished"]
ALIVE: frozenset[Standpoint] = frozenset({"runs", "waits", "unknown"})
"""Of tasks from which more is to be heard."""
_PENDING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "SUSPENDED", "RESV_DEL_HOLD"}


@dataclass(frozen=True, kw_only=True)
class TaskStanding:
    """How a task stands."""

    name: str
    state: Standpoint
    left: str = ""
    """Time it may still run."""
    where: str = ""
    note: str = ""
    """Why it waits or failed."""
    output: Path
    """What it said."""


class Queued(NamedTuple):
    """A job as the queue has it."""

    state: str
    left: str
    why: str
    where: str


def standings(place: Path) -> list[TaskStanding]:
    """How all tasks stand that were handed over."""
    ledger = Ledger.read(place)
    if ledger is None:
        return []
    outcomes = {name: read_outcome(place, name, entry.token) for name, entry in ledger.entries.items()}
    over = {name for name, outcome in outcomes.items() if outcome and outcome.state in ("finished", "failed")}
    asked = [entry for name, entry in ledger.entries.items() if name not in over]
    queue = queued(asked) if ledger.cluster == "slurm" else local_jobs(asked, ledger.minutes)
    return [
        _standing(place, name, entry, outcomes[name], queue, ledger.minutes) for name, entry in ledger.entries.items()
    ]


def _standing(
    place: Path, name: str, entry: Entry, outcome: TaskNote | None, queue: Mapping[str, Queued] | None, minutes: int
) -> TaskStanding:
    state: Standpoint
    found = queue.get(entry.job) if queue is not None else None
    where, left, note = outcome.host if outcome else "", "", outcome.error if outcome else ""
    if outcome and outcome.state in ("finished", "failed"):
        state = "finished" if outcome.state == "finished" else "failed"
    elif not entry.job:  # whoever was about to has ended
        state, note = "cut off", "It was not handed over"
    elif queue is None:
        state, note = "unknown", "The queue does not answer"
    elif found is None:
        state, note = (
            "cut off",
            note
            or ("It ended without a word: killed?" if outcome else f"It never began. Does its machine see {place}?"),
        )
    elif found.state in _PENDING or outcome is None:
        state, note = "waits", found.why if found.why != "None" else ""
    else:
        state, where = "runs", found.where or where
        left = found.left or _words_of(outcome.since + 60 * minutes - time.time())
    if outcome and outcome.slice > 1 and state in ALIVE:
        note = f"{note}; " * bool(note) + f"start {outcome.slice}"
    return TaskStanding(
        name=name, state=state, left=left, where=where, note=one_line(note), output=output_of(place, name)
    )


def queued(entries: Iterable[Entry]) -> Mapping[str, Queued] | None:
    """What SLURM's queue has of these jobs; None where it does not answer. Accounting (`sacct`) is not needed."""
    numbers = sorted({entry.job.partition("_")[0] for entry in entries if entry.job})
    if not numbers:
        return {}
    command = ["squeue", "--noheader", "--array", "--format=%i|%T|%L|%r|%N", f"--jobs={','.join(numbers)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError as error:
        raise InputError("There is no squeue here. Ask on a machine of the cluster.") from error
    except subprocess.TimeoutExpired:
        return None
    if done.returncode and "Invalid job id" not in done.stderr:
        return None
    lines = (line.split("|") for line in done.stdout.splitlines())
    return {job: Queued(*others) for job, *others in lines if len(others) == len(Queued._fields)}


def local_jobs(entries: Iterable[Entry], minutes: int) -> dict[str, Queued]:
    """The same of processes of this machine; those of another one are taken for running as long as they may."""
    found = {}
    for entry in entries:
        number = int(entry.job) if entry.job.isdecimal() else 0
        here = entry.machine == machine()
        if not here or (is_running(number) and start_of(number) == entry.start):
            found[entry.job] = Queued("RUNNING" if here else "PENDING", "", "" if here else "It runs elsewhere", "")
    return found


def _words_of(seconds: float) -> str:
    """As squeue has it."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
