"""Tasks handed to SLURM, or to processes of this machine, by submitit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from coranet.errors import InputError, one_line
from coranet.processes import machine, start_of
from coranet.runs.cluster.cluster_options import ClusterOptions
from coranet.runs.cluster.ledger import SUBMITIT, Assignment, Entry, Ledger, output_of
from coranet.runs.cluster.standing import ALIVE, standings
from coranet.runs.cluster.worker import Worker
from coranet.signals import deaf_children

if TYPE_CHECKING:
    from submitit import Executor

SLICES = 20
"""How often a task may reach its time limit and go on, before it is given up."""
_ARRAY = 1000
"""Tasks of one array: SLURM refuses more, where nobody has raised its MaxArraySize."""
_GRACE = 120
"""Seconds before its time ends at which a task is told, or half its time where that is less."""


def hand_over(
    place: Path, options: ClusterOptions, tasks: Sequence[Assignment], say: Callable[[str], None] = print
) -> None:
    """Give every task that neither waits nor runs to the cluster; whoever calls holds the lock of the place.

    Raises:
        InputError: the cluster refuses.
    """
    ledger = Ledger.read(place)
    at_work = {one.name for one in standings(place) if one.state in ALIVE}
    new = [task for task in tasks if task.name not in at_work]
    if len(new) < len(tasks):
        say(f"{len(tasks) - len(new)} of {len(tasks)} tasks wait or run already.")
    if not new:
        return
    if at_work and ledger and ledger.cluster != options.cluster:
        raise InputError(
            f"--cluster {options.cluster}: other tasks of this folder are at work with --cluster {ledger.cluster}. "
            "Use that one, or let them end."
        )
    executor = _executor(place, options)
    entries = {**(ledger.entries if ledger else {}), **{task.name: Entry(token=uuid4().hex) for task in new}}
    begun = Ledger(cluster=str(options.cluster), entries=entries, minutes=options.minutes)
    begun.write(place)  # before they are handed over: a task may start at once, and asks whether it is meant
    for start in range(0, len(new), _ARRAY):
        some = new[start : start + _ARRAY]
        for task in some:
            output_of(place, task.name).unlink(missing_ok=True)
        workers = [_worker(place, options, task, entries[task.name].token) for task in some]
        jobs = _submitted(executor, workers, begun.cluster)
        entries |= {task.name: _known(entries[task.name], job, options) for task, job in zip(some, jobs, strict=True)}
        replace(begun, entries=entries).write(place)
    numbers = sorted({entries[task.name].job.partition("_")[0] for task in new})
    jobs_said = f"job {', '.join(numbers)}" if options.cluster == "slurm" else "as processes of this machine"
    say(f"{len(new)} task{'s' if len(new) != 1 else ''} handed over, {jobs_said}.")


def require_cluster(options: ClusterOptions) -> None:
    """Look whether tasks could be handed over, before anything is done for them.

    Raises:
        InputError: submitit or SLURM is not there.
    """
    if find_spec("submitit") is None:
        raise InputError(
            f"--cluster {options.cluster}: needs submitit, which is not installed. Install it with: "
            "pip install 'coranet[cluster]'"
        )
    if options.cluster == "slurm" and not (which("srun") and which("sbatch")):
        raise InputError(
            "--cluster slurm: there is no SLURM here (no srun). Give the command on a machine of the cluster, or use "
            "--cluster local."
        )


def _executor(place: Path, options: ClusterOptions) -> Executor:
    import submitit

    grace = _grace(options)
    executor: Executor
    if options.cluster == "local":
        executor = submitit.LocalExecutor(place / SUBMITIT, max_num_timeout=SLICES)
        executor.update_parameters(timeout_min=options.minutes, signal_delay_s=grace, stderr_to_stdout=True)
        return executor
    executor = submitit.SlurmExecutor(place / SUBMITIT, max_num_timeout=SLICES)
    settings: dict[str, Any] = {key: value == "true" or value for key, value in options.settings.items()}
    cpus = settings.get("cpus_per_task") or settings.get("c")
    executor.update_parameters(
        job_name=settings.pop("job_name", f"coranet-{place.name[1:].removesuffix('-cluster')}"),
        time=options.minutes,
        signal_delay_s=grace,
        stderr_to_stdout=True,
        additional_parameters={"requeue": True, **settings},
        srun_args=[f"--cpus-per-task={cpus}"] if cpus else [],  # which srun does not take over from sbatch
        array_parallelism=options.at_once or _ARRAY,
    )
    return executor


def _grace(options: ClusterOptions) -> int:
    return min(_GRACE, 30 * options.minutes)


def _worker(place: Path, options: ClusterOptions, task: Assignment, token: str) -> Worker:
    return Worker(
        place=str(place),
        name=task.name,
        token=token,
        words=task.words,
        folder=str(Path.cwd()),
        slots=(options.at_once or 1) if options.cluster == "local" else None,
        grace=0.75 * _grace(options),
        devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


def _submitted(executor: Executor, workers: Sequence[Worker], cluster: str) -> list[str]:
    """The cluster's names of the jobs."""
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        with deaf_children(), executor.batch():  # a local task goes on after Ctrl-C, as one of SLURM does
            jobs = [executor.submit(worker) for worker in workers]
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        said = next((line for line in lines if line.startswith("sbatch: ")), lines[-1]).removeprefix("sbatch: ")
        raise InputError(
            f"--cluster {cluster}: the tasks were refused ({one_line(said.removeprefix('error: '))}). "
            "Change --slurm, and try again."
        ) from error
    return [job.job_id for job in jobs]


def _known(entry: Entry, job: str, options: ClusterOptions) -> Entry:
    """With what is needed to find it again."""
    if options.cluster == "slurm":
        return replace(entry, job=job)
    return replace(entry, job=job, machine=machine(), start=start_of(int(job)))
