"""The tasks of one command: handed over together, waited for, and come back to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coranet.data.shards import Shard
from coranet.errors import InputError
from coranet.locks import LOCK, holding
from coranet.runs.cluster.cluster_options import ClusterOptions
from coranet.runs.cluster.ledger import Assignment, Ledger, make_place, place_of
from coranet.runs.cluster.submission import hand_over, require_cluster
from coranet.runs.cluster.waiting import wait_for

if TYPE_CHECKING:
    from coranet.runs.comparison import Compare, Job

_NOT = ("--cluster", "--slurm", "--shards", "--at-once")
"""Options of the command that are none of its tasks'. Each takes one value."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Where its tasks are kept, and what each of them is told."""

    place: Path
    options: ClusterOptions
    words: tuple[str, ...]
    """Of the command, without what is said of the cluster."""
    say: Callable[[str], None]

    def send(self, tasks: Mapping[str, Sequence[str]]) -> None:
        """Hand over tasks, by name, each the command with a few words more."""
        hand_over(
            self.place,
            self.options,
            [Assignment(name=name, words=(*self.words, *more)) for name, more in tasks.items()],
            self.say,
        )

    def wait(self, names: Sequence[str]) -> dict[str, str]:
        """Until they have ended; the errors of those that failed."""
        return wait_for(self.place, names, self.say)

    def attempt_shards(self, shards: Sequence[Shard]) -> int:
        """Hand over shares of the scans, and wait; returns how many failed."""
        tasks = {shard.name: ("--shard", str(shard)) for shard in shards}
        self.send(tasks)
        return len(self.wait(list(tasks)))

    def send_runs(self, compare: Compare, prefix: str = "") -> dict[str, Job]:
        """Hand over what is not finished of a comparison; the jobs by the names of their tasks."""
        jobs = {f"{prefix}{compare.task_of(job)}": job for job in compare.jobs if not compare.finished(job)}
        self.send({name: ("--task", name) for name in jobs})
        return jobs

    def attempt_all(self, compare: Compare, prefix: str = "") -> dict[str, str]:
        """The same, and wait; returns as `jobs.attempt_all`."""
        from coranet.runs.jobs import kept_error

        jobs = self.send_runs(compare, prefix)
        if len(jobs) < len(compare.jobs):
            self.say(f"{len(compare.jobs) - len(jobs)} of {len(compare.jobs)} runs are finished already.")
        errors: dict[str, str] = {}
        for name, error in self.wait(list(jobs)).items():
            job = jobs[name]
            if not compare.finished(job):
                errors.setdefault(job.row, f"seed {job.seed}: {kept_error(compare, job) or error}")
        return errors

    def attempt_rung(self, compare: Compare) -> dict[str, str]:
        """As `attempt_all`, for who keeps what did well: a run that was cut off did neither well nor badly.

        Raises:
            InputError: one was, and has to go on before its row is judged.
        """
        from coranet.runs.jobs import kept_error

        errors = self.attempt_all(compare)
        for job in compare.jobs:
            if job.row in errors and not compare.finished(job) and kept_error(compare, job) is None:
                raise InputError(
                    f"{job.row}: is not judged, as a task of it did not end by itself ({errors[job.row]}). "
                    "Give the same command again, and it goes on from its last save."
                )
        return errors


@contextmanager
def fleet(
    out: Path, options: ClusterOptions, words: Sequence[str], say: Callable[[str], None] = print
) -> Iterator[Fleet]:
    """The tasks that work on a folder; one command at a time looks after them.

    Raises:
        InputError: there is no cluster to hand tasks to.
        OccupiedError: another command looks after them.
    """
    require_cluster(options)
    place = make_place(out)
    with holding(place / LOCK, out):
        yield Fleet(place=place, options=options, words=_of_tasks(words), say=say)


def way_back(out: Path, options: ClusterOptions) -> str:
    """What to say to who stops waiting, after `Stopped by SIGINT`."""
    ledger = Ledger.read(place_of(out))
    if ledger is None:
        return ". Nothing was handed over yet. Give the same command again."
    end = ""
    if ledger.cluster == "slurm":
        jobs = sorted({entry.job.partition("_")[0] for entry in ledger.entries.values() if entry.job})
        end = f"; end them with: scancel {' '.join(jobs)}" if jobs else ""
    return f". The tasks go on. Come back with the same command; see them with: coranet status {out}{end}"


def _of_tasks(words: Sequence[str]) -> tuple[str, ...]:
    kept, skip = list[str](), False
    for word in words:
        if skip:
            skip = False
        elif word.partition("=")[0].replace("_", "-") in _NOT:
            skip = "=" not in word
        else:
            kept.append(word)
    return tuple(kept)
