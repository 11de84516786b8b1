"""The small files of finished runs, to be kept with the code: enough to make every table again and to see how a run went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from coranet.errors import InputError
from coranet.evaluation.patients import PATIENTS
from coranet.files import make_folder, write_atomically
from coranet.paper.efficiency import PARAMETERS, TEST_TIME
from coranet.paper.error_shares import HELD
from coranet.runs.comparison import SETTINGS

JUDGED: Final = "pseudo_labels.json"
"""In a run's folder, once figures 3 and 4 were drawn: how good its pseudo-labels were at every refresh."""

OF_SETTINGS = ("split.json", PATIENTS, PARAMETERS)
OF_RUNS = ("scores.csv", "scores-best.csv", TEST_TIME, HELD, JUDGED)
"""Files that are copied as they are."""

EVERY = 50
"""So many lines of a log become one, or fewer where something begins or ends."""

Record = dict[str, Any]


def keep_small(root: Path, target: Path) -> int:
    """Copy what is small of every finished run in a folder; returns how many runs there are.

    Paths of the machine that a run was made on are shortened to the name of the folder.

    Raises:
        InputError: the copy would replace the runs themselves, or its folder cannot be made.
    """
    if root.resolve() == target.resolve():
        raise InputError(f"--keep {target}: is the folder of the runs, whose logs would be cut. Choose another.")
    runs = [file.parent for file in sorted(root.glob("*/*/scores.csv"))]
    for run in runs:
        place = target / run.relative_to(root)
        make_folder(place)
        settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
        settings["data"]["source"] = Path(settings["data"]["source"]).name
        write_atomically(place / "run.json", (json.dumps(settings, indent=1) + "\n").encode())
        write_atomically(place / "log.jsonl", _thinned((run / "log.jsonl").read_text(encoding="utf-8")).encode())
        _copy(run, place, OF_RUNS)
    for setting in {run.parent for run in runs}:
        place = target / setting.relative_to(root)
        shared = json.loads((setting / SETTINGS).read_text(encoding="utf-8"))
        shared["data"] = Path(shared["data"]).name
        write_atomically(place / SETTINGS, (json.dumps(shared, indent=1) + "\n").encode())
        _copy(setting, place, OF_SETTINGS)
    return len(runs)


def _thinned(log: str) -> str:
    """Lines joined such that means over steps, the time taken and scores of validation cases stay what they were.

    A log that is short, as one that was kept before, stays as it is.
    """
    records: list[Record] = [json.loads(line) for line in log.splitlines()]
    if len(records) <= EVERY:
        return log
    joined, group, before = list[Record](), list[Record](), 0
    for number, record in enumerate(records):
        group.append(record)
        # The first of a phase may hold steps of both, and only the first after a break shows that the clock began anew.
        begins = number == 0 or _parted(records[number - 1], record)
        ends = number + 1 == len(records) or _parted(record, records[number + 1])
        if begins or ends or len(group) == EVERY or record.get("val"):
            joined.append(_joined(group, before))
            group, before = [], record["step"]
    return "".join(json.dumps(record) + "\n" for record in joined)


def _parted(record: Record, after: Record) -> bool:
    """Whether a phase, or a continuation of the run, begins between two records."""
    return bool(after["phase"] != record["phase"] or after["seconds"] < record["seconds"])


def _joined(group: Sequence[Record], before: int) -> Record:
    """Records of one phase as the last of them, with the means over all their steps; `before` is the step they follow."""
    steps = [now - then for then, now in pairwise([before, *(record["step"] for record in group)])]
    found = dict(group[-1])
    for kind in ("terms", "measures"):
        found[kind] = {}
        for name in dict.fromkeys(name for record in group for name in record.get(kind, {})):
            pairs = [(n, record[kind][name]) for n, record in zip(steps, group, strict=True) if name in record[kind]]
            found[kind][name] = sum(n * value for n, value in pairs) / sum(n for n, _ in pairs)
    return found


def _copy(source: Path, place: Path, names: Sequence[str]) -> None:
    for name in names:
        if (source / name).exists():
            write_atomically(place / name, (source / name).read_bytes())
