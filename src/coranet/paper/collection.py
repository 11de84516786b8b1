"""From folders of finished runs to an archive: enough to make every table again and to see how a run went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final

from coranet.errors import InputError
from coranet.evaluation import Row, Scores
from coranet.evaluation.patients import PATIENTS
from coranet.paper.archive import Archive
from coranet.paper.efficiency import PARAMETERS, TEST_TIME
from coranet.paper.error_shares import SHARES
from coranet.paper.head_marks import MARKS
from coranet.report.run_files import read_json
from coranet.runs.comparison import SETTINGS

JUDGED: Final = "pseudo_labels.json"
"""In a run's folder, once figures 3 and 4 were drawn: how good its pseudo-labels were at every refresh."""

OF_SETTINGS = ("split.json", PATIENTS, PARAMETERS)
OF_RUNS = (TEST_TIME, SHARES, JUDGED, MARKS)
TABLES_OF_RUNS = ("scores.csv", "scores-best.csv")
"""Files that are taken as they are."""

EVERY = 50
"""So many lines of a log become one, or fewer where something begins or ends."""

LogLine = dict[str, Any]
"""A line of log.jsonl."""


def collect(root: Path, group: str) -> Archive:
    """Every finished run of a folder that `coranet reproduce` made, with its files that are not large.

    Paths of the machine that a run was made on are shortened to the name of the folder.

    Args:
        root: the folder.
        group: what paths in the archive begin with; may be empty.

    Raises:
        InputError: no run there is finished, or a file is broken.
    """
    runs = [file.parent for file in sorted(root.glob("*/*/scores.csv"))]
    if not runs:
        raise InputError(f"{root}: has no finished run. Make some with `coranet reproduce NAME --out {root}`.")
    tables, documents = dict[str, tuple[Row, ...]](), dict[str, Any]()
    for run in runs:
        place = PurePosixPath(group) / run.relative_to(root).as_posix()
        settings = read_json(run / "run.json")
        settings["data"]["source"] = Path(settings["data"]["source"]).name
        log = thinned((run / "log.jsonl").read_text(encoding="utf-8"))
        documents |= {f"{place}/run.json": settings, f"{place}/log.jsonl": log, **_documents(run, place, OF_RUNS)}
        tables |= {
            f"{place}/{name}": Scores.read_csv(run / name).rows for name in TABLES_OF_RUNS if (run / name).exists()
        }
    for setting in {run.parent for run in runs}:
        place = PurePosixPath(group) / setting.relative_to(root).as_posix()
        shared = read_json(setting / SETTINGS)
        documents |= {
            f"{place}/{SETTINGS}": shared | {"data": Path(shared["data"]).name},
            **_documents(setting, place, OF_SETTINGS),
        }
    return Archive(scores=tables, documents=documents)


def thinned(log: str) -> list[LogLine]:
    """Lines joined such that means over steps, the time taken and scores of validation cases stay what they were.

    A log that is short, as one that was thinned before, stays as it is.
    """
    records: list[LogLine] = [json.loads(line) for line in log.splitlines()]
    if len(records) <= EVERY:
        return records
    joined, group, before = list[LogLine](), list[LogLine](), 0
    for number, record in enumerate(records):
        group.append(record)
        # The first of a phase may hold steps of both, and only the first after a break shows that the clock began anew.
        begins = number == 0 or _parted(records[number - 1], record)
        ends = number + 1 == len(records) or _parted(record, records[number + 1])
        if begins or ends or len(group) == EVERY or record.get("val"):
            joined.append(_joined(group, before))
            group, before = [], record["step"]
    return joined


def _parted(record: LogLine, after: LogLine) -> bool:
    """Whether a phase, or a continuation of the run, begins between two records."""
    return bool(after["phase"] != record["phase"] or after["seconds"] < record["seconds"])


def _joined(group: Sequence[LogLine], before: int) -> LogLine:
    """LogLines of one phase as the last of them, with the means over all their steps; `before` is the step they follow."""
    steps = [now - then for then, now in pairwise([before, *(record["step"] for record in group)])]
    found = dict(group[-1])
    for kind in ("terms", "measures"):
        found[kind] = {}
        for name in dict.fromkeys(name for record in group for name in record.get(kind, {})):
            pairs = [(n, record[kind][name]) for n, record in zip(steps, group, strict=True) if name in record[kind]]
            found[kind][name] = sum(n * value for n, value in pairs) / sum(n for n, _ in pairs)
    return found


def _documents(source: Path, place: PurePosixPath, names: Sequence[str]) -> dict[str, Any]:
    return {f"{place}/{name}": read_json(source / name) for name in names if (source / name).exists()}
