"""Listeners that hand a run's curves to what people track experiments with: one class each, chosen from `TRACKERS`."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coranet.data.store import Store
from coranet.engine.codec import encode
from coranet.engine.log import Listener, Outcome, Plan, Record
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.options import TrackerName


class Tracker(Listener):
    """Terms, measures, rate and validation Dice as curves, under the names that the log has."""

    name: TrackerName

    def __init__(self, folder: Path) -> None:
        self.folder, self.settings = folder, dict[str, Any]()
        try:
            self.load()
        except ImportError as error:
            raise InputError(f"--track {self.name}: it is not installed. pip install 'coranet[{self.name}]'") from error

    @abstractmethod
    def load(self) -> None:
        """Import what it needs."""

    @abstractmethod
    def open(self) -> None:
        """Begin, once the run folder is known to be good."""

    @abstractmethod
    def point(self, curves: Mapping[str, float], step: int) -> None:
        """One point on each curve."""

    def close(self) -> None:
        """After the last point."""

    def on_open(self, run: Run, store: Store) -> None:
        """Keep the settings, for trackers that show them."""
        self.settings = encode(run)

    def on_begin(self, plan: Plan) -> None:
        """Before the first step."""
        self.open()

    def on_record(self, record: Record) -> None:
        """After some steps."""
        groups = {"terms": record.terms, "measures": record.measures, "val": record.val or {}}
        curves = {f"{group}/{name}": value for group, values in groups.items() for name, value in values.items()}
        self.point({**curves, "rate": record.lr}, record.step)

    def on_end(self, outcome: Outcome) -> None:
        """After the last step."""
        self.close()


class TensorBoard(Tracker):
    """Files in RUN/tensorboard."""

    name = "tensorboard"

    def load(self) -> None:
        """TensorBoard's writer, as PyTorch has it."""
        from torch.utils.tensorboard import SummaryWriter

        self.make: Any = SummaryWriter

    def open(self) -> None:
        """The file."""
        self.writer = self.make(str(self.folder / "tensorboard"))

    def point(self, curves: Mapping[str, float], step: int) -> None:
        """At once on disk."""
        for name, value in curves.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """The file."""
        self.writer.close()


class Mlflow(Tracker):
    """The server that MLFLOW_TRACKING_URI names, or files in RUN/mlruns."""

    name = "mlflow"

    def load(self) -> None:
        """Its client alone, which keeps nothing in global places."""
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.tracking import MlflowClient

        self.make: Any = MlflowClient

    def open(self) -> None:
        """A run of the experiment `coranet`, or of the one that MLFLOW_EXPERIMENT_NAME names."""
        where = os.environ.get("MLFLOW_TRACKING_URI") or (self.folder / "mlruns").resolve().as_uri()
        self.client = self.make(tracking_uri=where)
        title = os.environ.get("MLFLOW_EXPERIMENT_NAME", "coranet")
        known = self.client.get_experiment_by_name(title)
        experiment = known.experiment_id if known else self.client.create_experiment(title)
        self.run = self.client.create_run(experiment, run_name=self.folder.name).info.run_id
        for key in ("method", "net", "optim", "train"):
            self.client.log_param(self.run, key, str(self.settings[key])[:500])

    def point(self, curves: Mapping[str, float], step: int) -> None:
        """One metric each."""
        for name, value in curves.items():
            self.client.log_metric(self.run, name, value, step=step)

    def close(self) -> None:
        """The run is finished."""
        self.client.set_terminated(self.run)


class WeightsAndBiases(Tracker):
    """As the account of this machine is set up; with WANDB_MODE=offline files in RUN/wandb, to be synchronised later."""

    name = "wandb"

    def load(self) -> None:
        """The whole package."""
        import wandb

        self.package: Any = wandb

    def open(self) -> None:
        """A run of the project `coranet`, or of the one that WANDB_PROJECT names."""
        self.run = self.package.init(
            project=os.environ.get("WANDB_PROJECT", "coranet"),
            name=self.folder.name,
            dir=self.folder,
            config=self.settings,
            settings=self.package.Settings(silent=True, console="off"),
        )

    def point(self, curves: Mapping[str, float], step: int) -> None:
        """All at once."""
        self.run.log(dict(curves), step=step)

    def close(self) -> None:
        """The run is finished."""
        self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {one.name: one for one in (TensorBoard, Mlflow, WeightsAndBiases)}
