"""From raw scans to a prepared store: cases side by side, resumable, kept in a cache for training."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from coranet.data.datasets.folder import Case, Dataset
from coranet.data.prepare.partial_store import CHOICE, Piece, ResumableWriter, discard, is_made
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.workers import Guarded, Task, carry_out, refuse_broken, side_by_side
from coranet.data.problem import FileError
from coranet.data.store import FORMAT, Store
from coranet.errors import InputError

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Remarks:
    """What is to be said of a case that was prepared."""

    case: str
    warnings: tuple[str, ...]
    """Of its files, and what was done about it."""
    kept: dict[str, float]
    """By class: the Dice of its label with itself, there and back, where the store's grid does not keep it whole."""
    resumed: bool
    """Whether it was prepared before the last stop."""


def default_cache() -> Path:
    """The user's cache folder: raw folders are often read-only."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coranet"
    except RuntimeError as error:
        raise InputError("There is no home folder to keep prepared scans in. Name a folder with --cache.") from error


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_place(dataset: Dataset, cases: Sequence[Case], settings: Preparation, cache: Path) -> Path:
    """Where the store of these cases is in the cache; elsewhere once a file or a setting changes."""
    return cache / f"{dataset.root.resolve().name}-{_key(dataset, cases, settings)}"


def cached_store(
    dataset: Dataset,
    cases: Sequence[Case],
    settings: Preparation,
    cache: Path,
    on_progress: OnProgress | None = None,
    jobs: int = 1,
) -> Store:
    """The store of these cases, from the cache where files and settings are as they were."""
    path = cache_place(dataset, cases, settings, cache)
    if not is_made(path):
        try:
            build_store(dataset, cases, settings, path, on_progress, jobs)
        except InputError:  # once the file is mended, it is another store
            discard(path)
            raise
    return Store.open(path)


def build_store(
    dataset: Dataset,
    cases: Sequence[Case],
    settings: Preparation,
    path: Path,
    on_progress: OnProgress | None = None,
    jobs: int = 1,
) -> list[Remarks]:
    """Read, prepare and write cases, in so many processes; one is this one. What a stop leaves is taken up again.

    The store is the same, whatever the number of processes and of stops.

    Returns:
        What is to be said of each case.

    Raises:
        InputError: what is wrong with a case that cannot be prepared, and which others cannot; the rest is prepared.
    """
    broken = dict[str, InputError]()
    with (
        building(dataset, cases, settings, path) as builder,
        closing(side_by_side(Guarded(carry_out), builder.tasks, jobs)) as made,
    ):
        if builder.ready and on_progress:
            on_progress(builder.ready, len(cases))
        for task, outcome in made:
            if isinstance(outcome, InputError):
                broken[str(task.case.images[0].path)] = outcome
            else:
                builder.take(*outcome)
            if on_progress:
                on_progress(builder.ready, len(cases))
        refuse_broken(broken)
        return builder.remarks


class Builder:
    """Takes cases as they are prepared, in any order, and writes them in theirs."""

    def __init__(self, writer: ResumableWriter, dataset: Dataset, cases: Sequence[Case], settings: Preparation) -> None:
        self.writer, self.waiting = writer, dict[int, Piece]()
        self.names = {str(value): name for value, name in dataset.classes.items() if value}
        self.resumed = set(range(len(writer.done)))
        self.tasks = [
            Task(number, case, settings, writer.keys[number], writer.pieces)
            for number, case in enumerate(cases)
            if number >= len(writer.done)
        ]

    @property
    def ready(self) -> int:
        """Cases that are prepared."""
        return len(self.writer.done) + len(self.waiting)

    def take(self, number: int, piece: Piece, new: bool) -> None:
        """A case that is prepared, now or before the last stop."""
        self.waiting[number] = piece
        if not new:
            self.resumed.add(number)
        while (following := len(self.writer.done)) in self.waiting:
            self.writer.append(self.waiting.pop(following), self.writer.files_of(following))

    @property
    def remarks(self) -> list[Remarks]:
        """What is to be said of each case that is written."""
        return [
            Remarks(
                case=piece.entry["name"],
                warnings=tuple(piece.remarks["warnings"]),
                kept={self.names.get(value, value): share for value, share in piece.remarks["kept"].items()},
                resumed=number in self.resumed,
            )
            for number, piece in enumerate(self.writer.done)
        ]


@contextmanager
def building(dataset: Dataset, cases: Sequence[Case], settings: Preparation, path: Path) -> Iterator[Builder]:
    """A store in the making, which is there once the block is left without an error.

    Raises:
        InputError: it cannot be written, or asks for labels that it must not look at.
    """
    check_crop(cases, settings)
    header = {
        "name": dataset.name,
        "channels": list(dataset.channels),
        "classes": {str(value): name for value, name in dataset.classes.items()},
        "preparation": asdict(settings),
        **_said(dataset.ignore),
    }
    try:
        with ResumableWriter(path, header, [case_key(case, settings) for case in cases]) as writer:
            yield Builder(writer, dataset, cases, settings)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}). {CHOICE}") from error


def check_crop(cases: Sequence[Case], settings: Preparation) -> None:
    """Refuse to look at labels that are not supposed to be known.

    Raises:
        InputError: `crop=label` meets a case without a label, or a test case, and nobody asked for that.
    """
    if settings.crop != "label":
        return
    for case in cases:
        if case.label is None:
            remedy = "Leave it out, or crop to something else than the ground truth"
            raise FileError(case.images[0].path, "has no label, and crop=label asks for one", remedy)
        if case.part == "Ts" and not settings.crop_label_for_all:
            what = "is the label of a test case, which crop=label would look at"
            raise FileError(case.label.path, what, "Crop to something else, or ask for it with --crop-label-for-all")


def allow_gaps(dataset: Dataset) -> Dataset:
    """The dataset with slices that are missing from a series put between their neighbours."""
    return replace(dataset, cases=tuple(map(fill_gaps, dataset.cases)))


def fill_gaps(case: Case) -> Case:
    """One case of it."""
    images = (
        replace(image, inside=(*image.inside, ("gaps", "interpolate"))) if image.reader == "dicom" else image
        for image in case.images
    )
    return replace(case, images=tuple(images))


def _key(dataset: Dataset, cases: Sequence[Case], settings: Preparation) -> str:
    described = [str(dataset.root.resolve()), dataset.name, dataset.channels, sorted(dataset.classes.items())]
    return content_hash([described, [case_key(case, settings) for case in cases], *_said(dataset.ignore).values()])


def case_key(case: Case, settings: Preparation) -> str:
    """Changes with a case's files, what of them is meant, its name and how it is prepared."""
    sources = [*case.images, *([case.label] if case.label else [])]
    meant = [(source.reader, source.inside, [str(file) for file in source.files()]) for source in sources]
    stats = [file.stat() for source in sources for file in source.files() if file.exists()]
    seen = [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    about = [FORMAT, case.name, case.patient, case.part, case.label is not None, meant, seen, asdict(settings)]
    return content_hash([*about, *_said(case.ignore).values()])


def _said(ignore: int | None) -> dict[str, int]:
    """What is written of an ignored value: nothing where there is none, so that older stores stay what they are."""
    return {} if ignore is None else {"ignore": ignore}


def content_hash(content: object) -> str:
    """Of anything that JSON can say."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
