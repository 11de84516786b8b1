"""Stopping on request: the first request lets the step end and the state be saved, a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """Someone asked the run to stop; its state is saved."""

    def __init__(self, step: int, signum: int) -> None:
        super().__init__(f"stopped after step {step}")
        self.step, self.signum = step, signum


@contextmanager
def stop_requests(heard: Callable[[int], None]) -> Iterator[None]:
    """Hear SIGINT and SIGTERM while the block runs; outside the main thread signals cannot be heard."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(signum: int, frame: FrameType | None) -> None:
        heard(signum)
        signal.signal(signum, previous[signal.Signals(signum)])

    previous = {signum: signal.signal(signum, first) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started in the block do not hear Ctrl-C, which reaches them too: who started them ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
