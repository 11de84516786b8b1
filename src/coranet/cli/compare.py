"""`coranet compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.cli.terminal.parsing import FLAT, GIVEN
from coranet.cli.terminal.stopping import until_stopped
from coranet.errors import InputError
from coranet.locks import owned
from coranet.runs.cluster.cluster_options import ClusterOptions
from coranet.runs.options import Options, Shared
from coranet.runs.search.search_options import SearchOptions
from coranet.signals import Interrupted

if TYPE_CHECKING:
    from coranet.runs.comparison import Compare as Comparison
    from coranet.runs.comparison import Job
    from coranet.runs.search.grids import Axis
    from coranet.runs.search.rung import Attempt


_ARRAY = 8
"""Trials of --search that are tasks together where nothing is said."""
_NOT_CHOSEN = "Scores are of test cases: whoever picks a row by them can no longer say how well it does on new scans."

TaskName = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(optional)")]
"""The option `--task` of a verb whose runs can be tasks."""


@dataclass(frozen=True, kw_only=True)
class CompareVerb:
    """Train several methods alike, with several seeds, score them on test cases, and end in one table and one page.

    Each method and seed is a run folder in DIR. What is finished is not done again and what was cut off is continued, so
    the same command goes on where it stopped. A method that fails is named in the table, and the others go on.
    Scored are the split's test cases or, where it has none, those of imagesTs that have a label in labelsTs. Of a prepared
    store these are scored on the store's own grid, and a split's validation cases will do where there are no others.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A folder in nnU-Net's raw layout, or a prepared store."""
    methods: Annotated[str, tyro.conf.arg(metavar="A,B")]
    """What to compare, as `coranet methods` lists them, or all; with settings as 'coranet[regions=tta;beta=0.9]', and
    'coranet[classes=binary]' for one network an object, 'supervised[work=coranet]' for labels alone with as many
    optimizer updates as coranet makes."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Where runs, table.md, table.csv and report.html go."""
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 3
    """Train each so often, with seeds 0 to N - 1; the page shows the first."""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Runs at a time, as processes that share the device."""
    against: Annotated[
        str | None, tyro.conf.arg(metavar="ROW", help_behavior_hint="(default: supervised, or the first)")
    ] = None
    """The row that the others are held against."""
    task: TaskName = None
    """Do this one run, named like its folder in DIR, and no table: what a task of --cluster does. NAME@STEP pauses there."""
    sweep: Annotated[SearchOptions, FLAT] = SearchOptions()
    on: Annotated[ClusterOptions, FLAT] = ClusterOptions()
    options: Annotated[Shared, FLAT] = Shared()

    def __call__(self) -> int:
        """Compare."""
        return until_stopped(self._compare, advice(self.out, self.on))

    def _compare(self) -> int:
        from coranet.cli.terminal.show import counting, say
        from coranet.runs import comparison
        from coranet.runs.row_text import split_rows
        from coranet.runs.search.grids import crossed, in_words, read_axes

        if self.jobs < 1:
            raise InputError(f"--jobs {self.jobs}: at least one.")
        options = Options(**vars(self.options))
        options = replace(options, preset=options.preset or "auto", classes=options.classes or "native")
        rows = split_rows(self.methods)
        axes = read_axes(self.sweep.grid, options.overrides)
        if self.task is not None:
            return self._do_task(self.task, dict.fromkeys((*crossed(rows, axes), *rows)), options)
        if self.sweep.halving is not None or self.sweep.search is not None:
            return self._choose(rows, axes, options)
        rows = crossed(rows, axes)
        methods, notes = ",".join(rows), [f"Varied: {in_words(axes)}. {_NOT_CHOSEN}"] if axes else []
        against = self.against or ("supervised" if "supervised" in rows else rows[0] if rows else "")
        if rows and against not in rows:
            raise InputError(f"--against {against}: is none of the rows {', '.join(rows)}.")
        with self._hands() as (attempt, _), owned(self.out):
            with counting() as on_progress:
                made = comparison.prepare(self.data, self.out, methods, self.seeds, options, say, on_progress)
            return _conclude(made, against, attempt(made), notes)

    @contextmanager
    def _hands(self) -> Iterator[tuple[Attempt, Attempt]]:
        """Who does what is missing of a comparison: this machine or a cluster; and who does a rung of a search."""
        from coranet.cli.terminal.show import say
        from coranet.runs.cluster.fleet import fleet

        if self.on.cluster is None:
            here = partial(attempt_here, self.jobs)
            yield here, here
        else:
            with fleet(self.out, self.on, GIVEN.get(), say) as tasks:
                yield tasks.attempt_all, tasks.attempt_rung

    def _do_task(self, name: str, rows: Iterable[str], options: Options) -> int:
        """One run, up to the step where its name says that it pauses."""
        from coranet.runs import comparison
        from coranet.runs.search.rung import Rung

        every = dict.fromkeys((*rows, *([self.against] if self.against else [])))
        made = comparison.plan(self.data, self.out, ",".join(every), self.seeds, options)
        run, _, step = name.rpartition(comparison.PAUSE)
        made = Rung.of(made, made.rows, int(step)) if run and step.isdecimal() else made
        return 1 if run_alone(made, made.job_of(name)) else 0

    def _choose(self, rows: Sequence[str], axes: Sequence[Axis], options: Options) -> int:
        """One row by validation cases; then its test cases, and those of the row it is held against."""
        from coranet.cli.terminal.show import counting, say
        from coranet.runs import comparison
        from coranet.runs.search.grids import crossed, in_words
        from coranet.runs.search.halving import Halving
        from coranet.runs.search.trials import Trials

        if "train.steps" in dict((*self.sweep.grid, *options.overrides)):
            raise InputError("--halving, --search: all runs are equally long. Give --steps in place of train.steps.")
        chooser: Halving | Trials
        if self.sweep.search is not None:
            together = self.on.at_once or (_ARRAY if self.on.cluster == "slurm" else self.jobs)
            chooser = Trials.of(self.sweep.search, options.steps, rows, axes, together)
            tried = tuple(dict.fromkeys((*chooser.samples, *([self.against] if self.against else []))))
        else:
            chooser, tried = Halving.from_text(self.sweep.halving or "", options.steps), crossed(rows, axes)
        if self.against is not None and self.against not in tried:
            raise InputError(f"--against {self.against}: is none of the rows {', '.join(tried)}.")
        with self._hands() as (attempt, attempt_rung), owned(self.out):
            plan = comparison.plan(self.data, self.out, ",".join(tried), self.seeds, options)
            record = chooser.record(plan, in_words(axes)).begun(self.out)
            with counting() as on_progress:
                made = comparison.prepare(
                    self.data, self.out, ",".join(tried), self.seeds, options, say, on_progress, choosing=True
                )
            record.write(self.out)
            say(chooser.in_words(made))
            record = chooser.choose(made, record, attempt_rung, say)
            if self.sweep.search is not None:
                from coranet.report.pictures.search_history import draw_search

                draw_search(self.out / "search.png", record.rounds[-1]["trials"], record.rounds[-1]["importance"])
            failed = {row: error for one in record.rounds for row, error in one["failed"].items()}
            if record.chosen is None:
                return _conclude(replace(made, rows=tuple(failed)), "", failed)
            final = replace(made, rows=tuple(dict.fromkeys((self.against or record.chosen, record.chosen))))
            return _conclude(final, final.rows[0], failed | attempt(final), record.notes())


def advice(out: Path, on: ClusterOptions, otherwise: str = ". Continue with the same command.") -> Callable[..., str]:
    """What to say to who stops a verb whose work may be on a cluster."""

    def said(stop: Interrupted) -> str:
        if on.cluster is None:
            return otherwise
        from coranet.runs.cluster.fleet import way_back

        return way_back(out, on)

    return said


def attempt_here(most: int, made: Comparison) -> dict[str, str]:
    """Run what is missing of a comparison on this machine, so many runs at a time; returns as `jobs.attempt_all`."""
    from coranet.cli.terminal.show import say
    from coranet.runs import jobs

    return jobs.attempt_all(made, most, lambda job: run_alone(made, job), say)


def run_alone(made: Comparison, job: Job) -> str | None:
    """One job in this process, shown as it goes; returns its error."""
    from coranet.cli.terminal.display import TrainingDisplay
    from coranet.cli.terminal.show import counting, say
    from coranet.runs.jobs import attempt

    with counting() as on_progress, TrainingDisplay(f"{job.row}, seed {job.seed}: ") as display:
        error = attempt(made, job, [display], say, on_progress)
    if error:
        say(f"{job.row}, seed {job.seed}: failed. {error}")
    return error


def _conclude(made: Comparison, against: str, errors: dict[str, str], notes: Sequence[str] = ()) -> int:
    """Table and page of the rows that did not fail, and 1 where one did."""
    from coranet.cli.terminal.show import say
    from coranet.report import standings, write_comparison, write_report
    from coranet.runs.comparison import Job

    good = [row for row in made.rows if row not in errors]
    good.sort(key=lambda row: row != against)  # the page holds others against its first
    repeats = [{row: made.folder(Job(row, seed)) for row in good} for seed in range(made.seeds)]
    rows = write_comparison(made.out, standings(repeats) if good else [], errors)
    show_rows(rows)
    if good:
        page = write_report(
            made.out,
            repeats[0],
            made.exam.images,
            made.exam.labels,
            title=f"{len(good)} methods on {made.data.resolve().name}",
            notes=[*notes, *(f"{row} failed, {error}" for row, error in errors.items())],
            over_seeds=rows,
        )
        say(f"Every number: {made.out / 'table.csv'}. Pictures and details: {page}")
    return 1 if errors else 0


def show_rows(rows: list[dict[str, str]]) -> None:
    """The table but for what its files say in full; a terminal that is too narrow wraps lines and cuts nothing."""
    from coranet.cli.terminal.show import output

    scored = [{name: cell for name, cell in row.items() if name != "each seed"} for row in rows if "error" not in row]
    lines = [list(scored[0]), *(list(row.values()) for row in scored)] if scored else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        output.print("  ".join(cells).rstrip(), markup=False)
    for row in rows:
        if "error" in row:
            output.print(f"{row['run']}: failed, {row['error']}", markup=False)
