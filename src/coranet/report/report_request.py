"""From folders that a person names to a page: which runs are meant, what they have, and how to make what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coranet.data.datasets.names import scans, stem
from coranet.data.problem import FileError
from coranet.errors import InputError
from coranet.evaluation import evaluate
from coranet.evaluation.folders import class_maps
from coranet.report.comparison_folder import (
    ComparisonFolder,
    is_reproduction,
    is_run,
    read_comparison,
    scans_of,
    search_of,
)
from coranet.report.numbers import TableRow
from coranet.report.page import Contents, write_page
from coranet.report.run_files import SCORES, FinishedRun, read_run, unshared_cases
from coranet.report.score_tables import console_row
from coranet.report.seeds import standings, write_comparison


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """What to report on, where to, and where to find what a run folder does not have."""

    folders: tuple[Path, ...]
    """Runs, or one folder of runs."""
    out: Path | None = None
    """Where the page goes; into the folder itself where there is one, else into `report`."""
    predictions: Path | None = None
    """Of the one run."""
    images: Path | None = None
    labels: Path | None = None

    @property
    def target(self) -> Path:
        """Where the page goes."""
        return self.out or (self.folders[0] if len(self.folders) == 1 else Path("report"))


def report_on(request: ReportRequest) -> tuple[Path, list[TableRow]]:
    """Write the page; returns it and the rows of its table for the console, none where nothing is scored.

    What is missing is said on the page, with the command that makes it.

    Raises:
        InputError: a folder has no run, a file is broken, or the page cannot be written.
    """
    one = request.folders[0] if len(request.folders) == 1 else None
    if one and not is_run(one):
        return _report_on_comparison(_comparison(one), request)
    if request.predictions and not one:
        raise InputError("--predictions: belong to one run. Name one RUN, or leave the option out.")
    for folder in request.folders:
        if not is_run(folder):
            raise _no_run(folder)
    return _report_on_runs(request)


def _report_on_runs(request: ReportRequest) -> tuple[Path, list[TableRow]]:
    runs = [_completed(read_run(name, folder), request) for name, folder in _names(request.folders).items()]
    first, scored = runs[0], [run for run in runs if run.scored]
    method, source = first.settings["method"]["kind"], Path(first.settings["data"]["source"]).name
    title = f"{first.name}: {method} on {source}" if len(runs) == 1 else f"{len(runs)} runs side by side"
    images, labels = _scan_folders(runs, request, [Path(run.settings["data"]["source"]) for run in runs])
    contents = Contents(title=title, runs=runs, images=images, labels=labels, notes=_lacks(runs, images))
    return write_page(request.target, contents), [console_row(run) for run in scored]


def _report_on_comparison(found: ComparisonFolder, request: ReportRequest) -> tuple[Path, list[TableRow]]:
    if request.predictions:
        raise InputError(f"--predictions: belong to one run, and {found.folder} holds several. Name one RUN.")
    repeats = found.repeats()
    shown = repeats[0] if repeats else {row: next(iter(seeds.values())) for row, seeds in found.rows.items()}
    runs = [read_run(row, folder) for row, folder in shown.items()]
    table = write_comparison(request.target, standings(repeats), found.errors) if repeats else []
    sources = [found.folder / "data", Path(runs[0].settings["data"]["source"])]
    images, labels = _scan_folders(runs, request, [place for place in (scans_of(found.folder), *sources) if place])
    search = search_of(found.folder)
    notes = [*search, *(f"{row} failed, {error}" for row, error in found.errors.items())]
    if found.unfinished:
        listed = ", ".join(folder.name for folder in found.unfinished)
        why = "The command that began them, given again, continues them."
        why = "A search stops early what does worse, and scores on test cases what it chooses." if search else why
        notes.append(f"Not finished yet: {listed}. {why}")
    named = found.folder.resolve().name
    title = f"{named}: {len(runs)} methods on {(scans_of(found.folder) or sources[-1]).name}"
    notes += _lacks(runs, images)
    contents = Contents(title=title, runs=runs, images=images, labels=labels, notes=notes, over_seeds=table)
    return write_page(request.target, contents), table


def _comparison(folder: Path) -> ComparisonFolder:
    """The runs in a folder.

    Raises:
        InputError: there is none.
    """
    if is_reproduction(folder):
        message = "is a folder of `coranet reproduce`"
        raise FileError(folder, message, f"Make its pages again with `coranet reproduce --out {folder}`")
    found = read_comparison(folder)
    if not found.rows:
        raise _no_run(folder)
    return found


def _no_run(folder: Path) -> FileError:
    message = "has no run" if folder.exists() else "does not exist"
    remedy = "Give a folder that `coranet train`, `coranet compare` or `coranet demo` made"
    return FileError(folder, message, remedy)


def _names(folders: Sequence[Path]) -> Mapping[str, Path]:
    """Each by the last part of its path, or by as many parts as tell it from the others."""
    whole = {folder.resolve(): folder for folder in folders}
    for count in range(1, 1 + max(len(place.parts) for place in whole)):
        names = ["/".join(place.parts[-count:]) for place in whole]
        if len(set(names)) == len(whole):
            break
    return dict(zip(names, whole.values(), strict=True))


def _completed(run: FinishedRun, request: ReportRequest) -> FinishedRun:
    """With the predictions and scores that the request asks for in place of the run's own."""
    if request.predictions:
        run = replace(run, predictions=request.predictions, scores=replace(run.scores, rows=(), slices=()))
    if request.labels and not run.scored and class_maps(run.predicted):
        run = replace(run, scores=evaluate(run.predicted, request.labels))
    return run


def _scan_folders(
    runs: Sequence[FinishedRun], request: ReportRequest, sources: Iterable[Path]
) -> tuple[Path | None, Path | None]:
    """The folders of scans and labels: those of the request, or those in a source that have every case that is shown."""
    cases = {case for run in runs for case in run.scores.by_case("dsc") or class_maps(run.predicted)}
    if request.images or not cases:
        return request.images, request.labels
    for source in sources:
        for part in ("Ts", "Tr"):
            images, labels = source / f"images{part}", source / f"labels{part}"
            there = {stem(file) for file in scans(images)}
            if all(f"{case}_0000" in there or case in there for case in cases):
                labelled = cases <= {stem(file) for file in scans(labels)}
                return images, request.labels or (labels if labelled else None)
    return None, request.labels


def _lacks(runs: Sequence[FinishedRun], images: Path | None) -> list[str]:
    """A sentence for each thing that the page cannot show, with the command that makes it."""
    said = [sentence for run in runs for sentence in _lacks_of(run)]
    predicted = any(class_maps(run.predicted) for run in runs)
    if predicted and images is None:
        said.append(
            "No case is shown, as the scans are not where they were: `coranet report ... --images SCANS --labels LABELS`."
        )
    first = next((run for run in runs if run.scored), None)
    for run in runs:
        if first and run.scored and (unshared := unshared_cases(first, run)):
            said.append(
                f"{run.name} is not compared with {first.name}: only one of the two is scored on {', '.join(unshared)}. "
                "Predict and score the same cases with both."
            )
    return said


def _lacks_of(run: FinishedRun) -> list[str]:
    folder = run.folder
    said = []
    if not run.log:
        said.append(f"{run.name} has no log: `coranet train ... --out {folder} --resume` trains it.")
    elif not run.film:
        said.append(f"{run.name} has no film: `coranet train ... --set train.checks=10` keeps one.")
    if not class_maps(run.predicted):
        command = f"coranet predict {folder} SCANS --out {folder / 'predictions'} --masks"
        said.append(f"{run.name} has no predictions to show: `{command}` makes them.")
    if not run.scored:
        command = f"coranet evaluate {run.predicted} LABELS --out {folder / SCORES}"
        said.append(f"{run.name} has no scores: `{command}` makes them.")
    return said
