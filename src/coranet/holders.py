"""Who holds a lock, as the lock's file says, and whether they still live."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from coranet.processes import is_running, machine, start_of

BEAT = 5.0
"""Seconds between two signs of life: the file's time is set anew."""
PATIENCE = 20.0
"""Seconds without a sign of life after which the process of another machine has ended."""
SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file is opened that a stranger may have put there: links are not followed, and a pipe is not waited for."""
_LONG_AGO = 600.0
_MOST = 200
"""Characters of a command that are shown."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A process that holds a lock."""

    host: str
    pid: int
    since: str
    command: str
    machine: str
    start: str
    """As of `start_of`: a later process may have the same number."""
    made: int
    """How many folders were made for the lock's file, its own and those above."""
    token: str

    @classmethod
    def of_us(cls, made: int) -> Holder:
        """This process."""
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            since=time.strftime("%Y-%m-%d %H:%M:%S"),
            command=shlex.join([Path(sys.argv[0]).name.replace("__main__.py", "coranet"), *sys.argv[1:]]),
            machine=machine(),
            start=start_of(os.getpid()),
            made=made,
            token=uuid4().hex,
        )

    @classmethod
    def from_text(cls, text: str) -> Holder | None:
        """From what a lock's file holds; None where that is nothing, or not whole."""
        try:
            content = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None
        kinds = {str: ("host", "since", "command", "machine", "start", "token"), int: ("pid", "made")}
        right = all(type(getattr(content, name)) is kind for kind, names in kinds.items() for name in names)
        return content if right else None

    def to_text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    def __str__(self) -> str:
        host, since, command = (
            "".join(sign if sign.isprintable() else "?" for sign in text)
            for text in (self.host, self.since, self.command)
        )
        command = command if len(command) <= _MOST else f"{command[: _MOST - 4]} ..."
        return f"process {self.pid} on {host[:_MOST]} since {since[:_MOST]} ({command})"

    @property
    def is_here(self) -> bool:
        """Whether it is a process that this one can see."""
        return self.machine == machine()

    def lives(self) -> bool | None:
        """Whether it still runs, where it is a process of this machine; None where one cannot ask."""
        running = is_running(self.pid) if self.is_here else None
        return running and start_of(self.pid) == self.start


def read_holder(file: Path) -> tuple[str, int]:
    """What a lock's file says, and when it showed a sign of life; nothing where it is not there."""
    try:
        # Opened each time: a network file system says what is new to who opens a file, not to who asks for its time.
        with os.fdopen(os.open(file, os.O_RDONLY | SAFELY), "rb") as opened:
            return (opened.read(2**16) or b"").decode(errors="replace"), os.fstat(opened.fileno()).st_mtime_ns
    except OSError:
        return "", 0


def named_holder(file: Path) -> Holder | None:
    """Who a lock's file says it is held by; one that has just taken it is given a moment to say so."""
    end = time.monotonic() + 1
    while (holder := Holder.from_text(read_holder(file)[0])) is None and time.monotonic() < end:
        time.sleep(0.02)
    return holder


def living_holder(file: Path) -> Holder | str | None:
    """Who holds a lock, by what its file says; None where nobody does.

    For a sign of life from another machine it waits until patience ends.
    """
    seen = text, changed = read_holder(file)
    if not changed:
        return None
    holder = Holder.from_text(text)
    lives = holder.lives() if holder else None
    if lives is None:
        lives = time.time() - changed / 1e9 < _LONG_AGO and _changes(file, seen)
    return (holder or named_holder(file) or "another process") if lives else None


def _changes(file: Path, seen: tuple[str, int]) -> bool:
    """Whether there is a sign of life before patience ends."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(min(0.5, PATIENCE / 4))
        if (now := read_holder(file)) != seen:
            return now[1] != 0  # else it has just been let go
    return False
