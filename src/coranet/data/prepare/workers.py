"""Cases prepared side by side, each by one process and into files of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from coranet.data.budget import Budget, adopt, current_budget
from coranet.data.datasets.folder import Case
from coranet.data.prepare.cases import Opened, Preparation, open_case
from coranet.data.prepare.partial_store import Piece, PieceFiles
from coranet.data.prepare.resampling import restore_turned
from coranet.data.readers import Volume
from coranet.errors import InputError
from coranet.processes import FRESH, end_with_parent
from coranet.signals import ignore_requests

Made = tuple[int, Piece, bool]
"""A case's number, what to say of it, and whether it had not been prepared before."""
Work = Callable[["Task"], Made]
"""Prepares a case into its files."""
T = TypeVar("T")
Result = TypeVar("Result")

_NAMED = 5
"""Files that are named in one sentence; the others are counted."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Task(NamedTuple):
    """One case to prepare."""

    number: int
    case: Case
    settings: Preparation
    key: str
    folder: Path
    """Where its files go."""


def carry_out(task: Task) -> Made:
    """Read and prepare a case."""
    images = (image.read() for image in task.case.images)
    labels = (source.read() for source in (task.case.label,) if source is not None)
    return make_piece(task, images, labels)


def make_piece(task: Task, images: Iterable[Volume], labels: Iterable[Volume]) -> Made:
    """Prepare a case into its files, unless they are there; arguments as of `open_case`."""
    files = PieceFiles(task.folder, task.key)
    if found := files.read():
        return task.number, found, False
    case = task.case
    opened = open_case(images, labels, task.settings)
    planes = opened.grid.planes
    digest = files.write_image(opened.slabs, opened.grid.shape[0], planes)
    label = opened.place_label(case.ignore)
    if label is not None:
        files.write_label(label, digest, planes)
    piece = Piece(
        key=task.key,
        entry={
            "name": case.name,
            "patient": case.patient,
            "part": case.part,
            "shape": [len(case.images), *opened.grid.shape],
            "grid": opened.grid.to_json(),
            "planes": planes,
        },
        hash=digest.hexdigest()[:16],
        labelled=label is not None,
        remarks={
            "kept": _recovery(opened, label, case.ignore),
            "warnings": [str(problem) for problem in opened.warnings],
        },
    )
    files.finish(piece)
    return task.number, piece, True


class Guarded:
    """Work whose error is a result, so that one broken scan stops no other; a class, for other processes are told of it."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, task: Task) -> tuple[Task, Made | InputError]:
        """What came of a task."""
        try:
            return task, self.work(task)
        except InputError as error:
            return task, error


def refuse_broken(broken: Mapping[str, InputError]) -> None:
    """Raise what is wrong with the first of the files, if there is one, and name the others."""
    if broken:
        first, *others = sorted(broken)
        named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
        raise InputError(f"{broken[first]}{f' Others that cannot be prepared: {named}.' if others else ''}")


def side_by_side(work: Callable[[T], Result], tasks: Sequence[T], jobs: int) -> Generator[Result, None, None]:
    """Do the work of each task in one of so many processes, as they come; with one, in this process.

    Raises:
        InputError: what is wrong with the first case that cannot be prepared; those under way are finished before.
    """
    if jobs == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, FRESH, _begin, (current_budget(jobs),)) as pool:
        try:
            with _one_thread_each():
                futures = [pool.submit(work, task) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise InputError(
                f"A process that prepared a case was ended from outside, most likely for lack of memory. "
                f"Give fewer than --jobs {jobs}; what is done is kept."
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that are started meanwhile do their sums in one thread: there is one of them for each core."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _begin(budget: Budget) -> None:
    """In a new process: keep to its share of memory, leave stopping to the parent, and end with it."""
    adopt(budget)
    ignore_requests()
    end_with_parent()


def _recovery(opened: Opened, label: NDArray[np.uint8] | None, ignore: int | None) -> dict[str, float]:
    """By class, the Dice of a label with what comes back of it, where it is drawn; empty where all of it does."""
    if opened.truth is None or label is None:
        return {}
    there, back, both = np.zeros((3, 256), np.int64)
    for before, after in zip(opened.truth, restore_turned(label, opened.grid), strict=True):
        if ignore is not None:
            drawn = (before != ignore) & (after != ignore)
            before, after = before[drawn], after[drawn]
        for counts, values in ((there, before), (back, after), (both, before[before == after])):
            counts += np.bincount(values.ravel(), minlength=256)
    if (there == both).all():
        return {}
    return {str(value): float(2 * both[value] / (there + back)[value]) for value in np.flatnonzero(there) if value}
