"""Parameters, training time and test time (section III-D, "Efficiency"): ours beside the paper's.

Times on other scans than the paper's have no difference to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coranet.paper.printed import EFFICIENCY
from coranet.paper.settings import ROLES
from coranet.paper.studies.sheet import Numbers, Sheet, seeds_in_words, settings_of, spread, title_of
from coranet.paper.table_text import finished_runs
from coranet.report.numbers import NOTHING, TableRow
from coranet.report.run_files import FinishedRun, Json, read_json, read_runs

METHODS = {"mean teacher": "mean_teacher", "CoraNet": "coranet"}
SLICES = 1_414
"""What the paper's times in test are of."""
NETWORKS = {
    "unet": ("U-Net", EFFICIENCY["parameters of U-Net, M"]),
    "training": ("CoraNet in training", EFFICIENCY["parameters of CoraNet in training, M"]),
    "test": ("CoraNet in test", EFFICIENCY["parameters of CoraNet in test, M"]),
}
NOTE = (
    "The paper's M may be 10^6 or 2^20; docs/paper.md tells which readings give its numbers. The teacher is not counted, as "
    "in the paper. Times are of other devices than the paper's RTX 2080 Ti: compare ratios. Training times are the logs', "
    "with refreshes and pictures and without what it took to keep maps; of runs that shared a device (--jobs) they say "
    "little. Both methods take as many steps, in which CoraNet makes more updates (Algorithm 1). In test a slice goes to "
    "the device, through the main head, and its label comes back; reading and preparing are not counted."
)


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One quantity."""

    what: str
    ours: tuple[float, ...]
    """Of each seed, or one."""
    paper: float | None = None
    digits: int = 2
    signed: bool = False
    source: str = ""
    """What it was made on."""
    alike: bool = True
    """Whether it can be held against the paper's: it is of the same scans, or of none."""

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return fmean(self.ours) - self.paper if self.alike and self.ours and self.paper is not None else None

    @property
    def row(self) -> TableRow:
        """As text."""
        sign = "+" if self.signed else ""
        one = f"{self.ours[0]:{sign}.{self.digits}f}" if len(self.ours) == 1 else spread(self.ours, self.digits)
        return {
            "": self.what,
            "ours": one if self.ours else NOTHING,
            "paper": NOTHING if self.paper is None else f"{self.paper:{sign}.{self.digits}f}",
            "difference": NOTHING if self.difference is None else f"{self.difference:+.{self.digits}f}",
            "made of": self.source,
        }

    @property
    def numbers(self) -> Numbers:
        """In full."""
        mean = fmean(self.ours) if self.ours else ""
        return {
            "what": self.what,
            "ours": mean,
            "values": " ".join(f"{value:.6g}" for value in self.ours),
            "paper": "" if self.paper is None else self.paper,
            "difference": "" if self.difference is None else self.difference,
            "made_of": self.source,
        }


def read_efficiency(root: Path) -> list[Sheet]:
    """One sheet a set that has runs of both methods."""
    sheets = []
    for setting in settings_of(root, "efficiency"):
        folder = root / setting.name
        runs = {name: _finished(folder, method) for name, method in METHODS.items()}
        if not all(runs.values()):
            continue
        alike = setting.scans == ROLES["pancreas"].own
        timed = [replace(one, alike=alike) for one in (*_training(runs), *_test(runs))]
        lines = [*_parameters(folder / "parameters.json"), *timed]
        sheets.append(
            Sheet(
                title=title_of(setting.scans),
                scans=setting.scans,
                rows=[line.row for line in lines],
                numbers=[line.numbers for line in lines],
                note=NOTE,
            )
        )
    return sheets


def _finished(folder: Path, method: str) -> list[FinishedRun]:
    found = {f"seed {seed}": run for seed, run in finished_runs(folder, method).items()}
    return list(read_runs(found)) if found else []


def _parameters(file: Path) -> list[Quantity]:
    if not file.exists():
        return []
    counted = read_json(file)
    units = (("paper", "10^6", 1e6), ("paper", "2^20", 2**20), ("run", "10^6", 1e6))
    return [
        Quantity(
            what=f"parameters of {name}, {counted[whose]['width']} channels, {unit}",
            ours=(counted[whose][key] / size,),
            paper=printed if whose == "paper" else None,
            digits=4 if whose == "run" else 2,
            source="the paper's network" if whose == "paper" else "the runs' network",
        )
        for whose, unit, size in units
        for key, (name, printed) in NETWORKS.items()
    ]


def _training(runs: dict[str, list[FinishedRun]]) -> list[Quantity]:
    hours = {name: EFFICIENCY[f"training of {name}, h"] for name in METHODS}
    seconds = {name: tuple(run.seconds for run in found) for name, found in runs.items()}
    ends = {name: found[0].log[-1] for name, found in runs.items()}
    return [
        *(
            Quantity(
                what=f"training of {name}, s",
                ours=seconds[name],
                paper=3600 * hours[name],
                digits=1,
                source=seeds_in_words(len(found)),
            )
            for name, found in runs.items()
        ),
        _more("training", seconds, hours),
        *(
            Quantity(
                what=f"optimizer updates of {name}", ours=(end["updates"],), digits=0, source=f"{end['step']} steps"
            )
            for name, end in ends.items()
        ),
    ]


def _test(runs: dict[str, list[FinishedRun]]) -> list[Quantity]:
    printed = {name: EFFICIENCY[f"test of {name} on 1,414 slices, s"] for name in METHODS}
    timed = {name: [one for run in found if (one := _time(run.folder))] for name, found in runs.items()}
    if not all(timed.values()):
        return []
    seconds = {name: tuple(one["seconds"] / one["slices"] * SLICES for one in found) for name, found in timed.items()}
    return [
        *(
            Quantity(
                what=f"test of {name} on 1,414 slices, s", ours=seconds[name], paper=printed[name], source=_on(found)
            )
            for name, found in timed.items()
        ),
        *(
            Quantity(
                what=f"slices a second in test, {name}",
                ours=tuple(SLICES / value for value in seconds[name]),
                paper=SLICES / printed[name],
                digits=1,
                source=_on(found),
            )
            for name, found in timed.items()
        ),
        _more("test", seconds, printed),
    ]


def _more(what: str, ours: dict[str, tuple[float, ...]], printed: dict[str, float]) -> Quantity:
    """How much longer CoraNet takes than mean teacher, of means over seeds."""
    base, own = METHODS
    return Quantity(
        what=f"{what} of CoraNet beyond mean teacher's, %",
        ours=(100 * (fmean(ours[own]) / fmean(ours[base]) - 1),),
        paper=100 * (printed[own] / printed[base] - 1),
        digits=1,
        signed=True,
        source="means over seeds",
    )


def _time(run: Path) -> Json | None:
    file = run / "test_time.json"
    return read_json(file) if file.exists() else None


def _on(timed: Sequence[Json]) -> str:
    return "; ".join(dict.fromkeys(f"{one['slices']} slices on {one['device']}, torch {one['torch']}" for one in timed))
