"""A store in the making, which a later process can take up where this one stopped or was killed.

.NAME-unfinished/         hidden beside the store's place, until it is whole
  .lock                   held by the process that writes
  journal.jsonl           the cases that are in the store, a line each, written after their voxels
  pieces/                 cases that are prepared, and wait until those before them are
  shard-3-of-8.done       that a share of the cases is prepared, and from what
  store/                  images.bin, labels.bin
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from coranet.data.store import Store, StoreWriter, as_stored
from coranet.errors import InputError
from coranet.files import sweep
from coranet.locks import LOCK, OccupiedError, holding
from coranet.processes import machine

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


CHOICE = "Make room, or choose another folder with --cache or --out."
"""Where a store cannot be written."""
_CHUNK = 2**22
"""Bytes that are copied at a time."""


PIECES = "pieces"


def unfinished(path: Path) -> Path:
    """The folder of a store in the making."""
    return path.with_name(f".{path.name}-unfinished")


def is_made(path: Path) -> bool:
    """Whether a store is in its place; then what a process left is removed that was killed at the very end."""
    there = Store.is_store(path)
    if there:
        discard(path)
    return there


def discard(path: Path) -> None:
    """Remove what the making of a store left, unless a living process is at it."""
    folder = unfinished(path)
    if folder.is_dir():
        with suppress(InputError), holding(folder / LOCK, path):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A case that is prepared."""

    key: str
    """Changes with anything the case is made from."""
    entry: Mapping[str, Any]
    """Its line of the store's index, but for where it lies."""
    hash: str
    """Of its voxels."""
    labelled: bool
    remarks: Mapping[str, Any]
    """What is to be said of it and is not kept in the store."""

    @classmethod
    def from_text(cls, text: str) -> Piece | None:
        """From a line of JSON; None where it is not whole."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def to_text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"


class PieceFiles:
    """The files of one case until it is its turn, called by its key: they are found again where other cases come or go."""

    def __init__(self, folder: Path, key: str) -> None:
        self.key = key
        self.image, self.label, self.words = (folder / f"{key}.{kind}" for kind in ("image", "label", "json"))

    def write_image(self, slabs: Iterable[NDArray[np.float32]], size: int, planes: int | None) -> Hash:
        """Write an image as it comes, some of its `size` planes `(n, Y, Z)` across X at a time.

        Returns:
            The hash of its voxels as they are stored, to go on with.
        """
        digest = hashlib.sha256()
        with _in_one_move(self.image) as file:
            for at, voxels in _places(slabs, size, planes):
                file.seek(4 * at)
                file.write(voxels.data)
            count = file.seek(0, os.SEEK_END)
            file.seek(0)
            _add_bytes(digest, file, count)
        return digest

    def write_label(self, label: NDArray[np.uint8], digest: Hash, planes: int | None) -> None:
        """Write a label, and add it to the hash."""
        voxels = np.ascontiguousarray(as_stored(label, planes)).data
        digest.update(voxels)
        with _in_one_move(self.label) as file:
            file.write(voxels)

    def finish(self, piece: Piece) -> None:
        """Say that the voxels are all there; last of all, so that what is said is true."""
        with _in_one_move(self.words) as file:
            file.write(piece.to_text().encode())

    def read(self) -> Piece | None:
        """What was prepared; None where nothing was."""
        piece = Piece.from_text(self.words.read_text()) if self.words.is_file() else None
        return piece if piece is not None and piece.key == self.key else None

    def remove(self) -> None:
        """Once the store has it."""
        for file in (self.words, self.image, self.label):
            file.unlink(missing_ok=True)


def _places(
    slabs: Iterable[NDArray[np.float32]], size: int, planes: int | None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Voxels that lie together in the file, and which of the file's the first of them is."""
    done = 0
    for slab in slabs:
        channel, first = divmod(done, size)
        if planes in (None, 0):
            yield done * slab[0].size, slab
        else:
            stack = np.ascontiguousarray(as_stored(slab, planes))  # (planes, n, width)
            for number, part in enumerate(stack):
                yield ((channel * len(stack) + number) * size + first) * part.shape[1], part
        done += len(slab)


def _add_bytes(digest: Hash, file: BinaryIO, count: int) -> None:
    """Take in the next bytes of a file, as far as there are any."""
    for start in range(0, count, _CHUNK):
        digest.update(file.read(min(_CHUNK, count - start)))


@contextmanager
def _in_one_move(path: Path) -> Iterator[BinaryIO]:
    """A file of this process alone: one whose parent was killed may still be at the same case."""
    beside = path.with_suffix(f"{path.suffix}-{machine()}-{os.getpid()}")
    with beside.open("w+b") as file:
        yield file
    beside.replace(path)


class ResumableWriter(StoreWriter):
    """Writes a store from pieces, and keeps what is written when it stops early.

    Args:
        path: the store's place.
        header: what its index says of all cases.
        keys: of the cases, in order; those that an earlier writer left, as far as they are the same, are kept as `done`.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], keys: Sequence[str]) -> None:
        super().__init__(path, header)
        self.keys, self.done = keys, list[Piece]()
        self.lock: ExitStack | None = None

    def choose_folder(self) -> Path:
        """One that can be found again, unless another process is at work there."""
        sweep(self.path.parent)
        folder, lock = unfinished(self.path), ExitStack()
        try:
            lock.enter_context(holding(folder / LOCK, self.path, CHOICE))
        except OccupiedError:
            return super().choose_folder()
        self.lock = lock
        return folder

    def __enter__(self) -> ResumableWriter:
        super().__enter__()
        self.pieces = self.folder / PIECES
        self.pieces.mkdir(exist_ok=True)
        self.journal = self.folder / "journal.jsonl"
        (self.inner / "index.json").unlink(missing_ok=True)  # of a writer that was killed just before the move
        written = self.journal.read_text().splitlines() if self.journal.exists() else []
        for key, text in zip(self.keys, written, strict=False):
            piece = Piece.from_text(text)
            if piece is None or piece.key != key or not self._holds(piece):
                break
            self._count(piece)
        self.journal.write_text("".join(piece.to_text() for piece in self.done))
        for name, size in (("images.bin", 4), ("labels.bin", 1)):
            self.files[name].truncate(size * self.voxels[name])
        return self

    def files_of(self, number: int) -> PieceFiles:
        """Where the case of that number is put while it waits."""
        return PieceFiles(self.pieces, self.keys[number])

    def append(self, piece: Piece, files: PieceFiles) -> None:
        """Move the next case into the store; once this returns, a killed process will not have to do it again."""
        for name, source in (("images.bin", files.image), ("labels.bin", files.label if piece.labelled else None)):
            if source is not None:
                with source.open("rb") as voxels:
                    shutil.copyfileobj(voxels, self.files[name], _CHUNK)
                self.files[name].flush()
        with self.journal.open("a") as journal:
            journal.write(piece.to_text())
        self._count(piece)
        files.remove()

    def clear_away(self, *, failed: bool) -> None:
        """Remove what was written on the way, unless it stopped early and something is worth keeping."""
        waiting = any(self.pieces.glob("*.json")) if self.pieces.is_dir() else False
        if not (failed and self.lock is not None and (self.done or waiting)):
            super().clear_away(failed=failed)
        if self.lock is not None:
            self.lock.close()

    def _holds(self, piece: Piece) -> bool:
        """Whether the next voxels of the store are a piece's: after more than a kill they may never have got there."""
        digest = hashlib.sha256()
        voxels = int(np.prod(piece.entry["shape"]))
        parts = [("images.bin", 4, voxels)]
        parts += [("labels.bin", 1, voxels // piece.entry["shape"][0])] if piece.labelled else []
        for name, size, count in parts:
            with (self.inner / name).open("rb") as file:
                file.seek(size * self.voxels[name])
                _add_bytes(digest, file, size * count)
        return digest.hexdigest()[:16] == piece.hash

    def _count(self, piece: Piece) -> None:
        self.enter(piece.entry, piece.hash, labelled=piece.labelled)
        self.done.append(piece)
