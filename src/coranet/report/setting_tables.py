"""The settings of runs in words: one line a setting, one column a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from coranet.report.numbers import FACTS, TableRow, number
from coranet.report.run_files import FinishedRun

APART = ("made_with", "split", "preparation", "identity")
"""Parts of run.json that the main settings have, that are too long for a line, or that say nothing to a person."""


def main_settings(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """What was trained, on what, for how long and with which program."""
    return _side_by_side(runs, _main)


def every_setting(runs: Sequence[FinishedRun]) -> list[TableRow]:
    """All else that run.json says, named as `--set` wants it; of several runs what differs comes first."""
    rows = _side_by_side(runs, lambda run: dict(_flat(run.settings)))
    return sorted(rows, key=lambda row: len({row.get(run.name) for run in runs}) == 1)


def _main(run: FinishedRun) -> TableRow:
    content = run.settings
    values = {
        "method": content["method"]["kind"],
        "labelled cases": len(content["split"]["labelled"]),
        "unlabelled cases": len(content["split"]["unlabelled"]),
        "validation cases": len(content["split"]["val"]),
        "network width": content["net"]["width"],
        "batch": " + ".join(map(str, content["train"]["batch"])),
        **{title: number(fact.of(run), fact.digits) for title, fact in FACTS.items() if run.log},
        "seed": content["seed"],
        **content["made_with"],
    }
    return {name: str(value) for name, value in values.items()}


def _flat(content: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        if name in APART:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        elif value is not None:
            yield path + name, str(value)


def _side_by_side(runs: Sequence[FinishedRun], of: Callable[[FinishedRun], TableRow]) -> list[TableRow]:
    columns = {run.name: of(run) for run in runs}
    names = dict.fromkeys(name for settings in columns.values() for name in settings)
    return [
        {"setting": name, **{run: settings[name] for run, settings in columns.items() if name in settings}}
        for name in names
    ]
