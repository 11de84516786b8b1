"""The finished runs behind a figure: on which sets, with which seeds, and what is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coranet.paper.collection import JUDGED
from coranet.paper.figure_list import Needs
from coranet.paper.sets import SETS
from coranet.paper.settings import ROLES, Setting
from coranet.report.run_files import read_json
from coranet.runs.comparison import SETTINGS
from coranet.runs.row_text import run_name

Left = Literal["maps", "predictions", "pseudo_labels.json"]
"""The folder, or the file, of a run that a figure is made of."""


@dataclass(frozen=True, kw_only=True)
class SettingRuns:
    """Runs of one setting, at least one of them finished."""

    role: str
    setting: Setting
    folder: Path
    """Of the setting."""
    place: Path | None
    """Of the scans; None where they are gone, and what is needed of them was written down."""
    runs: Mapping[str, Mapping[int, Path]]
    """By what the figure calls a method, and by seed."""

    @property
    def scans(self) -> Path:
        """The set in nnU-Net's layout, with labels of unlabelled cases too."""
        assert self.place is not None
        return self.place

    @property
    def words(self) -> str:
        """Which runs these are, and what they were trained on."""
        own = ROLES[self.role].own
        stands = "" if self.setting.scans == own else f", standing for {SETS[own].title}"
        return f"{self.setting.name} ({SETS[self.setting.scans].title}{stands})"

    @property
    def some_run(self) -> Path:
        """Any of them, to learn what all share."""
        return next(run for by_seed in self.runs.values() for run in by_seed.values())

    @property
    def seeds(self) -> tuple[int, ...]:
        """All that any method has."""
        return tuple(sorted({seed for by_seed in self.runs.values() for seed in by_seed}))

    @property
    def seed(self) -> int:
        """The one to show: what most methods have, the first of equals."""
        return max(self.seeds, key=lambda seed: (len(self.shown(seed)), -seed))

    def shown(self, seed: int) -> dict[str, Path]:
        """The runs with one seed."""
        return {label: by_seed[seed] for label, by_seed in self.runs.items() if seed in by_seed}

    def missing(self, seeds: Collection[int]) -> Iterator[str]:
        """The runs that a figure of these seeds has to do without."""
        for label, by_seed in self.runs.items():
            lacks = [str(seed) for seed in seeds if seed not in by_seed]
            if lacks:
                yield f"{label} in {self.setting.name}" + (f" with seed {', '.join(lacks)}" if by_seed else "")


def find_runs(root: Path, needs: Needs, methods: Mapping[str, str], *left: Left) -> tuple[SettingRuns, ...]:
    """A figure's runs on the paper's own set, or else on each that stands for it; none where no run is finished.

    Args:
        root: the folder of all settings.
        needs: on which scans.
        methods: by what the figure calls them.
        left: what a finished run must have left behind to be of use, one of these at least.
    """
    by_set = {
        name: found
        for name in SETS
        for setting in needs.settings((name,))
        if (found := _find(root, needs.role, setting, methods, left))
    }
    return tuple(by_set[setting.scans] for setting in needs.settings(tuple(by_set)))


def by_set(found: Iterable[SettingRuns]) -> dict[str, list[SettingRuns]]:
    """The settings of each set: what one picture shows."""
    sets: dict[str, list[SettingRuns]] = {}
    for one in found:
        sets.setdefault(one.setting.scans, []).append(one)
    return sets


def missing_words(*missing: Iterable[str]) -> str:
    """A sentence on what is missing; empty where nothing is."""
    runs = [run for some in missing for run in some]
    return f" Missing, for want of finished runs: {'; '.join(runs)}." if runs else ""


def _find(
    root: Path, role: str, setting: Setting, methods: Mapping[str, str], left: Collection[Left]
) -> SettingRuns | None:
    folder = root / setting.name
    runs = {label: dict(_finished(folder, method, left)) for label, method in methods.items()}
    if not any(runs.values()) or not (folder / SETTINGS).exists():
        return None
    place = _scans(root, setting)
    if place is None:  # what was looked at while they were there is enough for some figures
        runs = {label: _judged(found) if JUDGED in left else {} for label, found in runs.items()}
        if not any(runs.values()):
            return None
    return SettingRuns(role=role, setting=setting, folder=folder, place=place, runs=runs)


def _judged(runs: Mapping[int, Path]) -> dict[int, Path]:
    return {seed: run for seed, run in runs.items() if (run / JUDGED).exists()}


def _finished(folder: Path, method: str, left: Collection[Left]) -> Iterator[tuple[int, Path]]:
    start = run_name(method, 0).removesuffix("0")
    for run in sorted(folder.glob(f"{start}*")):
        seed = run.name.removeprefix(start)
        there = any((run / one).is_file() or any((run / one).glob("*")) for one in left)
        if seed.isdecimal() and (run / "scores.csv").exists() and there:
            yield int(seed), run


def _scans(root: Path, setting: Setting) -> Path | None:
    """Where runs say their scans are, or, of a folder of runs that was moved, in it; None where they are gone."""
    told = Path(read_json(root / setting.name / SETTINGS)["data"])
    places = (told, root / "scans" / setting.scans)
    return next((place for place in places if (place / "dataset.json").exists()), None)
