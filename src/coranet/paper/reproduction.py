"""From the name of a table or figure to its finished runs.

    OUT/scans/<set>/                    scans, where they had to be laid out
    OUT/<setting>/split.json            who is labelled, unlabelled and kept for test
    OUT/<setting>/compare.json          what its runs share
    OUT/<setting>/<row>-seed<n>/        a run

Studies leave JSON beside them, so that reports need neither networks nor the truth of unlabelled cases.
Tables share runs: what one has finished, another finds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coranet.data.datasets.folder import read_folder
from coranet.data.splits.by_patient import Split
from coranet.errors import InputError, suggest
from coranet.files import make_folder
from coranet.paper.efficiency import measure
from coranet.paper.error_shares import write_all_shares
from coranet.paper.figure_list import FIGURES
from coranet.paper.head_marks import write_all_marks
from coranet.paper.laid_scans import lay_out
from coranet.paper.masked_runs import Masked
from coranet.paper.organ_box import keep_about_organ
from coranet.paper.sets import SETS, find_scans, is_scans, split_of
from coranet.paper.settings import RECIPES, ROLES, Setting, places_of, setting_of
from coranet.paper.tables import TABLES
from coranet.runs import comparison
from coranet.runs.comparison import Compare, Job
from coranet.runs.opened_store import OnProgress, Say
from coranet.runs.options import Options
from coranet.runs.row_text import parse_row

DATA = "CORANET_DATA"
"""The environment variable that says where sets are, where `--data` does not."""

OF_THE_TEXT = ("paper", "acdc", "pancreas")
"""Presets whose network and length are the text's."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What is asked for, beside a name."""

    out: Path
    data: Path | None = None
    """A folder with sets, or one of them."""
    seeds: int = 3
    steps: int | None = None
    """Instead of each set's own."""
    short: bool = False
    """A few steps on the phantom: whether it runs, not what it shows."""
    full: bool = False
    """The text's network and length where a set has a smaller one of its recipe."""
    jobs: int = 1
    device: str | None = None
    cache: Path | None = None
    only: Sequence[str] = ()
    """The sets, where not all that are there."""

    def sets(self) -> Mapping[str, Path | None]:
        """The folder of every set there is; generated ones have none yet."""
        if self.short:
            return {role.short: None for role in ROLES.values() if role.short}
        data = self.data or (Path(os.environ[DATA]) if os.environ.get(DATA) else None)
        if data is None:
            raise InputError(
                f"Where are the scans? Give a folder that holds the sets with --data, or name it in {DATA}; docs/datasets.md"
                " says where to get them. With --short the phantom is taken, for a few steps."
            )
        if not data.is_dir():
            raise InputError(f"{data}: no such folder. Give the folder that the sets lie in with --data.")
        wanted = dict.fromkeys(name for role in ROLES.values() for name in role.sets)
        if unknown := [name for name in self.only if name not in wanted]:
            raise InputError(f"--sets {','.join(unknown)}: no such set. {suggest(unknown[0], wanted)}")
        found = {name: find_scans(SETS[name], data) for name in wanted}
        if not any(found.values()):
            found = {name: data if is_scans(SETS[name], data) else None for name in wanted}
        there = {name: place for name, place in found.items() if place and (not self.only or name in self.only)}
        if lacking := [name for name in self.only if name not in there] or ([] if there else list(found)):
            raise InputError(
                f"{data}: holds none of the sets {', '.join(lacking)}{' (--sets)' if self.only else ''}. "
                "Name folders like that, or give the folder of one of them."
            )
        return there


Cells = Mapping[Setting, tuple[str, ...]]
"""Methods by setting."""


NAMES = (*TABLES, *FIGURES)
"""All that can be made again."""


def cells_of(name: str, there: Iterable[str]) -> Cells:
    """The runs behind a table or figure, on the sets there are."""
    sets, found = tuple(there), dict[Setting, dict[str, None]]()
    if name in FIGURES:
        pairs = [pair for needs in FIGURES[name].needs for pair in needs.settings(sets).items()]
    else:
        pairs = [
            (setting_of(block, row, scans), (row.method,))
            for block in TABLES[name].blocks
            for scans in places_of(block, sets)
            for row in block.rows
        ]
    for setting, methods in pairs:
        found.setdefault(setting, {}).update(dict.fromkeys(methods))
    return {setting: tuple(methods) for setting, methods in found.items()}


def only_methods(cells: Mapping[str, Cells], wanted: Sequence[str]) -> dict[str, Cells]:
    """Of the runs behind each name those of some methods alone, each as a row of `coranet compare` names it.

    Raises:
        InputError: no method is named, or there is no run of one of them.
    """
    there = {_parsed(method): method for each in cells.values() for methods in each.values() for method in methods}
    if not wanted:
        raise InputError("--methods: name at least one row, or leave it out.")
    if unknown := [method for method in wanted if there and _parsed(method) not in there]:
        raise InputError(f"--methods {','.join(unknown)}: is no row here. {suggest(unknown[0], there.values())}")
    chosen = {_parsed(method) for method in wanted}

    def of_chosen(each: Cells) -> Cells:
        found = {setting: tuple(one for one in methods if _parsed(one) in chosen) for setting, methods in each.items()}
        return {setting: methods for setting, methods in found.items() if methods}

    return {name: of_chosen(each) for name, each in cells.items()}


def _parsed(row: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """A row's method and settings, in whatever order they are named."""
    method, own = parse_row(row)
    return method, frozenset(own.items())


def sets_for(name: str) -> list[str]:
    """The sets that a table or figure can be made on, generated ones left out."""
    return [one for one, scans in SETS.items() if scans.generate is None and cells_of(name, (one,))]


Attempt = Callable[[Compare], dict[str, str]]
"""Run what is missing of a comparison; returns the errors of rows that failed."""


def _after_efficiency(made: Compare, attempt: Attempt) -> dict[str, str]:
    measure(made)
    return {}


def _after_masks(made: Compare, attempt: Attempt) -> dict[str, str]:
    masked = Masked.like(made)
    errors = attempt(masked)
    write_all_shares([one.folder(job) for one in (made, masked) for job in one.jobs], made.data)
    return errors


def _after_heads(made: Compare, attempt: Attempt) -> dict[str, str]:
    write_all_marks([made.folder(job) for job in made.jobs])
    return {}


AFTER: dict[str, Callable[[Compare, Attempt], dict[str, str]]] = {
    "efficiency": _after_efficiency,
    "masks": _after_masks,
    "heads": _after_heads,
}
"""What a study does when the runs it needs are finished; returns errors as an attempt does."""


def run_cells(
    cells: Cells,
    request: Reproduction,
    attempt: Attempt,
    say: Say,
    on_progress: OnProgress,
    study: str = "",
) -> dict[Setting, dict[str, str]]:
    """Run what is missing, then what AFTER has for a study; returns the errors of rows that failed, by setting."""
    sets, errors = request.sets() if cells else {}, dict[Setting, dict[str, str]]()
    for setting, methods in cells.items():
        made = prepare(setting, methods, sets[setting.scans], request, say, on_progress)
        length = made.options.steps or "the text's"
        say(f"{setting.name}: {_several(len(methods), 'method')}, {_several(made.seeds, 'seed')}, {length} steps.")
        found = attempt(made)
        if study in AFTER:
            found |= AFTER[study](made, attempt)
        if found:
            errors[setting] = found
    return errors


def find_run(task: str, cells: Mapping[str, Cells], request: Reproduction) -> tuple[Compare, Job]:
    """A run that a task does, of those whose settings are prepared: `<setting>/<row>-seed<n>`.

    Raises:
        InputError: there is none.
    """
    folder, _, name = task.partition("/")
    found = dict[Setting, tuple[str, ...]]()
    for each in cells.values():
        found |= {one: (*found.get(one, ()), *methods) for one, methods in each.items() if one.name == folder}
    if not found:
        raise InputError(f"--task {task}: is of no setting here. Name it as `coranet status {request.out}` does.")
    setting, methods = next(iter(found.items()))
    place = request.out / setting.name
    whole = lay_out(SETS[setting.scans], request.sets()[setting.scans], request.out / "scans")
    data = _seen(setting, whole, request)
    rows = ",".join(dict.fromkeys(methods))
    made = comparison.plan(data, place, rows, request.seeds, _options(setting, request, place))
    made = replace(made, best=bool(Split.read(place / "split.json").val))
    masked = Masked.like(made)
    made = masked if name in {masked.folder(job).name for job in masked.jobs} else made
    return made, made.job_of(name)


def prepare(
    setting: Setting,
    methods: Sequence[str],
    source: Path | None,
    request: Reproduction,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Compare:
    """A setting's comparison: scans laid out, split written, settings kept."""
    scans = SETS[setting.scans]
    whole = lay_out(scans, source, request.out / "scans")
    folder = request.out / setting.name
    split, said = split_of(scans, read_folder(whole).cases, setting.share)
    make_folder(folder)
    split.write(folder / "split.json", source=f"{scans.title}, {setting.share}", notes=said)
    data = _seen(setting, whole, request, say, on_progress)
    made = comparison.prepare(
        data, folder, ",".join(methods), request.seeds, _options(setting, request, folder), say, on_progress
    )
    return replace(made, best=bool(split.val))


def _seen(
    setting: Setting,
    whole: Path,
    request: Reproduction,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Path:
    """The scans that are trained on: whole ones, or what is kept of them once a split is written."""
    coarse = SETS[setting.scans].coarse
    if coarse is None:
        return whole
    told = replace(
        coarse,
        steps=request.steps or coarse.steps,
        split=request.out / setting.name / "split.json",
        device=request.device,
        cache=request.cache,
    )
    return keep_about_organ(whole, request.out / "scans" / f"{setting.scans}-{setting.share}", told, say, on_progress)


def _options(setting: Setting, request: Reproduction, folder: Path) -> Options:
    scans = SETS[setting.scans]
    recipe = RECIPES[setting.recipe] if setting.recipe and not request.short else scans.options
    steps = scans.steps
    if request.full and recipe.preset in OF_THE_TEXT:
        recipe, steps = replace(recipe, overrides=()), None
    pictured = recipe.dims == 2 and not setting.recipe  # figures of maps are of the text's recipe
    kept = (("train.keep_maps", "true"),) if pictured else ()
    return replace(
        recipe,
        steps=steps if request.steps is None else request.steps,
        split=folder / "split.json",
        net=setting.net,
        val=None,
        device=request.device,
        cache=request.cache,
        overrides=(*recipe.overrides, *kept),
    )


def _several(count: int, name: str) -> str:
    return f"{count} {name}{'s' if count != 1 else ''}"
