"""`coranet evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.cli.terminal.parsing import MaxGb
from coranet.data.budget import within_budget
from coranet.files import make_folder, sweep

if TYPE_CHECKING:
    from coranet.evaluation.reliability import Calibrations
    from coranet.evaluation.scores import Scores


@dataclass(frozen=True, kw_only=True)
class EvaluateVerb:
    """Score label maps against the truth, per case and per class.

    Dice, Jaccard, precision, recall, Hausdorff distances and mean surface distance, in voxels and millimetres, with
    intervals over cases. An empty prediction counts as a failure: it never scores a perfect distance and never drops out.
    Where cases.csv of `coranet predict` lies beside the predictions, it is held against the truth too.
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
    calibration: bool = False
    """Also measure whether uncertainty lies where the mistakes are, from the maps that `coranet predict
    --probabilities` writes beside PREDICTIONS; with --out beside it as <name>_calibration.csv."""
    max_gb: MaxGb = None
    """Memory that one scan may take while it is read."""

    @within_budget
    def __call__(self) -> int:
        """Score."""
        from coranet.cli.terminal.show import output, say, write_json
        from coranet.evaluation import evaluate, evaluate_calibration, foresee

        beside = None
        if self.out is not None and self.calibration:
            beside = self.out.with_name(f"{self.out.stem}_calibration{self.out.suffix}")
        if self.out is not None:
            make_folder(self.out.parent)
            sweep(self.out.parent)
        # First, so that maps that are missing are said before the long part.
        calibrations = evaluate_calibration(self.predictions, self.labels) if self.calibration else None
        scores = evaluate(self.predictions, self.labels, per_slice=self.per_slice)
        if self.out is not None:
            scores.write_csv(self.out)
        if beside is not None and calibrations is not None:
            calibrations.write_csv(beside)
        foresight = foresee(self.predictions, scores)
        if self.json:
            extra = {} if calibrations is None else {"calibration": calibrations.to_json()}
            extra |= {} if foresight is None else {"expected": foresight.to_json()}
            write_json(scores.to_json() | extra)
            return 0
        _show(scores)
        if calibrations is not None:
            _show_calibration(calibrations)
        if foresight is not None:
            output.print(f"\n{foresight.in_words()}")
        if self.out is not None:
            say(f"Every score: {self.out}" + (f", and calibration: {beside}" if beside else ""))
        return 0


UNSHOWN = ("assd", "hd_mm", "assd_mm")
"""Metrics that a terminal has no room for; files and JSON have them."""

MEASURES = {
    "error_share": ("voxels that are wrong", 2),
    "uncertain_share": ("voxels that are uncertain", 2),
    "errors_held": ("errors in the uncertain region", 2),
    "certain_error_share": ("certain voxels that are wrong", 2),
    "certain_ece": ("calibration error of certain voxels", 2),
    "score_held": ("errors in as many voxels of the highest score", 2),
    "softmax_held": ("  of the lowest probability (softmax)", 2),
    "score_ece": ("calibration error of the score", 2),
    "softmax_ece": ("  of the probability (softmax)", 2),
    "retention_area": ("area under error retention", 4),
    "area_at_random": ("  of a score that knows nothing", 4),
    "area_at_best": ("  of one that knows every error", 4),
}
"""What each is called, and its decimals."""


def _show(scores: Scores) -> None:
    from rich.table import Table

    from coranet.cli.terminal.show import output, say
    from coranet.metrics import METRICS

    content = scores.to_json()
    shown = {name: metric for name, metric in METRICS.items() if name not in UNSHOWN}
    table = Table(box=None, pad_edge=False)
    table.add_column("class")
    for metric in shown.values():
        table.add_column(f"{metric.title} {metric.unit}", justify="right")
    for kind, values in (*content["per_class"].items(), ("mean", content["mean"])):
        table.add_row(kind, *(_number(values[name], 100 if m.unit == "%" else 1) for name, m in shown.items()))
    low, high = content["intervals"]["mean"]["dsc"]
    output.print(table)
    if low is not None:
        output.print(
            f"Dice {100 * content['mean']['dsc']:.2f} %, 95 % interval over cases {100 * low:.2f} to {100 * high:.2f}"
        )
    for note in content["notes"]:
        say(f"Note: {note}")


def _number(value: float | None, scale: float, digits: int = 2) -> str:
    return "-" if value is None else f"{scale * value:.{digits}f}"


def _show_calibration(calibrations: Calibrations) -> None:
    from rich.table import Table

    from coranet.cli.terminal.show import output

    content = calibrations.to_json()
    table = Table(box=None, pad_edge=False)
    table.add_column("uncertainty, over cases")
    table.add_column("mean %", justify="right")
    table.add_column("95 % interval", justify="right")
    for measure, (title, digits) in MEASURES.items():
        mean = content["mean"][measure]
        low, high = content["intervals"][measure]
        between = "-" if low is None else f"{_number(low, 100, digits)} to {_number(high, 100, digits)}"
        table.add_row(title, _number(mean, 100, digits), between)
    output.print()
    output.print(table)
