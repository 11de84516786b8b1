"""The demo: labels alone, the paper's text and the default, on the embedded phantom, at equal steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.engine.log import Listener
from coranet.engine.prediction.trained import Trained
from coranet.evaluation import evaluate
from coranet.methods import DEFAULT
from coranet.runs.launch import train
from coranet.runs.machine.device import find_device
from coranet.runs.opened_store import OnProgress, Say
from coranet.runs.options import Options
from coranet.runs.triage import judge_predictions

PHANTOM = Phantom(shape=(64, 64, 8))
"""Fixed by supervised training alone, before methods were compared on it: docs/phantom.md. Small for the CPU's sake."""
PATIENTS = {"labelled": 4, "unlabelled": 40, "test": 20}
DATA_SEED = 1
ROWS: dict[str, tuple[tuple[str, str], ...]] = {
    "supervised": (),
    "coranet": (("data.augment.appearance", "null"), ("train.watch", "false")),
    DEFAULT: (),
}
"""What is trained. The text has grey levels as they are, and no watch; in all else the recipe is the same."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Where it goes and how long it trains."""

    out: Path
    steps: int = 400
    seed: int = 0
    device: str | None = None

    @property
    def data(self) -> Path:
        """The phantom's folder, in nnU-Net's raw layout."""
        return self.out / "data"

    def run_folder(self, method: str) -> Path:
        """A method's run."""
        return self.out / (method.replace(":", "-") + (f"-seed{self.seed}" if self.seed else ""))


def prepare_demo(demo: Demo) -> None:
    """Generate the scans, unless they are there."""
    if not (demo.data / "dataset.json").exists():
        write_folder(demo.data, PHANTOM, seed=DATA_SEED, **PATIENTS)


def run_demo(demo: Demo, method: str, listeners: Sequence[Listener], say: Say, on_progress: OnProgress) -> Path:
    """Train, predict the test patients and score them; what is finished is not done again."""
    folder = demo.run_folder(method)
    if (folder / "scores.csv").exists():
        say(f"{folder}: trained before; remove it to train again.")
        return folder
    options = Options(
        preset="auto",
        method=method,
        steps=demo.steps,
        seed=demo.seed,
        device=demo.device,
        cache=demo.out / "cache",
        overrides=ROWS.get(method, ()),
    )
    begun = (folder / "run.json").exists()
    train(demo.data, folder, options, resume=begun, listeners=listeners, say=say, on_progress=on_progress)
    trained = Trained.load(folder, find_device(demo.device))
    found = trained.predict_files(
        demo.data / "imagesTs",
        folder / "predictions",
        masks=True,
        on_progress=lambda done, total, name: on_progress("predicting", done, total),
    )
    judge_predictions(trained, found, folder / "predictions")
    evaluate(folder / "predictions", demo.data / "labelsTs").write_csv(folder / "scores.csv")
    return folder
