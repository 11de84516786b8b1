"""Predicting in a folder that grows: each scan once, when it has arrived whole, and a broken one blocks no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coranet.data.datasets.folder import Case, scan_cases
from coranet.data.datasets.names import scans
from coranet.errors import InputError

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
            except InputError as error:
                self.refused[case.name] = now
                self.say(f"{error} Going on with other scans.")
            else:
                done.append(case.name)
        return done

    def _waiting(self) -> Iterator[Case]:
        """Scans that have no prediction yet, each listed by itself: one that lacks a channel keeps no other back."""
        found: dict[str, Case] = {}
        for file in scans(self.folder):
            try:
                (case,) = scan_cases(file, self.channels)
            except InputError as error:
                if str(error) not in self.told:
                    self.told.add(str(error))
                    self.say(f"{error} Going on with other scans.")
                continue
            found.setdefault(case.name, case)
        yield from (case for case in found.values() if not self.is_done(case))


def _signature(case: Case) -> Signature:
    files = (file for source in case.images for file in source.files())
    return tuple((str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files)
