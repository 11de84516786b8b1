"""`coranet demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.cli.terminal.parsing import Device
from coranet.cli.terminal.stopping import until_stopped
from coranet.errors import InputError
from coranet.locks import owned


@dataclass(frozen=True, kw_only=True)
class DemoVerb:
    """See it work: train on generated scans of 44 patients, 4 of them labelled, and compare.

    Trains the same network three times: on the labels alone, by CoraNet as the paper has it, and by coranet:plus, the
    default. All have the same number of steps. Then it scores them on 20 other patients and writes a page with pictures.
    This takes about two minutes on two idle cores. What is finished is not trained again.
    """

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/demo")
    """Where scans, runs and the page go."""
    methods: Annotated[str, tyro.conf.arg(metavar="A,B")] = "supervised,coranet,coranet:plus"
    """What to compare. The others are compared with the first."""
    steps: Annotated[int, tyro.conf.arg(metavar="N")] = 400
    """Steps of each training."""
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How often to train each, with seeds 0 to N - 1. The page shows the first."""
    device: Device = None
    """cpu, cuda or cuda:1."""

    def __call__(self) -> int:
        """Run it."""
        return until_stopped(self._alone, ". Continue with the same command.")

    def _alone(self) -> int:
        with owned(self.out):
            return self._demonstrate()

    def _demonstrate(self) -> int:
        from coranet.cli.terminal.display import TrainingDisplay
        from coranet.cli.terminal.show import counting, say
        from coranet.evaluation.quality import CASES
        from coranet.methods import find_method
        from coranet.report import seeds_text, table_text, write_report
        from coranet.runs import demonstration

        if self.seeds < 1:
            raise InputError(f"--seeds {self.seeds}: at least one.")
        names, repeats = self.methods.split(","), []
        for name in names:
            find_method(name)  # refused before anything is trained
        for seed in range(self.seeds):
            made = demonstration.Demo(out=self.out, steps=self.steps, seed=seed, device=self.device)
            demonstration.prepare_demo(made)
            runs: dict[str, Path] = {}
            repeats.append(runs)
            for name in names:
                with counting() as on_progress, TrainingDisplay(f"{name}: ") as display:
                    runs[name] = demonstration.run_demo(made, name, [display], say, on_progress)
            _show(table_text(runs))
            if seed == 0:
                page = write_report(
                    self.out, runs, made.data / "imagesTs", made.data / "labelsTs", title="CoraNet on the phantom"
                )
        if self.seeds > 1:
            _show(seeds_text(repeats))
        say(f"Pictures and details: {page}")
        say(f"Which cases of {names[-1]} to look at first: {repeats[0][names[-1]] / 'predictions' / CASES}")
        return 0


def _show(rows: list[dict[str, str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from coranet.cli.terminal.show import output

    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*(escape(row.get(column, "-")) for column in columns))
    output.print(table)
