"""One of several shares of the cases, for machines that work side by side.

A case's share is decided by its name alone. So the same case is in the same share for whoever lists the folder, also when
scans are added meanwhile, and nobody has to ask anyone which cases are theirs.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coranet.errors import InputError
from coranet.locks import LOCK, OccupiedError, holding, living_owner

_WRITTEN = re.compile(r"(\d{1,7})/(\d{1,7})")
_NAME = re.compile(r"\.shard-(\d+)-of-(\d+)\.lock")


@dataclass(frozen=True, order=True)
class Shard:
    """The `number`th of `count` shares, from 1 on."""

    number: int
    count: int

    @classmethod
    def from_text(cls, text: str) -> Shard:
        """From `3/8`.

        Raises:
            InputError: it is something else.
        """
        found = _WRITTEN.fullmatch(text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"--shard {text}: write it as I/N with I from 1 to N, such as 3/8.")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def name(self) -> str:
        """As a file is called."""
        return f"shard-{self.number}-of-{self.count}"

    @classmethod
    def of(cls, case: str, count: int) -> Shard:
        """The one of so many that a case is in."""
        return cls(zlib.crc32(case.encode()) % count + 1, count)

    def has(self, case: str) -> bool:
        """Whether a case is in it."""
        return Shard.of(case, self.count) == self


@contextmanager
def sharing(folder: Path, shard: Shard | None, subject: Path) -> Iterator[None]:
    """Be the only one at work on a share; None is all of them.

    Shares of one count may be at work together. Those of another count overlap with them, and so does all: they are refused.

    Args:
        folder: where the locks are.
        shard: the share.
        subject: what it keeps others from.

    Raises:
        OccupiedError: another process is at work on some of the same cases.
    """
    own = folder / (f".{shard.name}.lock" if shard else LOCK)
    with holding(own, subject):  # first ours, then a look at others: of two that come together one sees the other
        refuse_others(folder, shard, subject)
        if shard and (holder := living_owner(folder / LOCK)):
            raise _overlap(subject, holder)
        yield


def refuse_others(folder: Path, shard: Shard | None, subject: Path) -> None:
    """Look whether shares of another count are at work; None is all of them, and overlaps with any.

    Raises:
        OccupiedError: as `sharing`.
    """
    for file in sorted(folder.glob(".shard-*-of-*.lock")):
        found = _NAME.fullmatch(file.name)
        alongside = shard is not None and found is not None and int(found[2]) == shard.count
        if not alongside and (holder := living_owner(file)):
            raise _overlap(subject, holder)


def _overlap(subject: Path, holder: object) -> OccupiedError:
    return OccupiedError(
        f"{subject}: some of these scans are being worked on by {holder}. "
        "Let it end, give the same number of shards, or choose another --out."
    )
