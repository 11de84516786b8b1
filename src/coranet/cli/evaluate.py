"""`coranet evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from coranet.evaluation.scores import Scores


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score label maps against the truth, per case and per class.

    Dice, Jaccard, precision, recall, Hausdorff distances and mean surface distance, in voxels and millimetres, with
    intervals over cases. An empty prediction counts as a failure: it never scores a perfect distance and never drops out.
    """

    predictions: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="PREDICTIONS")]
    """A folder of <case>.nii.gz, or one file. Files of uncertainty and probabilities are passed over."""
    labels: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="LABELS")]
    """The folder of true label maps, or one file."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="CSV", help_behavior_hint="(optional)")] = None
    """Where to write every score, one row for each case and class."""
    json: bool = False
    """Print one JSON object instead of a table: mean, per_class, per_case."""
    per_slice: bool = False
    """Score each slice too, as two-dimensional images; with --out beside it as <name>_slices.csv."""

    def __call__(self) -> int:
        """Score."""
        from coranet.cli.show import say, write_json
        from coranet.evaluation import evaluate

        scores = evaluate(self.predictions, self.labels, per_slice=self.per_slice)
        if self.out is not None:
            scores.write_csv(self.out)
        if self.json:
            write_json(scores.to_json())
            return 0
        _show(scores)
        if self.out is not None:
            say(f"Every score: {self.out}")
        return 0


COLUMNS = {
    "dsc": ("Dice %", 100.0),
    "jaccard": ("Jaccard %", 100.0),
    "ppv": ("Precision %", 100.0),
    "tpr": ("Recall %", 100.0),
    "hd": ("HD vox", 1.0),
    "hd95": ("HD95 vox", 1.0),
    "hd95_mm": ("HD95 mm", 1.0),
    "asd": ("ASD vox", 1.0),
    "asd_mm": ("ASD mm", 1.0),
}


def _show(scores: Scores) -> None:
    from rich.table import Table

    from coranet.cli.show import output, say

    content = scores.to_json()
    table = Table(box=None, pad_edge=False)
    table.add_column("class")
    for title, _ in COLUMNS.values():
        table.add_column(title, justify="right")
    for name, values in (*content["per_class"].items(), ("mean", content["mean"])):
        table.add_row(name, *(_number(values[metric], scale) for metric, (_, scale) in COLUMNS.items()))
    low, high = content["intervals"]["mean"]["dsc"]
    output.print(table)
    if low is not None:
        output.print(
            f"Dice {100 * content['mean']['dsc']:.2f} %, 95 % interval over cases {100 * low:.2f} to {100 * high:.2f}"
        )
    for note in content["notes"]:
        say(f"Note: {note}")


def _number(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{scale * value:.2f}"
