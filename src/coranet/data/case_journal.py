"""Which cases of a folder of results are finished, so that none is done twice, by whoever works on them.

    DIR/.cases/<share>.txt      a line of JSON for each finished case, appended by the one process that owns the share

A case counts as finished where all of this is as it was:

    what made the results       weights by their SHA-256, and every option that changes a result
    its scan                    each file by path, size and time of change; voxels are not read for it
    its results                 each file by size and time of change

Each line has a row: what is said of the case in the end. Rows of all shares, in the order in which the cases are listed,
are the rows that one process alone would have had, so that any summary of them is the same to the last byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from coranet.data.datasets.folder import Case
from coranet.files import make_folder

JOURNALS = ".cases"
"""In a folder of results."""

Row = dict[str, Any]
Rows = dict[str, Row]
"""By case, in the order in which the cases are listed."""


@dataclass
class CaseJournal:
    """What is finished in a folder, and what is added to it."""

    folder: Path
    what: str
    """Stands for all that makes the results."""
    done: dict[str, dict[str, Any]] = field(init=False)
    """The newest line of each case."""
    share: str = "all"
    file: BinaryIO | None = None

    def __post_init__(self) -> None:
        self.done = read_journals(self.folder)

    @contextmanager
    def opened(self, share: str) -> Iterator[CaseJournal]:
        """Add to it as the owner of a share."""
        self.share = share
        try:
            yield self
        finally:
            if self.file is not None:
                self.file.close()
            self.file = None

    def found(self, case: Case) -> Row | None:
        """What is said of a case that is finished; None where it is not, or no longer."""
        line = self.done.get(case.name)
        if line is None or line["key"] != self.key(case) or not _unchanged(self.folder, line["files"]):
            return None
        row: Row = line["row"]
        return row

    def rows(self, cases: Iterable[Case]) -> Rows | None:
        """What is said of all of them; None where one of them is not finished."""
        rows: Rows = {}
        for case in cases:
            if (row := self.found(case)) is None:
                return None
            rows[case.name] = row
        return rows

    def kept(self) -> Rows:
        """What is said of all cases whose results are there as they were made, wherever their scans are by now."""
        mine = {case: line for case, line in self.done.items() if line.get("what") == self.what and line["files"]}
        return {case: line["row"] for case, line in mine.items() if _unchanged(self.folder, line["files"])}

    def add(self, case: Case, row: Row, files: Sequence[Path]) -> None:
        """A case is finished, and these are its results; once this returns, it will not be done again."""
        if self.file is None:
            self.file = _appended(self.folder / JOURNALS / f"{self.share}.txt")
        seen = _seen(self.folder, files)
        line = {"case": case.name, "what": self.what, "key": self.key(case), "files": seen, "row": row}
        self.file.write(json.dumps(line).encode() + b"\n")
        self.file.flush()
        self.done[case.name] = line

    def key(self, case: Case) -> str:
        """Changes with a case's files, what of them is meant, and what makes the results."""
        meant = [
            (image.reader, image.inside, [(str(file.absolute()), *_stat(file)) for file in image.files()])
            for image in case.images
        ]
        return digest([self.what, case.name, meant])


def read_journals(folder: Path) -> dict[str, dict[str, Any]]:
    """The newest whole line of each case, of all shares."""
    files = sorted((folder / JOURNALS).glob("*.txt"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    return {line["case"]: line for file in files for line in _lines(file)}


def digest(content: object) -> str:
    """Of anything that JSON can say."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as opened:
        for text in opened:
            try:
                line = json.loads(text)
                whole = {"case", "key", "files", "row"} <= line.keys()
            except (ValueError, AttributeError, RecursionError):
                continue  # of a process that was killed
            if whole:
                yield line


def _appended(path: Path) -> BinaryIO:
    """A file to add lines to."""
    make_folder(path.parent)
    file = path.open("ab+")
    if file.tell():
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":  # whoever wrote last was killed
            file.write(b"\n")
    return file


def _stat(file: Path) -> tuple[int, int]:
    try:
        stat = file.stat()
    except OSError:
        return -1, -1
    return stat.st_size, stat.st_mtime_ns


def _seen(folder: Path, files: Iterable[Path]) -> dict[str, list[int]]:
    return {str(file.relative_to(folder)): list(_stat(file)) for file in files}


def _unchanged(folder: Path, files: Mapping[str, list[int]]) -> bool:
    return all(list(_stat(folder / name)) == seen for name, seen in files.items())
