"""When the conservative head begins to mark anything, without and with a bias that begins at the organ's share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coranet.paper.figure_list import FIGURES, PRIORS
from coranet.paper.head_marks import HEADS, MARKS
from coranet.paper.settings import Setting
from coranet.paper.studies.sheet import Numbers, Sheet, settings_of, spread, title_of
from coranet.paper.table_text import finished_runs
from coranet.report.numbers import NOTHING, TableRow
from coranet.report.run_files import read_json

TITLES = {"main": "main", "con": "conservative", "rad": "radical"}
NOTE = (
    "At every refresh, on all unlabelled images: the share of pixels that each head marks. A head begins at the first "
    "refresh at which it marks anything; epochs count pre-training, and one number is of each seed. Before the first "
    "refresh nothing is kept."
)

Looks = Sequence[Mapping[str, float]]
"""Of one run, by refresh."""


def read_heads(root: Path) -> list[Sheet]:
    """One sheet a setting that has runs which were looked at."""
    return [sheet for setting in settings_of(root, "heads") if (sheet := _sheet(root, setting)).rows]


def begins(looks: Looks, name: str) -> float | None:
    """The epoch at which a head begins to mark an object; None where it never does."""
    return next((look["epoch"] for look in looks if look[name] > 0), None)


def _sheet(root: Path, setting: Setting) -> Sheet:
    rows, numbers = list[TableRow](), list[Numbers]()
    for label, method in PRIORS.items():
        runs = {run: run / MARKS for run in finished_runs(root / setting.name, method).values()}
        looks: dict[Path, Looks] = {run: read_json(file)["looks"] for run, file in runs.items() if file.exists()}
        for name in _marked(looks):
            rows.append(_row(label, name, list(looks.values())))
            numbers += [
                {
                    "row": label,
                    "head": name,
                    "run": f"{run.parent.name}/{run.name}",
                    "epoch": look["epoch"],
                    "share": look[name],
                }
                for run, found in looks.items()
                for look in found
            ]
    needs = next(needs for needs in FIGURES["heads"].needs if needs.share == setting.share)
    return Sheet(
        title=f"{title_of(setting.scans, needs.role)}, {setting.share}",
        scans=setting.scans,
        rows=rows,
        numbers=numbers,
        note=NOTE,
    )


def _marked(looks: Mapping[Path, Looks]) -> list[str]:
    names = {name for found in looks.values() for name in found[0] if name.partition(".")[0] in HEADS}
    return sorted(names, key=lambda name: (name.partition(".")[2], HEADS.index(name.partition(".")[0])))


def _row(label: str, name: str, looks: Sequence[Looks]) -> TableRow:
    head, _, number = name.partition(".")
    epochs = [begins(found, name) for found in looks]
    return {
        "row": label,
        "head": TITLES[head],
        "object": number,
        "begins at epoch": ", ".join("never" if epoch is None else f"{epoch:.0f}" for epoch in epochs) or NOTHING,
        "marks at the first refresh, % of pixels": spread([100 * found[0][name] for found in looks]),
        "at the last": spread([100 * found[-1][name] for found in looks]),
        "seeds": str(len(looks)),
    }
