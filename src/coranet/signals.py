"""Stopping on request: the first request lets the step end and the state be saved, a second one stops at once."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

HANGUP = getattr(signal, "SIGHUP", None)
"""The terminal was closed; Windows knows no such signal."""
TIME_UP = getattr(signal, "SIGUSR2", None)
"""A cluster says that the time it grants is nearly over."""
REQUESTS = tuple(signum for signum in (signal.SIGINT, signal.SIGTERM, HANGUP, TIME_UP) if signum is not None)


class Interrupted(BaseException):
    """Someone asked the work to stop. Nothing went wrong, so nobody who catches errors catches this.

    `step` is the one after which a training was saved; None where it was stopped between two saves.
    """

    def __init__(self, step: int | None, signum: int) -> None:
        super().__init__("stopped" if step is None else f"stopped after step {step}")
        self.step, self.signum = step, signum


@contextmanager
def stop_requests(heard: Callable[[int], None]) -> Iterator[None]:
    """Hear Ctrl-C, SIGTERM, a cluster's limit and a closed terminal while the block runs, each once, if in the main thread.

    Who started us with `nohup` wants to go on without a terminal: then its closing is not heard either.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, previous[signum])
        if signum == HANGUP:
            _leave_terminal()
        heard(signum)

    wanted = [signum for signum in REQUESTS if signum != HANGUP or signal.getsignal(signum) != signal.SIG_IGN]
    previous = {int(signum): signal.getsignal(signum) or signal.SIG_DFL for signum in wanted}
    for signum in wanted:
        signal.signal(signum, first)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """A request to stop raises `Interrupted` wherever the block is, for work that loses nothing by it."""

    def stop(signum: int) -> None:
        raise Interrupted(None, signum)

    with stop_requests(stop):
        yield


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started in the block hear neither Ctrl-C nor a closed terminal: who started them ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = ignore_requests()
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def ignore_requests() -> dict[int, Any]:
    """Be deaf to all that a terminal sends to every process of a command; what was done about it before."""
    return {signum: signal.signal(signum, signal.SIG_IGN) for signum in REQUESTS if signum != signal.SIGTERM}


def _leave_terminal() -> None:
    """Say no more to a terminal that is gone: every word to it would be an error."""
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)
