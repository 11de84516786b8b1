"""Waiting for tasks until each has ended in one way or another."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from coranet.runs.cluster.standing import ALIVE, TaskStanding, standings

_SOON, _LATER, _SLOWER = 0.5, 30.0, 1.3
"""Seconds between two looks: at first, at most, and how they grow. A queue is not to be asked all the time."""
_MANY = 12
"""Tasks that come to stand alike between two looks, and are counted if there are more."""
_SURE = 3.0
"""Seconds for which a task is gone before that is believed: files of a network may come late."""


def wait_for(place: Path, names: Collection[str], say: Callable[[str], None] = print) -> dict[str, str]:
    """Wait until none of these tasks waits or runs, and say what changes; returns the errors of those that failed."""
    said, wait = dict[str, str](), _SOON
    while True:
        stand = {one.name: one for one in standings(place) if one.name in names}
        if any(one.state == "cut off" for one in stand.values()):
            time.sleep(_SURE)
            stand = {one.name: one for one in standings(place) if one.name in names}
        news = [one for one in stand.values() if said.get(one.name) != one.state]
        for line in in_short(news):
            say(line)
        if news:
            said, wait = {one.name: one.state for one in stand.values()}, _SOON
        if not any(one.state in ALIVE for one in stand.values()):
            return {one.name: one.note for one in stand.values() if one.state != "finished"}
        time.sleep(wait)
        wait = min(wait * _SLOWER, _LATER)


def in_short(news: Sequence[TaskStanding]) -> list[str]:
    """A line for each task, but for many that wait, run or are finished alike: a line for all of them."""
    counts = Counter(one.state for one in news if one.state in ALIVE or one.state == "finished")
    many = {state: count for state, count in counts.items() if count > _MANY}
    lines = [f"{count} tasks: {state}" for state, count in many.items()]
    return [*lines, *(in_words(one) for one in news if one.state not in many)]


def in_words(one: TaskStanding) -> str:
    """One line of how a task stands."""
    about = ", ".join(filter(None, (one.where and f"on {one.where}", one.left and f"{one.left} left")))
    return f"{one.name}: {one.state}{f' ({about})' if about and one.state == 'runs' else ''}" + (
        f". {one.note}" if one.note else ""
    )
