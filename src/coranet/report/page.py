"""The page that compares finished runs: numbers, pictures and settings in one file that can be mailed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from coranet.data.problem import FileError
from coranet.report.curves import draw_curves
from coranet.report.filmstrip import draw_film
from coranet.report.gallery import draw_comparison
from coranet.report.markup import bullets, document, element, fold, picture, table
from coranet.report.numbers import TableRow, class_row, difference_row, score_row
from coranet.report.paint import DPI, Picture
from coranet.report.run_files import FinishedRun, read_runs

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


def write_report(
    folder: Path, runs: Mapping[str, Path], images: Path, labels: Path, *, title: str, notes: Sequence[str] = ()
) -> Path:
    """Write `report.html` and its pictures as PNG files to `folder`; returns the page.

    Args:
        folder: is made where it does not exist.
        runs: run folders by the name they are shown by; others are compared with the first.
        images: the folder of the test scans.
        labels: the folder of their labels.
        title: the headline.
        notes: what a reader should know before the numbers.

    Raises:
        InputError: a file is missing or broken, runs were scored on different cases, or `folder` cannot be written.
    """
    finished = read_runs(runs)
    drawn = (draw_comparison(finished, images, labels), draw_film(finished), draw_curves(finished))
    pictures = {one.name: (_png(one), one.caption) for one in drawn if one}
    page = folder / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (png, _) in pictures.items():
            (folder / f"{name}.png").write_bytes(png)
        page.write_text(_page(finished, pictures, title, notes), encoding="utf-8")
    except OSError as error:
        remedy = "Choose a folder that you may write to, on a disk with space"
        raise FileError(folder, f"cannot be written ({error.strerror})", remedy) from error
    return page


def _png(drawn: Picture) -> bytes:
    content = BytesIO()
    drawn.figure.savefig(content, format="png", dpi=DPI)
    return content.getvalue()


def _page(
    runs: Sequence[FinishedRun], pictures: Mapping[str, tuple[bytes, str]], title: str, notes: Sequence[str]
) -> str:
    first, *others = runs
    cases = len(first.scores.by_case("dsc"))
    parts = [
        element("h1", title),
        element("p", f"{', '.join(run.name for run in runs)}: scored on the same {cases} test cases."),
        bullets([*notes, *_remarks(runs)]),
        element("h2", "Scores"),
        table([score_row(run) for run in runs]),
        element("p", ABOUT_SCORES, "quiet"),
        element("h2", "DSC by class"),
        table([class_row(run) for run in runs]),
    ]
    if others:
        differences = table([difference_row(run, first) for run in others])
        parts += [element("h2", f"Differences to {first.name}"), differences, element("p", ABOUT_DIFFERENCES, "quiet")]
    parts += [element("h2", "Pictures"), *(picture(name, *one) for name, one in pictures.items())]
    return document(title, [*parts, fold("Settings", table(_settings(runs)))])


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


def _settings(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """One line a setting, one column a run."""
    columns = {run.name: _settings_of(run) for run in runs}
    names = dict.fromkeys(name for settings in columns.values() for name in settings)
    return [
        {"setting": name, **{run: settings[name] for run, settings in columns.items() if name in settings}}
        for name in names
    ]


def _settings_of(run: FinishedRun) -> TableRow:
    content, end = run.settings, run.log[-1]
    values = {
        "method": content["method"]["kind"],
        "labelled cases": len(content["split"]["labelled"]),
        "unlabelled cases": len(content["split"]["unlabelled"]),
        "validation cases": len(content["split"]["val"]),
        "network width": content["net"]["width"],
        "batch": " + ".join(map(str, content["train"]["batch"])),
        "steps": end["step"],
        "updates": end["updates"],
        "images seen": end["images"],
        "seconds": round(run.seconds),
        "seed": content["seed"],
        **content["made_with"],
    }
    return {name: str(value) for name, value in values.items()}
