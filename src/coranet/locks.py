"""One owner of a folder: who writes there holds its lock from before the first file until after the last.

The lock is one of the file system (`flock`) on a file that says who holds it. The system lets go of it when a process ends,
in any way, and what a killed process leaves is taken over. Some file systems have no such locks, and Windows has none:
there, whoever makes the file `-owner` beside it holds the lock, and keeps its time fresh. It is taken over when its process
has ended, or, where that is a process of another machine, when it shows no sign of life. Some network file systems keep
locks to each machine: so what a process of another machine left is taken over only after the same wait.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from coranet.errors import InputError
from coranet.files import part_of, sweep
from coranet.holders import BEAT, SAFELY, Holder, living_holder, named_holder, read_holder

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""In a folder that has an owner."""
_TRIES = 100


class OccupiedError(InputError):
    """Another process is at work there."""


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Be alone in a folder, which is made where it is not there, and removed again where nothing was put into it.

    What killed processes left half made in it is removed.

    Raises:
        OccupiedError: another process is at work there; who, and what to do.
        InputError: it cannot be written to.
    """
    with holding(folder / LOCK, folder):
        sweep(folder, deep=True)
        try:
            yield
        finally:
            sweep(folder, deep=True)


@contextmanager
def holding(file: Path, subject: Path, advice: str = "Choose another --out.") -> Iterator[None]:
    """Hold a lock.

    Args:
        file: the lock's, which is there as long as it is held.
        subject: what it keeps others from.
        advice: what to do where the file cannot be made.

    Raises:
        OccupiedError: another process holds it; who, and what to do.
        InputError: the file cannot be made.
    """
    try:
        lock = _take(file, subject)
    except OSError as error:
        raise InputError(f"{subject}: cannot be written to ({error.strerror}). {advice}") from error
    ended = threading.Event()
    threading.Thread(target=_show_life, args=(lock.file, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        lock.release()


def living_owner(file: Path) -> Holder | str | None:
    """Who holds a lock, without taking it; None where nobody does."""
    return living_holder(file) or living_holder(_owner_of(file))


class _Lock:
    """One that is held, by a file that is open or, where there are no locks, by having made the file."""

    def __init__(self, file: Path, holder: Holder, opened: BinaryIO | None) -> None:
        self.file, self.holder, self.opened = file, holder, opened

    def release(self) -> None:
        """Remove the file, and the folders that were made for it and are empty."""
        with suppress(OSError):
            if self.opened is None:
                if Holder.from_text(read_holder(self.file)[0]) == self.holder:
                    self.file.unlink()
                _lock_of(self.file).unlink(missing_ok=True)
            elif _is_at(self.opened, self.file):  # and not one that another process made since
                self.file.unlink()
        if self.opened is not None:
            self.opened.close()
        _remove_empty(self.file.parent, self.holder.made)


def _take(file: Path, subject: Path) -> _Lock:
    made, went = 0, None
    try:
        for _ in range(_TRIES):  # who lets go of the lock removes its file, and perhaps the folder
            try:
                made = max(made, _make(file.parent))
                if lock := _try(file, subject, made):
                    return lock
            except (FileNotFoundError, FileExistsError) as error:
                went = error
        raise went or _occupied(subject, "one process after the other")
    except BaseException:
        _remove_empty(file.parent, made)
        raise


def _try(file: Path, subject: Path, made: int) -> _Lock | None:
    """The lock; None where its file went away meanwhile."""
    opened = _open(file)
    try:
        got, owner = _flock(opened), _owner_of(file)
        if got is False:
            raise _occupied(subject, named_holder(file))
        left, left_beside = (Holder.from_text(read_holder(each)[0]) for each in (file, owner))
        has_ended = got and left is not None and left.is_here  # the system says so
        if left and not has_ended and (other := living_holder(file)):
            raise _occupied(subject, other)
        us = Holder.of_us(made or int(any(each and each.made for each in (left, left_beside))))
        if got is None:
            opened.close()
            return _make_owner_file(owner, subject, us)
        if other := living_holder(owner):
            raise _occupied(subject, other)
        if not _is_at(opened, file):
            opened.close()
            return None
        with suppress(OSError):  # who may write into the folder may take over what we leave
            os.fchmod(opened.fileno(), file.parent.stat().st_mode & 0o666)
        with suppress(OSError):  # on a full disk nobody is told who holds it
            opened.truncate(0)
            opened.write(us.to_text().encode())
        with suppress(OSError):
            owner.unlink()
        return _Lock(file, us, opened)
    except BaseException:
        opened.close()
        raise


def _open(file: Path) -> BinaryIO:
    """The lock's file, made where it is not there; never what a link in a stranger's folder points to."""
    refusal = InputError(f"{file}: is no plain file, and the lock of this folder belongs there. Delete it.")
    try:
        number = os.open(file, os.O_RDWR | os.O_CREAT | SAFELY, 0o666)
    except OSError as error:
        raise (refusal if error.errno == errno.ELOOP else error) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise refusal
    return cast(BinaryIO, os.fdopen(number, "r+b", buffering=0))


def _make_owner_file(file: Path, subject: Path, us: Holder) -> _Lock | None:
    """The lock where there are no locks; None where what a dead process left was moved out of the way."""
    try:
        with file.open("xb") as opened:
            opened.write(us.to_text().encode())
        return _Lock(file, us, None)
    except FileExistsError:
        pass
    before = read_holder(file)[0]
    if other := living_holder(file):
        raise _occupied(subject, other)
    if read_holder(file)[0] == before:  # else it was let go, or taken, while we looked
        aside = part_of(file)
        file.rename(aside)
        theirs = read_holder(aside)[0] != before
        if theirs and not file.exists():  # another process was quicker to take it over
            aside.rename(file)
        else:
            aside.unlink()
    return None


def _flock(opened: BinaryIO) -> bool | None:
    """Whether the file is ours now; None where there are no locks."""
    try:
        if fcntl:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        pass
    return None


def _make(folder: Path) -> int:
    """Make a folder and those above it; how many were not there."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return len(missing)


def _remove_empty(folder: Path, levels: int) -> None:
    with suppress(OSError):
        for place in (folder, *folder.parents)[:levels]:
            place.rmdir()


def _is_at(opened: BinaryIO, file: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(opened.fileno()), file.stat())
    except OSError:
        return False


def _owner_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-owner")


def _lock_of(owner: Path) -> Path:
    return owner.with_name(owner.name.removesuffix("-owner"))


def _show_life(file: Path, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        with suppress(OSError):
            os.utime(file)


def _occupied(subject: Path, holder: Holder | str | None) -> OccupiedError:
    return OccupiedError(
        f"{subject}: is in use by {holder or 'another process'}. "
        "Let it end, or stop it, and give the command again; or choose another --out."
    )
