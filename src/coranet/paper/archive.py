"""Finished runs in two files of a few megabytes, from which every table and page is made again.

    scores.csv.xz    a line for each run, case and class, with the typed columns of `score_table`
    runs.jsonl.xz    settings, logs and the other files of runs that are not large: a line a file, with its path

`Archive.unpack` lays them out as folders of runs, as `coranet reproduce` left them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from coranet.data.problem import FileError
from coranet.errors import InputError
from coranet.evaluation import Scores
from coranet.files import make_folder, write_atomically
from coranet.paper.score_table import Tables, read_text, write_text

SCORES: Final = "scores.csv.xz"
DOCUMENTS: Final = "runs.jsonl.xz"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Files of runs by path, which begins with the name of a group: `paper/la-16/coranet-seed0/run.json`."""

    scores: Tables = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    """All other files: what their JSON says, or that of each line, or their text, as the end of a name tells."""

    @property
    def runs(self) -> tuple[str, ...]:
        """The folders of runs that were scored."""
        return tuple(dict.fromkeys(_folder(file) for file in self.scores))

    @classmethod
    def read(cls, folder: Path) -> Archive:
        """Read what `write` wrote; nothing where there is no table.

        Raises:
            InputError: a file is missing or broken.
        """
        if not (folder / SCORES).exists():
            return cls()
        try:
            scores = read_text(_read(folder / SCORES))
        except ValueError as error:
            raise FileError(folder / SCORES, f"is no table of runs ({error})", "Get it anew") from error
        try:
            records = [json.loads(line) for line in _read(folder / DOCUMENTS).splitlines()]
            return cls(scores=scores, documents={record["file"]: record["content"] for record in records})
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(folder / DOCUMENTS, f"holds no files of runs ({error})", "Get it anew") from error

    def write(self, folder: Path) -> None:
        """Write both files; the same runs give the same bytes.

        Raises:
            InputError: a file cannot be written, or a run has scores that are not ours.
        """
        table = write_text(self.scores)
        records = ({"file": file, "content": self.documents[file]} for file in sorted(self.documents))
        make_folder(folder)
        write_atomically(folder / SCORES, lzma.compress(table.encode(), preset=9))
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        write_atomically(folder / DOCUMENTS, lzma.compress(lines.encode(), preset=9))

    def with_runs(self, others: Archive) -> Archive:
        """With these runs too; a run that both have is replaced whole."""
        replaced = set(others.runs)

        def mine(files: Mapping[str, T]) -> dict[str, T]:
            return {file: content for file, content in files.items() if _folder(file) not in replaced}

        return Archive(
            scores=mine(self.scores) | dict(others.scores), documents=mine(self.documents) | dict(others.documents)
        )

    def group(self, name: str) -> Archive:
        """What is in one folder, by path from there on; all of it where the name is empty."""
        start = f"{name}/" if name else ""

        def inside(files: Mapping[str, T]) -> dict[str, T]:
            return {file.removeprefix(start): content for file, content in files.items() if file.startswith(start)}

        return Archive(scores=inside(self.scores), documents=inside(self.documents))

    def unpack(self, target: Path) -> None:
        """Lay the files out.

        Raises:
            InputError: one cannot be written.
        """
        for folder in {_folder(file) for file in (*self.scores, *self.documents)}:
            make_folder(target / folder)
        for file, rows in self.scores.items():
            Scores(rows=rows).write_csv(target / file)
        try:
            for file, content in self.documents.items():
                (target / file).write_bytes(_text(file, content).encode())
        except OSError as error:
            raise InputError(f"{target}: cannot be written to ({error.strerror}). Choose another folder.") from error


def find_archive(place: Path) -> tuple[Path, str]:
    """The folder of an archive, and the group in it that a path names: `results` and `paper` of `results/paper`.

    Where none is there yet, the last part of the path is the group.
    """
    for folder in (place, *place.parents):
        if (folder / SCORES).exists():
            return folder, "/".join(place.relative_to(folder).parts)
    return place.parent, place.name


def _folder(file: str) -> str:
    return str(PurePosixPath(file).parent)


def _read(file: Path) -> str:
    try:
        return lzma.decompress(file.read_bytes()).decode()
    except OSError as error:
        raise FileError(file, f"cannot be read ({error.strerror})", "Check the path") from error
    except lzma.LZMAError as error:
        raise FileError(file, f"is broken ({error})", "Get it anew") from error


def _text(file: str, content: Any) -> str:
    match PurePosixPath(file).suffix:
        case ".json":
            return json.dumps(content, indent=1) + "\n"
        case ".jsonl":
            return "".join(f"{json.dumps(record)}\n" for record in content)
        case _:
            return str(content)
