"""Segmentation from a few labelled and many unlabelled scans, with a map of what is uncertain.

    coranet.train("SCANS", "RUN")                              as `coranet train`
    coranet.load("RUN").predict(image)                         a file or an image: labels, uncertain region, probabilities
    coranet.evaluate("PREDICTIONS", "LABELS").to_json()        as `coranet evaluate`

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coranet.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from coranet.engine.prediction.trained import Trained
    from coranet.evaluation.scores import Scores

__all__ = ["__version__", "evaluate", "load", "train"]


def train(data: Path | str, out: Path | str, *, resume: bool = False, progress: bool = True, **options: Any) -> Path:
    """Train on a folder of scans into a run folder; options are the fields of `coranet.runs.options.Options`.

    What was chosen, how far it is and how it ended is shown on standard error; `progress=False` is silent.
    """
    from coranet.runs.launch import train as launch
    from coranet.runs.options import Options

    if not progress:
        return launch(data, out, Options(**options), resume=resume)
    from coranet.cli.terminal.display import TrainingDisplay
    from coranet.cli.terminal.show import counting, say

    with counting() as on_progress, TrainingDisplay() as display:
        return launch(
            data, out, Options(**options), resume=resume, listeners=[display], say=say, on_progress=on_progress
        )


def load(
    run: Path | str | Sequence[Path | str],
    device: str | None = None,
    *,
    uncertainty: bool = True,
    tta: bool = False,
    largest_component: bool = False,
    trust: bool = False,
) -> Trained:
    """A trained run, or several whose answers are averaged, ready to predict.

    Args:
        run: the folder of a run, or several; or a file that `coranet export` wrote.
        device: cpu, cuda or cuda:1; a GPU if there is one.
        uncertainty: whether to say what is uncertain.
        tta: average over mirrored and turned copies, as far as the run was trained on such.
        largest_component: keep only the largest connected part of each class.
        trust: let the run's own method run, where it has one: a Python file in its folder.
    """
    from dataclasses import replace
    from pathlib import Path

    from coranet.engine.prediction.trained import Trained
    from coranet.runs.machine.device import find_device

    folders = [Path(one) for one in ([run] if isinstance(run, Path | str) else run)]
    trained = Trained.load(
        folders, find_device(device), uncertainty=uncertainty, tta=tta, largest_component=largest_component, trust=trust
    )
    return replace(trained, draw=_draw)


def _draw(*said: Any) -> bytes:
    """What a notebook shows of a prediction; matplotlib is imported when it does."""
    from coranet.report.pictures.answer_picture import answer_png

    return answer_png(*said)


def evaluate(predictions: Path | str, labels: Path | str, *, per_slice: bool = False) -> Scores:
    """Score a folder of label maps, or one, against the truth."""
    from pathlib import Path

    from coranet.evaluation import evaluate as score

    return score(Path(predictions), Path(labels), per_slice=per_slice)
