"""Predicting in a folder that grows: each scan once, when it has arrived whole, and a broken one blocks no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coranet.data.datasets.folder import Case, scan_cases
from coranet.data.datasets.names import map_of, scans
from coranet.errors import InputError, WriteError

Signature = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of the files of a scan."""


@dataclass(frozen=True)
class Arrivals:
    """Looks at a folder again and again; what it knows of earlier looks is in memory, what was predicted is on disk."""

    folder: Path
    channels: int
    is_done: Callable[[Case], bool]
    predict: Callable[[Case], object]
    say: Callable[[str], None]
    seen: dict[str, Signature] = field(default_factory=dict)
    """Of each scan at the last look."""
    refused: dict[str, Signature] = field(default_factory=dict)
    """Of scans that could not be predicted: one that changes is tried again."""
    told: set[str] = field(default_factory=set)

    def look(self) -> list[str]:
        """Predict scans that are new and have not changed since the look before; their names."""
        done = []
        for case in self._waiting():
            try:
                now = _signature(case)
            except OSError:  # it was taken away meanwhile
                continue
            before, self.seen[case.name] = self.seen.get(case.name), now
            if before != now or self.refused.get(case.name) == now:
                continue
            try:
                self.predict(case)
            except WriteError as error:  # the scan is sound: it is tried again at the next look
                self._say_once(f"{error} Going on with other scans, and with this one later.")
            except InputError as error:
                self.refused[case.name] = now
                self.say(f"{error} Going on with other scans.")
            else:
                self.refused.pop(case.name, None)
                done.append(case.name)
        return done

    def _say_once(self, sentence: str) -> None:
        if sentence not in self.told:
            self.told.add(sentence)
            self.say(sentence)

    def _waiting(self) -> Iterator[Case]:
        """Scans that have no prediction yet, each listed by itself: one that lacks a channel keeps no other back."""
        found: dict[str, Case] = {}
        for file in scans(self.folder):
            try:
                (case,) = scan_cases(file, self.channels)
            except InputError as error:
                self._say_once(f"{error} Going on with other scans.")
                continue
            found.setdefault(case.name, case)
        for name in list(found):
            if other := map_of(name, found):
                self._say_once(f"{name}: has the name of a map of {other}, and is not predicted. Rename it.")
        found = {name: case for name, case in found.items() if not map_of(name, found)}
        yield from (case for case in found.values() if not self.is_done(case))


def _signature(case: Case) -> Signature:
    files = (file for source in case.images for file in source.files())
    return tuple((str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files)
