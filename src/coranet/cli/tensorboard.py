"""A listener that writes TensorBoard files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coranet.engine.log import Listener, Plan, Record
from coranet.errors import InputError


class TensorBoard(Listener):
    """Terms, measures, rate and validation Dice as curves."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                "--tensorboard: TensorBoard is not installed. pip install 'coranet[tensorboard]'"
            ) from error
        self.make: Any = SummaryWriter
        self.folder = folder / "tensorboard"

    def on_begin(self, plan: Plan) -> None:
        """Open the file, once the run folder is known to be good."""
        self.writer = self.make(str(self.folder))

    def on_record(self, record: Record) -> None:
        """One point on each curve."""
        curves = {
            **{f"terms/{name}": value for name, value in record.terms.items()},
            **{f"measures/{name}": value for name, value in record.measures.items()},
            **{f"val/{name}": value for name, value in (record.val or {}).items()},
            "rate": record.lr,
        }
        for name, value in curves.items():
            self.writer.add_scalar(name, value, record.step)
        self.writer.flush()
