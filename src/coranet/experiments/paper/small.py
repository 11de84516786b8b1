"""The small files of finished runs, to be kept with the code: enough to make every table again and to see how a run went."""

from __future__ import annotations

import json
from pathlib import Path

from coranet.experiments.compare import SETTINGS
from coranet.experiments.paper.efficiency import PARAMETERS, TEST_TIME
from coranet.experiments.paper.held import HELD
from coranet.files import write_atomically

AS_THEY_ARE = ("split.json", "scores.csv", "scores-best.csv", PARAMETERS, TEST_TIME, HELD)
"""Files of settings and runs that are copied."""

EVERY = 50
"""Of a log every so many lines are kept, and the last, and those with a score of validation cases."""


def keep_small(root: Path, target: Path) -> int:
    """Copy what is small of every finished run in a folder; returns how many runs there are.

    Paths of the machine that a run was made on are shortened to the name of the folder.
    """
    runs = [file.parent for file in sorted(root.glob("*/*/scores.csv"))]
    for run in runs:
        place = target / run.relative_to(root)
        place.mkdir(parents=True, exist_ok=True)
        settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
        settings["data"]["source"] = Path(settings["data"]["source"]).name
        write_atomically(place / "run.json", (json.dumps(settings, indent=1) + "\n").encode())
        write_atomically(place / "log.jsonl", _thinned((run / "log.jsonl").read_text(encoding="utf-8")).encode())
        _copy(run, place)
    for setting in {run.parent for run in runs}:
        place = target / setting.relative_to(root)
        shared = json.loads((setting / SETTINGS).read_text(encoding="utf-8"))
        shared["data"] = Path(shared["data"]).name
        write_atomically(place / SETTINGS, (json.dumps(shared, indent=1) + "\n").encode())
        _copy(setting, place)
    return len(runs)


def _thinned(log: str) -> str:
    lines = log.splitlines(keepends=True)
    kept = [
        line
        for number, line in enumerate(lines, start=1)
        if number % EVERY == 0 or number == len(lines) or json.loads(line).get("val")
    ]
    return "".join(kept)


def _copy(source: Path, place: Path) -> None:
    for name in AS_THEY_ARE:
        if (source / name).exists():
            write_atomically(place / name, (source / name).read_bytes())
