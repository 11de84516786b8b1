"""Raw scans on their way into a store: each case is read once, looked at by the doctor and prepared.

How scans are prepared depends on how all of them lie, which their headers say. So headers are read first. Then every case
is read, and all that is wrong with any of them is known before the store is finished. Of formats whose headers cannot be
read alone, every case is looked at first and read again to be prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from coranet.data.datasets import survey_dataset
from coranet.data.datasets.folder import Case, Dataset, refuse
from coranet.data.doctor.checks import check_case
from coranet.data.doctor.inspection import Report, conclude, inspect_loose, inspect_surveyed
from coranet.data.doctor.observation import Observation, ReadCase, inspect_case
from coranet.data.prepare.extents import Extents, extents_of
from coranet.data.prepare.partial_store import PieceFiles, discard, is_made
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.share import prepare_share, shares_are_ready
from coranet.data.prepare.store_builder import Remarks, build_store, building
from coranet.data.prepare.workers import Made, Task, make_piece, side_by_side
from coranet.data.problem import Problem, fatal
from coranet.data.readers import Volume
from coranet.data.shards import Shard
from coranet.errors import InputError

REFUSED = "refused"
"""The file, beside the cases that are prepared, which says that there is no use in preparing more of them: none are kept."""


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Which scans become a store, how and where."""

    root: Path
    dataset: str = "folder"
    """How the folder is laid out, one of `DATASETS`."""
    choose: Callable[[Dataset], Sequence[Case]]
    """The cases that are stored, in their order."""
    prepare: Callable[[Extents, Sequence[str]], Preparation]
    """From what the training scans are and the channels' names."""
    place: Callable[[Dataset, Sequence[Case], Preparation], Path]
    """Where the store goes; asked before any case is prepared."""
    amend: Callable[[Dataset], Dataset] = lambda dataset: dataset
    """What else belongs to the dataset, such as labels that were corrected since."""
    passes: Callable[[Problem], bool] = lambda problem: problem.level == "warning"
    """What is wrong with scans and can be passed over."""
    purpose: str = "prepared"
    """What scans cannot be where something else is wrong."""
    keep: bool = True
    """Whether cases that are prepared are kept for another try where one of them cannot be."""
    shard: Shard | None = None
    """Of the cases, the share that is prepared, and no store is made yet."""
    jobs: int = 1
    """Processes, at most."""
    say: Callable[[str], None] = lambda message: None
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None


class _OtherSettingsError(Exception):
    """The scans lie otherwise than their headers said."""


def take_in(intake: Intake) -> tuple[Path, Dataset, list[Remarks]]:
    """Check and prepare scans: where the store is, what dataset they are, and what is to be said of each stored case.

    A store that is there already is left as it is, and nothing is said of its cases.

    Raises:
        InputError: all that is wrong with the scans and cannot be passed over, or the first case that cannot be prepared.
    """
    found, problems = survey_dataset(intake.root, intake.dataset)
    found = intake.amend(found) if found else None
    extents = look_at(found, intake) if found and all(map(intake.passes, problems)) else None
    if found and extents:
        cases, settings = intake.choose(found), intake.prepare(extents, found.channels)
        path = intake.place(found, cases, settings)
        if intake.shard:
            work = _Checked(found, intake.passes)
            count = partial(intake.on_progress, "preparing")
            prepare_share(cases, settings, path, intake.shard, work, count, intake.jobs)
            return path, found, []
        if shares_are_ready(cases, settings, path):  # every case was looked at then
            return path, found, build_store(found, cases, settings, path)
        with suppress(_OtherSettingsError):
            if not is_made(path):
                return path, found, _at_once(intake, (found, problems), cases, settings, path)
    if intake.shard:
        refuse(problems)
        raise InputError(
            f"--shard {intake.shard}: how the scans of {intake.root} lie is not known before all of them are read. "
            "Convert them to NIfTI, or prepare them without --shard."
        )
    return _one_after_the_other(intake, found, problems)


@dataclass(frozen=True)
class _Checked:
    """Reads a case of a share once, refuses it where something is wrong with it, and prepares it."""

    found: Dataset
    passes: Callable[[Problem], bool]

    def __call__(self, task: Task) -> Made:
        if piece := PieceFiles(task.folder, task.key).read():
            return task.number, piece, False
        read, observation = inspect_case(task.case, self.found.classes)
        wrong = [*observation.problems, *check_case(task.case, self.found, observation.seen, None)]
        if stop := next((problem for problem in wrong if not self.passes(problem)), None):
            raise InputError(str(stop))
        return make_piece(task, _images(read, task.case), _labels(read, task.case))


def look_at(found: Dataset, intake: Intake) -> Extents | None:
    """What the headers of the training scans say; None where no header says anything, or voxels come with it."""
    images = [case.images[0] for case in found.cases if case.part == "Tr"]
    geometries = []
    for done, image in enumerate(images if all(image.has_header for image in images) else (), start=1):
        with suppress(InputError):  # that it cannot be used is said when it is read
            geometries.append(image.look())
        intake.on_progress("checking", done, len(images))
    return extents_of(geometries) if geometries else None


def _one_after_the_other(
    intake: Intake, found: Dataset | None, problems: list[Problem]
) -> tuple[Path, Dataset, list[Remarks]]:
    """Look at every case, then read them again to prepare them, unless that was done before."""
    report = inspect_surveyed(
        intake.root, found, problems, lambda done, total: intake.on_progress("checking", done, total), intake.dataset
    )
    _refuse(intake, report)
    assert found is not None
    assert report.facts is not None
    cases, settings = intake.choose(found), intake.prepare(report.facts, found.channels)
    path, remarks = intake.place(found, cases, settings), list[Remarks]()
    if not is_made(path):
        jobs = min(intake.jobs, len(cases))
        with _tidied(intake, path):
            remarks = build_store(
                found, cases, settings, path, lambda done, total: intake.on_progress("preparing", done, total), jobs
            )
    return path, found, remarks


def _at_once(
    intake: Intake, survey: tuple[Dataset, list[Problem]], cases: Sequence[Case], settings: Preparation, path: Path
) -> list[Remarks]:
    """Read every case once, look at it and prepare it."""
    (found, problems), observations, failures = survey, dict[int, Observation](), dict[int, InputError]()
    loose = inspect_loose(intake.root, found.cases) if intake.dataset == "folder" else []
    with _tidied(intake, path), building(found, cases, settings, path) as builder:
        refused = builder.writer.pieces / REFUSED
        refused.unlink(missing_ok=True)
        tasks = {task.case.name: task for task in builder.tasks}
        errands = [Errand(number, case, found.classes, tasks.get(case.name)) for number, case in enumerate(found.cases)]
        with closing(side_by_side(_carry_out, errands, min(intake.jobs, len(errands)))) as done:
            for number, observation, outcome in done:
                observations[number] = observation
                wrong = [*observation.problems, *check_case(found.cases[number], found, observation.seen, None)]
                if not all(map(intake.passes, wrong)):  # others go on, where they are kept until it is mended
                    if not intake.keep:
                        refused.touch()
                elif isinstance(outcome, InputError):
                    failures[number] = outcome
                elif outcome is not None:
                    builder.take(*outcome)
                intake.on_progress("preparing", len(observations), len(errands))
        seen = [observations[number] for number in range(len(errands))]
        report = conclude(intake.root, found, problems, [*seen, *loose])
        _refuse(intake, report)
        if failures:
            raise failures[min(failures)]
        if report.facts is None or intake.prepare(report.facts, found.channels) != settings:
            raise _OtherSettingsError
        return builder.remarks


class Errand(NamedTuple):
    """A case to look at, and to prepare where it is to be stored and is not yet."""

    number: int
    case: Case
    classes: Mapping[int, str]
    task: Task | None


def _carry_out(errand: Errand) -> tuple[int, Observation, Made | InputError | None]:
    """Read a case once; its number, what was seen of it, and what came of it or why nothing did."""
    read, observation = inspect_case(errand.case, errand.classes)
    task = errand.task
    if task is None or (task.folder / REFUSED).exists():
        return errand.number, observation, None
    try:
        piece = make_piece(task, _images(read, task.case), _labels(read, task.case))
    except InputError as error:
        return errand.number, observation, error
    return errand.number, observation, piece


def _images(read: ReadCase, case: Case) -> Iterator[Volume]:
    """The channels, each out of memory once it is taken; what could not be read is tried as the case to store has it."""
    if not read.whole:
        yield from (image.read() for image in case.images)
    while read.whole and read.images:
        yield read.images.pop(0)


def _labels(read: ReadCase, case: Case) -> Iterator[Volume]:
    if case.label is not None:
        label, read.label = read.label, None
        yield case.label.read() if label is None else label


def _refuse(intake: Intake, report: Report) -> None:
    """Stop where something is wrong; where it can be passed over, say so."""
    stops = [problem for problem in report.problems if not intake.passes(problem)]
    also = "" if intake.dataset == "folder" else f" --dataset {intake.dataset}"
    doctor = f"`coranet doctor {intake.root}{also}`"
    if stops or report.facts is None:
        first = stops[0] if stops else fatal(intake.root, "has no scan that can be used", f"{doctor} says why")
        more = f" And {len(stops) - 1} more problems; {doctor} lists them." if len(stops) > 1 else ""
        raise InputError(f"{intake.root}: cannot be {intake.purpose} as it is. {first}{more}")
    if report.problems:
        intake.say(f"Warnings about these scans: {len(report.problems)}. {doctor} lists them.")


@contextmanager
def _tidied(intake: Intake, path: Path) -> Iterator[None]:
    """Remove what was prepared for a store that will not be made: once a file is mended, it is another store."""
    try:
        yield
    except _OtherSettingsError:
        discard(path)
        raise
    except InputError:
        if not intake.keep:
            discard(path)
        raise
