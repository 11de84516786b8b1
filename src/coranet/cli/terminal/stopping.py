"""What a verb answers when it is asked to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable

from coranet.signals import Interrupted, stopping_at_once


def until_stopped(work: Callable[[], int], advice: str | Callable[[Interrupted], str]) -> int:
    """The exit status of the work or, where Ctrl-C, SIGTERM or a closed terminal ends it, the shell's for that.

    Args:
        work: what the verb does.
        advice: how to go on, said to who stopped it after `Stopped by SIGTERM`.
    """
    from coranet.cli.terminal.show import say

    try:
        with stopping_at_once():
            return work()
    except Interrupted as stop:
        said = advice if isinstance(advice, str) else advice(stop)
        say(f"Stopped by {signal.Signals(stop.signum).name}{said}")
        return 128 + stop.signum
