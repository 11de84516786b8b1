"""`coranet calibrate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.cli.terminal.parsing import Device
from coranet.cli.terminal.stopping import until_stopped

if TYPE_CHECKING:
    from coranet.engine.prediction.fitted import Fitted


@dataclass(frozen=True, kw_only=True)
class CalibrateVerb:
    """Find out how far a run's uncertainty is to be believed, by cross-validation over its labelled cases.

    Sets some labelled cases apart, trains the run again without them and predicts them; and so for all, fold by fold. From
    that it fits the probability that a voxel is wrong and the Dice to expect of a case, and writes RUN/calibration.json,
    which `coranet predict` uses from then on. It also says what Dice the run has on cases that it was not trained on. This
    takes as long as training the run so many times. A run with validation cases has a first fit from the end of training.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder that `coranet train --out` made."""
    data: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DATA", help_behavior_hint="(default: where it lay)")
    ] = None
    """What the run was trained on: the same raw folder or store."""
    folds: Annotated[int, tyro.conf.arg(metavar="K")] = 3
    """Parts that the labelled patients are dealt into; each is set apart once."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the run's)")] = None
    """How long to train each fold. Fewer are quicker; but networks that have learnt less err otherwise, and fits that are
    made of them hold less."""
    device: Device = None
    """cpu, cuda or cuda:1."""
    threads: Annotated[
        int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each free core)")
    ] = None
    """Threads of sums on the CPU."""
    cache: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the user's cache)")] = None
    """Where prepared scans are kept."""
    trust: bool = False
    """Let the run's own method run, where it has one: a Python file in RUN. Read it before, if the run is not yours."""

    def __call__(self) -> int:
        """Fit."""
        return until_stopped(self._calibrate, ". The same command goes on with the fold it was at.")

    def _calibrate(self) -> int:
        from coranet.cli.terminal.display import FoldDisplay
        from coranet.cli.terminal.show import counting, output, say
        from coranet.runs.fitting import Calibrate, calibrate_run

        asked = Calibrate(
            run=self.run,
            data=self.data,
            folds=self.folds,
            steps=self.steps,
            device=self.device,
            threads=self.threads,
            cache=self.cache,
            trust=self.trust,
        )
        with counting() as on_progress, FoldDisplay() as display:
            fitted, dice = calibrate_run(asked, listeners=[display], say=say, on_progress=on_progress)
        output.print(
            f"Dice of {len(fitted.held_out)} cases that were not trained on: {100 * dice.mean:.1f} % "
            f"(95 % interval over {dice.n} patients {100 * dice.low:.1f} to {100 * dice.high:.1f})"
        )
        for sentence in _remarks(fitted):
            say(sentence)
        say(f"Written: {self.run / 'calibration.json'}. Next: coranet predict {self.run} SCANS --out PREDICTIONS")
        return 0


def _remarks(fitted: Fitted) -> list[str]:
    said = ["The run itself has more labels than each fold, so that new scans should do as well or better."]
    if fitted.cases is None:
        said.append("No Dice can be expected of a case: fewer than three patients were held out. Label some more.")
    elif fitted.cases.level < 0.9:
        said.append(
            f"Intervals hold for {100 * fitted.cases.level:.0f} % of new cases at most: more takes more labels."
        )
    return said
