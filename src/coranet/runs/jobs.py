"""Running a comparison: every run that is not finished, one after the other or several at a time.

What was cut off is continued, and a run that fails leaves its error in its folder and does not stop the others.
"""

from __future__ import annotations

import multiprocessing.connection
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from coranet.data.budget import allowing
from coranet.data.store import Store
from coranet.engine.checkpoint import BEST
from coranet.engine.log import Listener
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.evaluation import evaluate
from coranet.files import write_atomically
from coranet.locks import OccupiedError, holding
from coranet.methods import own_name
from coranet.processes import FRESH, end_with_parent
from coranet.runs.comparison import Compare, Job
from coranet.runs.exam import Exam
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.opened_store import OnProgress, Say
from coranet.runs.triage import judge_predictions
from coranet.signals import Interrupted, deaf_children, stop_requests, stopping_at_once

ERROR = "error.txt"
"""In a run folder: why it failed, in one line, and where."""
OUTPUT = "output.txt"
"""In a run folder: what was said by a process of its own."""


def attempt_all(
    compare: Compare, most: int, alone: Callable[[Job], str | None], say: Say = lambda message: None
) -> dict[str, str]:
    """Every job that is not finished; returns, by row, the errors of rows that have one.

    Args:
        compare: what to run.
        most: how many at a time.
        alone: runs one job in this process and returns its error, where only one runs at a time.
        say: who is told in words.
    """
    jobs = [job for job in compare.jobs if not compare.finished(job)]
    if len(jobs) < len(compare.jobs):
        say(f"{len(compare.jobs) - len(jobs)} of {len(compare.jobs)} runs are finished already.")
    found = {job: alone(job) for job in jobs} if most == 1 else attempt_together(compare, jobs, most, say)
    errors: dict[str, str] = {}
    for job, error in found.items():
        if error:
            errors.setdefault(job.row, f"seed {job.seed}: {error}")
    return errors


def attempt(
    compare: Compare,
    job: Job,
    listeners: Sequence[Listener] = (),
    say: Say = print,
    on_progress: OnProgress | None = None,
) -> str | None:
    """Train, predict and score; returns the error in one line where it failed, which its folder keeps too.

    Where the comparison pauses at a step, it trains up to there and no more.
    Nobody else does the same run meanwhile, and what another process has finished is not done again.
    """
    folder = compare.folder(job)
    try:
        with holding(folder.with_name(f".{folder.name}.lock"), folder), allowing(compare.options.max_gb):
            if compare.finished(job):
                return None
            (folder / ERROR).unlink(missing_ok=True)
            _run(compare, job, listeners, say, on_progress or (lambda what, done, total: None))
    except OccupiedError as error:  # nothing is written where another process is at work
        return str(error)
    except Exception as error:
        message = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        line = " ".join(message.split())
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ERROR, f"{line}\n\n{traceback.format_exc()}".encode())
        return line
    return None


def _run(compare: Compare, job: Job, listeners: Sequence[Listener], say: Say, on_progress: OnProgress) -> None:
    folder, options = compare.folder(job), compare.options_of(job)
    begun = (folder / "run.json").exists()
    train(
        compare.data,
        folder,
        options,
        resume=begun,
        until=compare.until,
        listeners=(*compare.listeners_of(job), *listeners),
        say=say,
        on_progress=on_progress,
    )
    if compare.until is not None:
        return
    with stopping_at_once():
        _score(compare, job, on_progress)


def _score(compare: Compare, job: Job, on_progress: OnProgress) -> None:
    folder = compare.folder(job)
    own = (
        own_name(compare.options_of(job).method) is not None
    )  # a file that a person has just named, and which was trained
    weights = ["best"] if compare.best and (folder / BEST).exists() else []
    for which in (*weights, "last"):  # the last scores are what says that a run is finished
        trained = Trained.load(folder, find_device(compare.options.device), best=which == "best", trust=own)
        ending = "-best" if which == "best" else ""
        _predict(trained, compare.exam, folder / f"predictions{ending}", on_progress)
        scores = evaluate(folder / f"predictions{ending}", compare.exam.labels)
        scores.write_csv(folder / f"scores{ending}.csv")


def _predict(trained: Trained, exam: Exam, out: Path, on_progress: OnProgress) -> None:
    def count(done: int, total: int, name: str) -> None:
        on_progress("predicting", done, total)

    if exam.store:
        found = trained.predict_store(Store.open(exam.store), exam.cases, out, masks=True, on_progress=count)
    else:
        found = trained.predict_files(exam.images, out, only=exam.cases, masks=True, on_progress=count)
    judge_predictions(trained, found, out)


def attempt_together(compare: Compare, jobs: Sequence[Job], most: int, say: Say) -> dict[Job, str]:
    """Several at a time, each a process of its own on the same device; returns the errors of those that failed.

    What a process says goes to OUTPUT in its run folder.
    """
    waiting, running, errors, stops = list(jobs), dict[Job, BaseProcess](), dict[Job, str](), list[int]()
    with stop_requests(stops.append):
        while (waiting or running) and not stops:
            while waiting and len(running) < most:
                job = waiting.pop(0)
                running[job] = FRESH.Process(target=_in_process, args=(compare, job), name=str(job))
                with deaf_children():
                    running[job].start()
                say(f"{job.row}, seed {job.seed}: started ({len(waiting)} waiting).")
            multiprocessing.connection.wait([process.sentinel for process in running.values()], timeout=0.5)
            for job in [job for job, process in running.items() if process.exitcode is not None]:
                if error := _error_of(compare, job, running.pop(job).exitcode):
                    errors[job] = error
                say(f"{job.row}, seed {job.seed}: {error or 'finished'}.")
        for process in running.values():
            process.terminate()  # they save their state first
        for process in running.values():
            process.join()
    if stops:
        raise Interrupted(None, stops[0])
    return errors


def _in_process(compare: Compare, job: Job) -> None:
    end_with_parent()  # also where that one is killed: the next one finds nobody at work
    folder = compare.folder(job)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / OUTPUT).open("a", encoding="utf-8", buffering=1) as file:
        try:
            with stopping_at_once():
                error = attempt(compare, job, say=lambda line: print(line, file=file))
        except Interrupted as stop:
            sys.exit(128 + stop.signum)
        if error:
            print(error, file=file)
    sys.exit(0 if error is None else 1)


def kept_error(compare: Compare, job: Job) -> str | None:
    """Why a run failed, in one line, as its folder says."""
    file = compare.folder(job) / ERROR
    return file.read_text(encoding="utf-8").partition("\n")[0] if file.exists() else None


def _error_of(compare: Compare, job: Job, code: int | None) -> str | None:
    """What a process left behind; one that was killed had no time to."""
    if code == 0:
        return None
    output = compare.folder(job) / OUTPUT
    if error := kept_error(compare, job):
        return error
    if code == 1 and output.exists() and (lines := output.read_text(encoding="utf-8").splitlines()):
        return lines[-1]
    return f"ended with {signal.Signals(-code).name if code and code < 0 else f'status {code}'} (out of memory?)"
