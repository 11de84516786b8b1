"""`coranet train`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.cli.terminal.parsing import FLAT
from coranet.cli.terminal.stopping import until_stopped
from coranet.runs.options import Options, TrackerName
from coranet.signals import Interrupted


@dataclass(frozen=True, kw_only=True)
class TrainVerb:
    """Train from a few labelled and many unlabelled scans.

    DATA is a folder in nnU-Net's raw layout (imagesTr, labelsTr, dataset.json); a case of imagesTr without a file in
    labelsTr is unlabelled. RUN receives run.json, log.jsonl and last.pt, the newest state. Ctrl-C saves and stops, and so
    does a closed terminal.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A raw folder, or a prepared store."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN")]
    """The run folder to make."""
    options: Annotated[Options, FLAT] = Options()
    resume: bool = False
    """Continue the run in --out where it stopped."""
    track: Annotated[
        tuple[TrackerName, ...],
        tyro.conf.UseAppendAction,
        tyro.conf.arg(metavar="{tensorboard,mlflow,wandb}", help_behavior_hint="(default: RUN/log.jsonl alone)"),
    ] = ()
    """Also hand the curves to these (each needs its extra, such as coranet[mlflow]). MLflow and Weights & Biases send them
    where their own settings say."""
    gpus: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one)")] = None
    """Train on so many GPUs of this machine at once, each on its share of every batch. For several machines use torchrun."""

    def __call__(self) -> int:
        """Train."""
        from coranet.runs.machine.spread import check_gpus, is_spread, spread

        if self.gpus is not None and not is_spread():
            check_gpus(self.gpus)
            return spread(sys.argv[1:], self.gpus)
        return until_stopped(self._train, self._advice)

    def _advice(self, stop: Interrupted) -> str:
        """What of the run is there, and how to go on."""
        if stop.step is not None:
            saved = f" after step {stop.step}; the state is saved in {self.out / 'last.pt'}."
        elif not (self.out / "run.json").exists():
            return " before the first step. Start with the same command again."
        else:
            saved = f" between two saves; the one before is in {self.out / 'last.pt'}."
        return f"{saved}\nContinue with the same command and --resume."

    def _train(self) -> int:
        from coranet.cli.terminal.display import TrainingDisplay
        from coranet.cli.terminal.show import counting, say
        from coranet.engine.log import Listener
        from coranet.methods import own_name
        from coranet.runs.launch import train

        with counting() as on_progress, TrainingDisplay() as display:
            listeners: list[Listener] = [display]
            if self.track:
                from coranet.cli.terminal.tracking import TRACKERS

                listeners += [TRACKERS[name](self.out) for name in self.track]
            train(
                self.data,
                self.out,
                self.options,
                resume=self.resume,
                listeners=listeners,
                say=say,
                on_progress=on_progress,
            )
        missed = display.outcome.missed if display.outcome else ()
        if missed:
            say(f"Trained, but it does not find {', '.join(missed)}: {self.out}")
        else:
            own = " --trust" if self.options.trust or own_name(self.options.method) else ""
            say(f"Trained: {self.out}. Next: coranet predict {self.out} SCANS --out PREDICTIONS{own}")
        return 0
