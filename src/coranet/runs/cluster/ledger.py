"""Which tasks were handed to a cluster, and what became of each, in files beside the folder they work on.

    .NAME-cluster/                  beside NAME, where results go
      tasks.json                    each task, its job and its token
      <task>.json                   what became of it, written by the task
      <task>.txt                    what it said
      submitit/                     scripts and logs of submitit

A task works only as long as tasks.json names its own token. So a run has one task, whoever hands it over how often, and
where locks of the file system cannot be relied on either.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from coranet.errors import InputError
from coranet.files import make_folder, write_atomically
from coranet.json_files import read_object

TASKS = "tasks.json"
SUBMITIT = "submitit"

State = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What one task does."""

    name: str
    words: tuple[str, ...]
    """Of the command, after `coranet`."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A task that was handed over."""

    token: str
    """Of this time that it was handed over."""
    job: str = ""
    """As the cluster calls it."""
    machine: str = ""
    """Of a local one: where its process is, as of `processes.machine`."""
    start: str = ""
    """Of a local one: as of `processes.start_of`."""


@dataclass(frozen=True, kw_only=True)
class TaskNote:
    """What a task says of itself."""

    token: str
    state: State
    host: str = field(default_factory=socket.gethostname)
    since: float = field(default_factory=time.time)
    slice: int = 1
    """How often it was started."""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What was handed over."""

    cluster: str
    entries: Mapping[str, Entry]
    """By the task's name."""
    minutes: int
    """That a task may run."""

    @classmethod
    def read(cls, place: Path) -> Ledger | None:
        """From `tasks.json`; None where nothing was handed over."""
        file = place / TASKS
        if not file.exists():
            return None
        content = read_object(file, "Delete it, and give the command again")
        try:
            entries = {str(name): _made(Entry, of) for name, of in content["tasks"].items()}
            return cls(cluster=str(content["cluster"]), entries=entries, minutes=int(content["minutes"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{file}: is no list of tasks. Delete it, and give the command again.") from error

    def write(self, place: Path) -> None:
        """To `tasks.json`."""
        content = {
            "cluster": self.cluster,
            "minutes": self.minutes,
            "tasks": {name: asdict(entry) for name, entry in self.entries.items()},
        }
        write_atomically(place / TASKS, (json.dumps(content, indent=1) + "\n").encode())


def place_of(out: Path) -> Path:
    """Where the state of a folder's tasks is."""
    whole = out.resolve()
    return whole.with_name(f".{whole.name}-cluster")


def make_place(out: Path) -> Path:
    """The same, made where it is not there."""
    make_folder(place_of(out) / SUBMITIT)
    return place_of(out)


def output_of(place: Path, task: str) -> Path:
    """What a task said."""
    return place / f"{_file_name(task)}.txt"


def read_outcome(place: Path, task: str, token: str) -> TaskNote | None:
    """What became of a task since it was handed over with this token; None where it has not begun."""
    file = place / f"{_file_name(task)}.json"
    try:
        outcome = _made(TaskNote, read_object(file))
    except (InputError, TypeError, ValueError, AttributeError):
        return None
    return outcome if outcome.token == token else None


def write_outcome(place: Path, task: str, outcome: TaskNote) -> None:
    """What becomes of it."""
    write_atomically(place / f"{_file_name(task)}.json", (json.dumps(asdict(outcome)) + "\n").encode())


def _file_name(task: str) -> str:
    return task.replace("/", "--")


def _made(kind: type[Any], content: Mapping[str, Any]) -> Any:
    """A dataclass from what a file says of its fields; others of a later version are passed over."""
    return kind(**{one.name: content[one.name] for one in fields(kind) if one.name in content})
