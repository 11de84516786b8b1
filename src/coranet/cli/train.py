"""`coranet train`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.cli.parsing import FLAT
from coranet.runs.options import Options


@dataclass(frozen=True, kw_only=True)
class TrainVerb:
    """Train from a few labelled and many unlabelled scans.

    DATA is a folder in nnU-Net's raw layout (imagesTr, labelsTr, dataset.json); a case of imagesTr without a file in
    labelsTr is unlabelled. RUN receives run.json, log.jsonl and last.pt, the newest state. Ctrl-C saves and stops.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A raw folder, or a prepared store."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The run folder to make."""
    options: Annotated[Options, FLAT] = Options()
    resume: bool = False
    """Continue the run in --out where it stopped."""
    tensorboard: bool = False
    """Also write TensorBoard files into RUN (needs the extra coranet[tensorboard])."""

    def __call__(self) -> int:
        """Train."""
        from coranet.cli.display import TrainingDisplay
        from coranet.cli.show import counting, say
        from coranet.engine.log import Listener
        from coranet.engine.signals import Interrupted
        from coranet.methods import own_name
        from coranet.runs.launch import train

        with counting() as on_progress, TrainingDisplay() as display:
            listeners: list[Listener] = [display]
            if self.tensorboard:
                from coranet.cli.tensorboard import TensorBoard

                listeners.append(TensorBoard(self.out))
            try:
                train(
                    self.data,
                    self.out,
                    self.options,
                    resume=self.resume,
                    listeners=listeners,
                    say=say,
                    on_progress=on_progress,
                )
            except Interrupted as stop:
                name = signal.Signals(stop.signum).name
                say(f"Stopped by {name} after step {stop.step}; the state is saved in {self.out / 'last.pt'}.")
                say("Continue with the same command and --resume.")
                return 128 + stop.signum
        own = " --trust" if self.options.trust or own_name(self.options.method) else ""
        say(f"Trained: {self.out}. Next: coranet predict {self.out} SCANS --out PREDICTIONS{own}")
        return 0
