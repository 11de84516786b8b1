"""`coranet reproduce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.cli.compare import TaskName, advice, attempt_here, run_alone, show_rows
from coranet.cli.terminal.parsing import FLAT, GIVEN, Device
from coranet.cli.terminal.stopping import until_stopped
from coranet.errors import InputError, suggest
from coranet.locks import owned
from coranet.runs.cluster.cluster_options import ClusterOptions

if TYPE_CHECKING:
    from coranet.paper.reproduction import Attempt, Cells, Reproduction
    from coranet.paper.settings import Setting


@dataclass(frozen=True, kw_only=True)
class ReproduceVerb:
    """Make a table or figure of the paper again: run what is missing, and show ours beside the paper's.

    NAME is table2 to table9, fig1 to fig9, efficiency, weights, masks, heads, or all. Runs are shared between names, what is
    finished is not done again, and what was cut off is continued by the same command. Where the paper's own set is not
    there, an open one stands for it: `docs/results.md` says which. Without NAME nothing is trained: all that finished
    runs in --out can show is written.
    """

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help_behavior_hint="(optional)")] = ""
    """What to make: table2 ... table9, fig1 ... fig9, efficiency, weights, masks, heads, all."""
    data: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the environment's CORANET_DATA)")
    ] = None
    """A folder that holds sets as they were downloaded, each in a folder of its name (acdc, sunnybrook, la, hippocampus,
    pancreas, endocardium), or the folder of one of them."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/paper")
    """Where runs, tables/, figures/ and a page go."""
    sets: Annotated[str | None, tyro.conf.arg(metavar="A,B", help_behavior_hint="(default: all that are there)")] = None
    """Use only these sets: sunnybrook, acdc-lv, acdc (14 labelled patients), acdc-7, acdc-peng (the paper's fifth), la,
    hippocampus, ..."""
    methods: Annotated[str | None, tyro.conf.arg(metavar="A,B", help_behavior_hint="(default: every row)")] = None
    """Run only these rows, named as in the tables' column `method`: supervised, coranet[regions=tta], ...; the others are
    shown where they are finished, and as missing where not."""
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 3
    """Train each so often."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: each set's own)")] = None
    """Of every run."""
    short: bool = False
    """A few steps on the phantom: shows that all of it runs, and nothing else."""
    full: bool = False
    """The text's network and length (64 channels, 130 epochs) also on sets that stand for the paper's, which have 16
    channels and 4,000 steps else. Choose an --out of its own."""
    jobs: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Runs at a time, as processes that share the device."""
    device: Device = None
    """cpu, cuda or cuda:1."""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the user's cache)")] = None
    """Where prepared scans are kept."""
    keep: Annotated[Path | None, tyro.conf.arg(metavar="TABLE/GROUP", help_behavior_hint="(optional)")] = None
    """Add all finished runs in --out to a table of runs, as results/paper: scores, settings, logs in parts, and what their
    pseudo-labels were worth."""
    unpack: Annotated[Path | None, tyro.conf.arg(metavar="TABLE/GROUP", help_behavior_hint="(optional)")] = None
    """Lay runs of such a table out as folders in --out, and do nothing else."""

    task: TaskName = None
    """Do this one run of NAME, as SETTING/ROW-seedN, and show nothing: what a task of --cluster does."""
    on: Annotated[ClusterOptions, FLAT] = ClusterOptions()

    def __call__(self) -> int:
        """Run what is missing, then write."""
        from coranet.paper.archive import find_archive
        from coranet.paper.reproduction import NAMES

        if self.unpack is not None:
            return self._unpack(self.unpack)
        if self.keep is not None and not find_archive(self.keep)[1]:
            raise InputError(f"--keep {self.keep}: name a group of runs too, as {self.keep / 'paper'}.")
        code = until_stopped(self._make, advice(self.out, self.on)) if self.name else self._show(NAMES)
        if self.keep is not None and code <= 1:  # finished runs are worth keeping where others failed
            self._keep(self.keep)
        return code

    def _unpack(self, place: Path) -> int:
        from coranet.cli.terminal.show import say
        from coranet.paper.archive import Archive, find_archive

        if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
            raise InputError(f"{self.out}: is there already. Choose another --out.")
        folder, group = find_archive(place)
        stored = Archive.read(folder).group(group)
        if not (stored.scores or stored.documents):
            raise InputError(f"--unpack {place}: {folder} has no table of runs with {group or 'anything'} in it.")
        stored.unpack(self.out)
        say(f"Laid out {len(stored.runs)} runs: {self.out}")
        return 0

    def _keep(self, place: Path) -> None:
        from coranet.cli.terminal.show import say
        from coranet.paper.archive import Archive, find_archive
        from coranet.paper.collection import collect
        from coranet.paper.figures import judge_sources

        folder, group = find_archive(place)
        judge_sources(self.out)
        found = collect(self.out, group)
        Archive.read(folder).with_runs(found).write(folder)
        say(f"Added {len(found.runs)} runs to the table in {folder}")

    def _make(self) -> int:
        from coranet.paper.reproduction import NAMES, Reproduction, cells_of, only_methods, sets_for
        from coranet.runs.row_text import split_rows

        names = NAMES if self.name == "all" else (self.name,)
        if not set(names) <= set(NAMES):
            known = suggest(self.name, NAMES, ", and all")
            raise InputError(f"{self.name}: no table or figure is called that. {known}")
        if min(self.jobs, self.seeds, 1 if self.steps is None else self.steps) < 1:
            raise InputError("--jobs, --seeds and --steps are at least 1.")
        if self.full and (self.short or self.steps is not None):
            raise InputError("--full is the text's length: leave out --short and --steps.")
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"{self.out}: is no folder. Choose another --out.")
        request = Reproduction(
            out=self.out,
            data=self.data,
            seeds=1 if self.short else self.seeds,
            steps=self.steps,
            short=self.short,
            full=self.full,
            jobs=self.jobs,
            device=self.device,
            cache=self.cache,
            only=tuple(filter(None, map(str.strip, self.sets.split(",")))) if self.sets else (),
        )
        cells = {name: cells_of(name, request.sets()) if name != "fig2" else {} for name in names}
        if len(names) == 1 and not cells[self.name] and self.name != "fig2":
            made_on = ", ".join(sets_for(self.name))
            raise InputError(f"{self.name}: is made on {made_on}, and none of these is there. Change --data or --sets.")
        if self.methods is not None and self.methods.strip() != "all":
            cells = only_methods(cells, split_rows(self.methods))
        if self.task is not None:
            from coranet.paper.reproduction import find_run

            made, job = find_run(self.task, cells, request)
            return 1 if run_alone(made, job) else 0
        if self.on.cluster is not None:
            return self._run_on_cluster(cells, request)
        with owned(self.out):
            return self._run(cells, request, partial(attempt_here, request.jobs))

    def _run_on_cluster(self, cells: Mapping[str, Cells], request: Reproduction) -> int:
        """Every run of every setting is handed over before the first is waited for."""
        from coranet.cli.terminal.show import counting, say
        from coranet.paper.reproduction import prepare
        from coranet.runs.cluster.fleet import fleet

        wanted: dict[Setting, dict[str, None]] = {}
        for setting, rows in (pair for each in cells.values() for pair in each.items()):
            wanted.setdefault(setting, {}).update(dict.fromkeys(rows))
        sets = request.sets()
        with fleet(self.out, self.on, GIVEN.get(), say) as tasks, owned(self.out):
            for setting, methods in wanted.items():
                with counting() as on_progress:
                    made = prepare(setting, tuple(methods), sets[setting.scans], request, say, on_progress)
                tasks.send_runs(made, f"{made.out.name}/")
            return self._run(cells, request, lambda made: tasks.attempt_all(made, f"{made.out.name}/"))

    def _run(self, cells: Mapping[str, Cells], request: Reproduction, attempt: Attempt) -> int:
        """Run what is missing of each name, and show it."""
        from coranet.cli.terminal.show import counting, say
        from coranet.paper.reproduction import run_cells

        failed = False
        for name in cells:
            with counting() as on_progress:
                errors = run_cells(cells[name], request, attempt, say, on_progress, study=name)
            for setting, found in errors.items():
                failed = True
                for row, error in found.items():
                    say(f"{setting.name}, {row}: failed. {error}")
        try:
            code = self._show(tuple(cells))
        except InputError:
            if failed or self.methods is None:
                raise
            say(f"These runs are kept in {self.out}. {self.name} is drawn once its other rows are finished too.")
            return 0
        return 1 if failed else code

    def _show(self, names: Sequence[str]) -> int:
        from coranet.cli.terminal.show import say
        from coranet.paper.evidence import show_evidence, write_evidence

        page, parts = write_evidence(self.out, names)
        for title, rows in show_evidence(parts):
            say(title)
            show_rows(rows)
        say(f"Tables and pictures: {page}")
        return 0
