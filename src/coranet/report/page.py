"""The page of one run or several: numbers, pictures and settings in one file that can be mailed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coranet.evaluation.folders import class_maps
from coranet.evaluation.quality import CASES
from coranet.files import make_folder, write_atomically
from coranet.report.markup import bullets, document, element, fold, picture, table
from coranet.report.numbers import TableRow
from coranet.report.run_files import FinishedRun, read_runs, unshared_cases
from coranet.report.score_tables import case_rows, class_rows, difference_row, failure_rows, score_row
from coranet.report.setting_tables import every_setting, main_settings

ABOUT_SCORES = (
    "Means over cases, a case being worth the mean of its classes; in brackets the 95 % bootstrap interval over cases. "
    "DSC and Jaccard are better when higher, distances (95th percentile Hausdorff and average surface distance) when lower. "
    "A failure is an object that was missed altogether, or invented where there is none: it counts with overlap 0 and with "
    "the diagonal of the image as its distance."
)
ABOUT_DIFFERENCES = (
    "Mean of the differences case by case, their 95 % bootstrap interval, and p of the two-sided Wilcoxon signed-rank test, "
    "not corrected for several comparisons."
)
MOST_FAILURES = 30
"""Failures that are listed."""


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a page shows."""

    title: str
    runs: Sequence[FinishedRun]
    """Others are compared with the first."""
    images: Path | None
    """The folder of the scans that were predicted."""
    labels: Path | None
    """The folder of their labels."""
    notes: Sequence[str] = ()
    """What a reader should know before the numbers."""
    over_seeds: Sequence[TableRow] = ()
    """The table that a comparison ends with."""


def write_report(
    folder: Path,
    runs: Mapping[str, Path],
    images: Path,
    labels: Path,
    *,
    title: str,
    notes: Sequence[str] = (),
    over_seeds: Sequence[TableRow] = (),
) -> Path:
    """Write `report.html` and its pictures as PNG files to `folder`; returns the page.

    Args:
        folder: is made where it does not exist.
        runs: run folders by the name they are shown by; others are compared with the first.
        images: the folder of the test scans.
        labels: the folder of their labels.
        title: the headline.
        notes: what a reader should know before the numbers.
        over_seeds: the table that a comparison ends with.

    Raises:
        InputError: a file is missing or broken, runs were scored on different cases, or `folder` cannot be written.
    """
    contents = Contents(
        title=title, runs=read_runs(runs), images=images, labels=labels, notes=notes, over_seeds=over_seeds
    )
    return write_page(folder, contents)


def write_page(folder: Path, contents: Contents) -> Path:
    """Write `report.html` and its pictures as PNG files to `folder`; returns the page.

    Raises:
        InputError: a scan is missing, or `folder` cannot be written.
    """
    from coranet.report.pictures.page_pictures import draw_pictures  # loads matplotlib

    pictures = draw_pictures(contents.runs, contents.images, contents.labels)
    page = folder / "report.html"
    make_folder(folder)
    for name, (png, _) in pictures.items():
        write_atomically(folder / f"{name}.png", png)
    write_atomically(page, _page(contents, pictures).encode("utf-8", "backslashreplace"))
    return page


def _page(contents: Contents, pictures: Mapping[str, tuple[bytes, str]]) -> str:
    runs = contents.runs
    scored = [run for run in runs if run.scored]
    over_seeds = [element("h2", "Over seeds"), table(contents.over_seeds)] if contents.over_seeds else []
    drawn = [element("h2", "Pictures"), *(picture(name, *one) for name, one in pictures.items())] if pictures else []
    parts = [
        element("h1", contents.title),
        element("p", _summary(runs, scored)),
        bullets([*contents.notes, *_remarks(runs)]),
        *over_seeds,
        *(_scores(scored) if scored else []),
        *drawn,
        *_worst_first(contents),
        fold("Settings", table(main_settings(runs))),
        fold("Every setting", table(every_setting(runs))),
    ]
    return document(contents.title, parts)


def _worst_first(contents: Contents) -> list[str]:
    """All cases of the first run that was told what to expect of them."""
    run = next((run for run in contents.runs if (run.predicted / CASES).is_file()), None)
    if run is None or contents.images is None:
        return []
    from coranet.report.case_page import case_parts, sources_in  # loads matplotlib

    images = sources_in(contents.images, class_maps(run.predicted))
    return [element("h2", f"Cases of {run.name}, worst first"), *case_parts(run.predicted, images, run.classes)]


def _summary(runs: Sequence[FinishedRun], scored: Sequence[FinishedRun]) -> str:
    names = ", ".join(run.name for run in scored or runs)
    if not scored:
        return f"{names}: not scored yet."
    if any(unshared_cases(scored[0], run) for run in scored):
        return f"{names}: scored on different test cases."
    return (
        f"{names}: scored on {'the same ' if len(scored) > 1 else ''}{len(scored[0].scores.by_case('dsc'))} test cases."
    )


def _scores(runs: Sequence[FinishedRun]) -> list[str]:
    """All that is said in numbers."""
    first, *others = runs
    comparable = [run for run in others if not unshared_cases(first, run)]
    failures = failure_rows(runs)
    parts = [
        element("h2", "Scores"),
        table([score_row(run) for run in runs]),
        element("p", ABOUT_SCORES, "quiet"),
        element("h2", "By class"),
        table(_by_class(runs)),
    ]
    if comparable:
        differences = table([difference_row(run, first) for run in comparable])
        parts += [element("h2", f"Differences to {first.name}"), differences, element("p", ABOUT_DIFFERENCES, "quiet")]
    parts += [element("h2", "Failures"), table(failures[:MOST_FAILURES]) if failures else element("p", "None.")]
    if len(failures) > MOST_FAILURES:
        parts.append(element("p", f"And {len(failures) - MOST_FAILURES} more, listed in scores.csv.", "quiet"))
    return [*parts, fold("DSC of every case", table(case_rows(runs)))]


def _by_class(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """The rows of all runs, those of one class together."""
    rows = [row for run in runs for row in class_rows(run)]
    names = list(dict.fromkeys(row["class"] for row in rows))
    return sorted(rows, key=lambda row: names.index(row["class"]))


def _remarks(runs: Sequence[FinishedRun]) -> list[str]:
    """What makes a comparison unfair."""
    steps = {run.name: run.settings["train"]["steps"] for run in runs}
    remarks = []
    if len(set(steps.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in steps.items())
        remarks.append(f"The runs were not trained for the same number of steps: {listed}.")
    for run in runs:
        seen = {case for part in ("labelled", "unlabelled", "val") for case in run.settings["split"][part]}
        if known := sorted(seen & run.scores.by_case("dsc").keys()):
            remarks.append(f"{run.name} has seen test cases in training or validation: {', '.join(known)}.")
    return remarks
