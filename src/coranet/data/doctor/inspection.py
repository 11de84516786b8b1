"""What is wrong with a dataset, all of it at once, and what is in it: the eyes of `coranet doctor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from coranet.data.alignment import Turn, Verdict, judge
from coranet.data.datasets import survey_dataset
from coranet.data.datasets.folder import PARTS, Case, Dataset
from coranet.data.datasets.names import scans
from coranet.data.doctor.checks import check_alignment, check_case, check_dataset
from coranet.data.doctor.facts import Facts, Seen, gather_facts
from coranet.data.doctor.label_notes import label_notes
from coranet.data.doctor.observation import Label, Look, Observation, inspect_case, inspect_file, see_image, see_label
from coranet.data.doctor.outliers import Oddity, outliers
from coranet.data.grid import mismatch
from coranet.data.problem import FileError, Problem
from coranet.data.readers import Source, Volume, source

__all__ = ["Facts", "OnCase", "Problem", "Report", "conclude", "inspect_folder", "inspect_loose", "inspect_surveyed"]

OnCase = Callable[[Case, Sequence[Volume], Label | None, Mapping[int, str]], None]
"""Sees a case that could be read while it is in memory: its channels, the label's values where it has one, the classes."""

_FEW = 3
"""Problems with one remedy that each have a line."""

_NAMED = 20
"""Files that are named in one line; the others are counted."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings, fatal ones first."""

    dataset: Dataset | None
    """None where the folder or its `dataset.json` cannot be made out."""
    problems: tuple[Problem, ...]
    facts: Facts | None
    outliers: Mapping[str, tuple[Oddity, ...]] = field(default_factory=dict)
    """The cases unlike the others, oddest first."""
    alignment: Verdict | None = None
    """How the labels lie on the images, of the cases where both have one grid."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What can be said of each labelled case alone, where there are too few to compare."""

    @property
    def fatal(self) -> bool:
        """Whether training cannot start."""
        return any(problem.level == "fatal" for problem in self.problems)

    def lines(self, leave_out: Callable[[Problem], bool] = lambda problem: False) -> list[str]:
        """The problems in words; of many with one remedy the first, and which files have it too."""
        alike: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.problems:
            if not leave_out(problem):
                alike.setdefault((problem.level, problem.remedy), []).append(problem)
        return [line for problems in alike.values() for line in _lines_of(problems)]


def _lines_of(alike: Sequence[Problem]) -> list[str]:
    """A line for each of a few problems with one remedy, and one for all of many."""
    lines = [f"{problem.level.upper()}: {problem}" for problem in alike]
    if len(lines) <= _FEW:
        return lines
    files = list(dict.fromkeys(problem.file for problem in alike[1:]))
    rest = f" and {len(files) - _NAMED} other files" if len(files) > _NAMED else ""
    return [f"{lines[0]} And {len(lines) - 1} more like this: {', '.join(files[:_NAMED])}{rest}."]


def inspect_folder(
    root: Path,
    on_progress: Callable[[int, int], None] | None = None,
    *,
    dataset: str = "folder",
    on_case: OnCase | None = None,
) -> Report:
    """Read every scan and label of a dataset once, one case after the other, and say all that is wrong.

    Args:
        root: the dataset's folder.
        on_progress: told `(done, total)` after each file.
        dataset: how the folder is laid out, one of `DATASETS`.
        on_case: shown each case.
    """
    found, problems = survey_dataset(root, dataset)
    return inspect_surveyed(root, found, problems, on_progress, dataset, on_case)


def inspect_surveyed(
    root: Path,
    found: Dataset | None,
    problems: list[Problem],
    on_progress: Callable[[int, int], None] | None = None,
    dataset: str = "folder",
    on_case: OnCase | None = None,
) -> Report:
    """`inspect_folder` of what `survey_dataset` made of it."""
    cases = found.cases if found else ()
    loose = _loose(root, cases) if dataset == "folder" else []
    total = len(loose) + sum(len(case.images) + bool(case.label) for case in cases)
    files = count(1)

    def on_file() -> None:
        if on_progress:
            on_progress(next(files), total)

    observations = []
    for case in cases:
        classes = found.classes if found else {}
        read, observation = inspect_case(case, classes, on_file)
        observations.append(observation)
        if on_case and read.whole:
            on_case(case, read.images, read.values, classes)
    for file, look in loose:
        observations.append(inspect_file(file, look))
        on_file()
    return conclude(root, found, problems, observations)


def inspect_loose(root: Path, cases: Sequence[Case]) -> list[Observation]:
    """What there is to see of files in nnU-Net's layout that belong to no case."""
    return [inspect_file(file, look) for file, look in _loose(root, cases)]


def conclude(
    root: Path, found: Dataset | None, surveyed: Sequence[Problem], observations: Sequence[Observation]
) -> Report:
    """The report of a dataset from what its names say and what was seen of its cases, in their order.

    Args:
        root: the dataset's folder.
        found: the dataset as far as it could be made out.
        surveyed: what is wrong with its names.
        observations: of its cases in their order, and of files that belong to none.
    """
    problems = [*surveyed, *(problem for one in observations for problem in one.problems)]
    seen = {file: there for one in observations for file, there in one.seen.items()}
    fits = {one.case: one.fits for one in observations if one.fits is not None}
    traits = {one.case: one.traits for one in observations if one.traits}
    facts = gather_facts(found, seen) if found else None
    alignment = None
    if found and facts:
        alignment = _judge(found, fits, seen, on_one_grid=True)
        elsewhere = _judge(found, fits, seen, on_one_grid=False)
        for case in found.cases:
            problems += check_case(case, found, seen, elsewhere)
        problems += check_alignment(found, alignment)
        problems += check_dataset(found, facts, seen)
    ordered = sorted((_shortened(problem, root) for problem in problems), key=lambda problem: problem.level)
    return Report(
        dataset=found,
        problems=tuple(ordered),
        facts=facts,
        outliers=outliers(traits, fits, alignment),
        alignment=alignment,
        notes=label_notes(traits, fits),
    )


def _loose(root: Path, cases: Sequence[Case]) -> list[tuple[Source, Look]]:
    """Files that belong to no case, because their names or `dataset.json` are wrong: they are read all the same."""
    known = {file.path for case in cases for file in (*case.images, case.label) if file}
    try:
        files = [
            (source(file), look)
            for part in PARTS
            for kind, look in (("images", see_image), ("labels", see_label))
            for file in scans(root / f"{kind}{part}")
        ]
    except FileError:  # a folder that cannot be listed is among the problems already
        return []
    return [(file, look) for file, look in files if file.path not in known]


def _shortened(problem: Problem, root: Path) -> Problem:
    """File names as seen from the dataset's folder."""
    file = Path(problem.file)
    return replace(problem, file=str(file.relative_to(root))) if root in file.parents else problem


def _one_grid(case: Case, seen: Mapping[Source, Seen]) -> bool:
    """Whether the label's header says that it lies on its image."""
    assert case.label is not None
    return not mismatch(seen[case.images[0]].geometry, seen[case.label].geometry)


def _judge(
    dataset: Dataset, fits: Mapping[str, Mapping[Turn, float]], seen: Mapping[Source, Seen], *, on_one_grid: bool
) -> Verdict | None:
    """How labels lie voxel for voxel, of the cases whose headers agree or of those whose headers do not."""
    chosen = [case for case in dataset.cases if case.name in fits and _one_grid(case, seen) == on_one_grid]
    return judge((case.patient, fits[case.name]) for case in chosen)
