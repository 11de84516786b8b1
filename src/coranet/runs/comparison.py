"""Methods side by side: the same cases, body, augmentation and number of steps, each with several seeds.

Which runs there are, what they share and what they are scored on; `jobs.py` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.log import Listener
from coranet.errors import InputError, suggest
from coranet.evaluation.patients import write_patients
from coranet.files import make_folder, write_atomically
from coranet.json_files import read_object
from coranet.methods import find_method
from coranet.runs.equal_work import count_updates, read_work, work_named, write_work
from coranet.runs.exam import Exam, find_exam, find_store_exam, write_store_exam
from coranet.runs.machine.device import find_device
from coranet.runs.opened_store import OnProgress, Say
from coranet.runs.options import WHERE, Options
from coranet.runs.row_text import NO_FIELDS, WORK, check_row, field_path, parse_row, run_name, split_rows
from coranet.runs.run_plan import make_run

SETTINGS = "compare.json"
"""In the folder of a comparison: what all its runs share."""


PAUSE = "@"
"""Between the name of a run and the step at which it pauses."""
EXAM = "exam"
"""Beside it, where a store is compared on: what is scored, as files."""


class Job(NamedTuple):
    """A row of the table, trained with one seed."""

    row: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Which rows, on what, and what they share."""

    data: Path
    out: Path
    rows: tuple[str, ...]
    """Names of methods, each with settings of its own where it has some: `coranet[regions=tta]`."""
    seeds: int
    options: Options
    """Of every run."""
    exam: Exam
    best: bool = False
    """Score the weights that did best on validation cases too, where there are some."""
    work: Mapping[str, int] = field(default_factory=dict)
    """Updates by method, of those whose work a row is to equal."""
    until: int | None = None
    """Pause after so many steps, and score no test case."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every row with one seed, then with the next: a comparison that is cut off has whole seeds."""
        return tuple(Job(row, seed) for seed in range(self.seeds) for row in self.rows)

    def folder(self, job: Job) -> Path:
        """A job's run."""
        return self.out / run_name(job.row, job.seed)

    def options_of(self, job: Job) -> Options:
        """The shared ones, and the row's own."""
        method, own = parse_row(job.row)
        fields = tuple((field_path(name), value) for name, value in own.items() if name not in NO_FIELDS)
        options = replace(self.options, method=method, seed=job.seed, overrides=(*self.options.overrides, *fields))
        if WORK in own:
            if own[WORK] not in self.work:
                raise InputError(f"{job.row}: its work is counted when a comparison begins. Begin it without --task.")
            options = replace(options, steps=self.work[own[WORK]])
        match own.get("classes"):
            case None:
                return options
            case "native" | "binary" as classes:
                return replace(options, classes=classes)
            case other:
                raise InputError(f"{job.row}: classes are native or binary, not {other}.")

    def listeners_of(self, job: Job) -> tuple[Listener, ...]:
        """Who takes part in its training; studies have some."""
        return ()

    def task_of(self, job: Job) -> str:
        """What a job is called as a task: like its run folder, with the step it pauses at."""
        return f"{self.folder(job).name}{'' if self.until is None else f'{PAUSE}{self.until}'}"

    def job_of(self, name: str) -> Job:
        """The one that is called that as a task.

        Raises:
            InputError: there is none.
        """
        named = {self.task_of(job): job for job in self.jobs}
        if name not in named:
            raise InputError(f"--task {name}: is no run of this comparison. {suggest(name, named)}")
        return named[name]

    def finished(self, job: Job) -> bool:
        """Whether there is nothing left to do."""
        return (self.folder(job) / "scores.csv").exists()


def prepare(
    data: Path,
    out: Path,
    methods: str,
    seeds: int,
    options: Options,
    say: Say,
    on_progress: OnProgress,
    *,
    choosing: bool = False,
) -> Compare:
    """Check all that can be checked before anything is trained, and prepare the scans once for all runs.

    `choosing` is for who wants to choose among rows by validation cases, which there have to be.

    Raises:
        InputError: an unknown method, no test case with a label, settings that differ from those the folder was begun with.
    """
    compare = plan(data, out, methods, seeds, options)
    shared = tuple((path, value) for path, value in options.overrides if not path.startswith("method."))
    probe = replace(options, method="supervised", seed=0, overrides=shared)
    run, store = make_run(data, probe, find_device(options.device), say=say, on_progress=on_progress)
    for row in compare.rows:
        check_row(row, run)
    if choosing:
        _check_validation(run.split, compare)
    counted = {name: _updates(name, data, options, run.made_with) for name in work_named(compare.rows)}
    _keep_settings(compare, store.fingerprint)
    if counted:
        write_work(out, counted)
        compare = replace(compare, work={**compare.work, **counted})
    exam = compare.exam
    write_patients(compare.out, exam.patients)
    if exam.store:
        write_store_exam(exam)
    say(f"Scored are {len(exam.cases)} {exam.kind}.")
    return compare


def plan(data: Path, out: Path, methods: str, seeds: int, options: Options) -> Compare:
    """A comparison as it is asked for; no scan is read and nothing is written.

    Raises:
        InputError: an unknown method, or no test case with a label.
    """
    rows = split_rows(methods)
    for row in rows:
        find_method(parse_row(row)[0])
    if seeds < 1 or not rows:
        raise InputError(f"--methods {methods} --seeds {seeds}: name at least one method, and at least one seed.")
    split = Split.read(options.split) if options.split else None
    exam = find_store_exam(data, split, out / EXAM) if Store.is_store(data) else find_exam(data, split)
    compare = Compare(data=data, out=out, rows=rows, seeds=seeds, options=options, exam=exam, work=read_work(out))
    if len(set(map(compare.folder, compare.jobs))) < len(compare.jobs):
        raise InputError(f"--methods {methods}: name each method once; two of these would share a folder.")
    return compare


def _updates(method: str, data: Path, options: Options, made_with: Mapping[str, Any]) -> int:
    """What a method's own row makes of updates."""
    if "minutes" in made_with:
        raise InputError(f"work={method}: how long the rows are is measured later. Give their length with --steps.")
    return count_updates(make_run(data, replace(options, method=method), find_device(options.device))[0])


def _check_validation(split: Split, compare: Compare) -> None:
    if not split.val:
        raise InputError(
            f"{compare.data}: has no validation cases to choose by. Keep some labelled ones out of training with --val N, "
            "or list them under val in the file of --split."
        )
    if set(split.val) & set(compare.exam.cases):
        raise InputError(
            f"{compare.data}: the cases to choose by would be those that are scored in the end. Give a split that lists "
            "test cases too (--split)."
        )


def _keep_settings(compare: Compare, fingerprint: str) -> None:
    """Runs of one table share everything but method and seed: a folder is continued as it was begun.

    Scans may have been moved since, as long as they are the same.
    """
    options, file = compare.options, compare.out / SETTINGS
    apart = {"method", "seed", "save_every"} | WHERE
    shared = {name: value for name, value in asdict(options).items() if name not in apart} | {
        "data": str(compare.data.resolve()),
        "fingerprint": fingerprint,
        "split": asdict(Split.read(options.split)) if options.split else None,
        "test": compare.exam.cases,
    }
    mine: dict[str, Any] = json.loads(json.dumps(shared, default=str))
    if file.exists():
        begun = read_object(file, "Delete it, and give the same command again")
        changed = [name for name in mine if mine[name] != begun.get(name)]
        if "data" not in changed or "fingerprint" not in changed:  # in the same place, or the same scans
            changed = [name for name in changed if name not in ("data", "fingerprint")]
        if changed:
            name = changed[0]
            raise InputError(
                f"{compare.out}: was begun with another {name} ({begun.get(name)}, now {mine[name]}). "
                "Runs of one table must be alike: use the same settings, or another --out."
            )
        if mine == begun:
            return
    make_folder(compare.out)
    write_atomically(file, (json.dumps(mine, indent=1) + "\n").encode())
