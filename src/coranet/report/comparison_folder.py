"""What a folder of runs holds: which rows there are, each with which seeds, and what failed.

Such a folder is made by `coranet compare` or `coranet demo`, or by hand: every folder in it that has a run.json is a run.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from coranet.data.problem import FileError
from coranet.data.readers.volume import opened
from coranet.json_files import read_object
from coranet.report.run_contract import SETTINGS, check_contract
from coranet.report.run_files import SCORES, Json, read_run

_SEED = re.compile(r"(?P<row>.+)-seed(?P<seed>\d+)")


@dataclass(frozen=True, kw_only=True)
class ComparisonFolder:
    """Runs by row and seed."""

    folder: Path
    rows: Mapping[str, Mapping[int, Path]]
    """The folders of a row's runs by seed; the row that others are held against comes first."""
    errors: Mapping[str, str]
    """By row, of those that failed."""

    @property
    def unfinished(self) -> list[Path]:
        """Runs that are not scored yet, and did not fail."""
        whole = [(row, folder) for row, seeds in self.rows.items() for folder in seeds.values()]
        return [folder for row, folder in whole if not _finished(folder) and row not in self.errors]

    def repeats(self) -> list[dict[str, Path]]:
        """The finished runs by row, once for each seed that all rows have; rows without a finished run are left out."""
        done = {row: {seed: one for seed, one in seeds.items() if _finished(one)} for row, seeds in self.rows.items()}
        done = {row: seeds for row, seeds in done.items() if seeds and row not in self.errors}
        shared = set.intersection(*(set(seeds) for seeds in done.values())) if done else set()
        return [{row: seeds[seed] for row, seeds in done.items()} for seed in sorted(shared)]


def is_run(folder: Path) -> bool:
    """Whether `coranet train` has begun a run there."""
    return (folder / "run.json").exists()


def is_reproduction(folder: Path) -> bool:
    """Whether it holds comparisons rather than runs, as `coranet reproduce` makes them."""
    return any(folder.glob("*/compare.json")) and not any(folder.glob("*/run.json"))


def read_comparison(folder: Path) -> ComparisonFolder:
    """What lies in a folder of runs.

    Raises:
        InputError: a run's settings are broken.
    """
    errors: dict[str, str] = {}
    rows: dict[str, dict[int, Path]] = {}
    table = _table(folder)
    for run in sorted(file.parent for file in (*folder.glob("*/run.json"), *folder.glob("*/error.txt"))):
        stem, seed = _parts(run.name)
        row = _row_name(stem, [*(line["run"] for line in table), *_kind(run)])
        rows.setdefault(row, {})[seed] = run
        if (run / "error.txt").exists() and not _finished(run):
            first_line = _text(run / "error.txt").partition("\n")[0]
            errors.setdefault(row, f"seed {seed}: {first_line}")
    order = [line["run"] for line in table]
    base = next((line["run"] for line in table if not line.get("ahead_difference", "-")), "supervised")
    ranked = sorted(rows, key=lambda row: (row != base, order.index(row) if row in order else len(order)))
    return ComparisonFolder(
        folder=folder, rows={row: rows[row] for row in ranked if is_trained(rows[row])}, errors=errors
    )


def scans_of(folder: Path) -> Path | None:
    """The folder of scans that `coranet compare` was given."""
    file = folder / "compare.json"
    settings: Json = read_object(file) if file.exists() else {}
    if "data" in settings:
        check_contract(file, settings, {"data": SETTINGS["data.source"]}, "Restore the file, or delete it")
    return Path(settings["data"]) if "data" in settings else None


def search_of(folder: Path) -> list[str]:
    """What search.json says in words: what was searched, on which cases, and what was chosen; nothing without a search."""
    file = folder / "search.json"
    notes = read_object(file, "Restore the file, or delete it").get("notes", []) if file.exists() else []
    return [str(note) for note in notes] if isinstance(notes, list) else []


def is_trained(seeds: Mapping[int, Path]) -> bool:
    """Whether at least one run of a row was begun."""
    return any(is_run(folder) for folder in seeds.values())


def _finished(folder: Path) -> bool:
    return (folder / SCORES).exists()


def _parts(name: str) -> tuple[str, int]:
    match = _SEED.fullmatch(name)
    return (match["row"], int(match["seed"])) if match else (name, 0)


def _kind(folder: Path) -> list[str]:
    return [str(read_run("", folder).settings["method"]["kind"])] if is_run(folder) else []


def _row_name(stem: str, known: Collection[str]) -> str:
    """A row as it was written: names of folders have no signs other than letters and digits in the same place."""
    return next((name for name in known if _letters(name) == _letters(stem)), stem)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _table(folder: Path) -> list[dict[str, str]]:
    """The lines of table.csv, once a comparison was finished."""
    file = folder / "table.csv"
    try:
        lines = list(csv.DictReader(_text(file).splitlines())) if file.exists() else []
    except csv.Error as error:
        raise FileError(
            file, f"is no table ({error})", "Delete it: `coranet compare` given again makes it anew"
        ) from error
    return [line for line in lines if line.get("run")]


def _text(file: Path) -> str:
    with opened(file) as content:
        return content.read().decode("utf-8", "replace")
