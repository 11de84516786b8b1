"""Rows of equal work: as many optimizer updates as another method makes (`supervised[work=coranet]`).

Rows of a comparison have equal steps. In a step CoraNet makes three updates, labels alone make one. Whether that is what
helps, a row on labels alone that is trained for longer can tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from coranet.engine.run import Run
from coranet.engine.timeline import lay_out
from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.json_files import read_object
from coranet.methods import find_method
from coranet.runs.row_text import WORK, parse_row

FILE = "work.json"
"""In the folder of a comparison: updates by method, of those whose work a row is to equal."""


def work_named(rows: Iterable[str]) -> dict[str, None]:
    """The methods whose work some rows are to equal.

    Raises:
        InputError: a row makes several updates a step, so that steps are not its work.
    """
    named = dict[str, None]()
    for row in rows:
        method, own = parse_row(row)
        if WORK not in own:
            continue
        one = find_method(method)()
        if any(len(one.objectives(phase.name)) != 1 for phase in one.phases):
            raise InputError(f"{row}: work is for methods that make one update a step, such as supervised.")
        named[own[WORK]] = None
    return named


def count_updates(run: Run) -> int:
    """The optimizer updates of a run, of all networks that have their own."""
    phases = lay_out(run.method.phases, run.train.steps, epoch=1)
    return sum((one.stop - one.start) * len(run.method.objectives(one.phase.name)) for one in phases)


def write_work(folder: Path, work: Mapping[str, int]) -> None:
    """Keep what was counted for whoever runs a row alone."""
    write_atomically(folder / FILE, (json.dumps({**read_work(folder), **work}, indent=1) + "\n").encode())


def read_work(folder: Path) -> dict[str, int]:
    """What was counted before; nothing where no row asks for it."""
    file = folder / FILE
    return read_object(file, "Delete it, and give the same command again") if file.exists() else {}
