"""`coranet next`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.cli.terminal.parsing import FLAT
from coranet.cli.terminal.run_loading import LoadOptions, MadeBefore, RunFolder, ScanFolder
from coranet.cli.terminal.stopping import until_stopped
from coranet.data.budget import allowing
from coranet.files import make_folder
from coranet.locks import owned


@dataclass(frozen=True, kw_only=True)
class NextVerb:
    """Say which scans to label next, and why.

    Predicts scans that the run has no label of, and takes those that it is expected to do worst, each organ counted by its
    own size. Scans that look alike are not asked for twice. A scan that cannot be read is listed, and stops nothing.
    It shows where a run fails. Whether such labels teach it more than labels of scans that are drawn at random is open:
    in the studies of docs/uncertainty.md they did not. Writes FILE.csv, and beside it a page of the chosen
    scans (FILE.html) and what was predicted (FILE_predictions).
    """

    run: RunFolder
    """The folder that `coranet train --out` made. After `coranet calibrate` it knows best."""
    scans: ScanFolder
    """A folder of scans; those that the run was trained on with a label are passed over."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 10
    """How many."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.csv")] = Path("next.csv")
    """Where the list goes."""
    predictions: MadeBefore = None
    """What `coranet predict RUN SCANS --out DIR` wrote, if all scans are predicted already."""
    loading: Annotated[LoadOptions, FLAT] = LoadOptions()

    def __call__(self) -> int:
        """Choose."""
        with allowing(self.loading.max_gb):
            return until_stopped(self._choose, ". The same command starts over.")

    def _choose(self) -> int:
        from coranet.cli.terminal.show import counting, output, say
        from coranet.report.case_page import write_case_page
        from coranet.runs.labelling import in_words, next_scans

        trained = self.loading.load(self.run)
        make_folder(self.out.parent)
        predictions = self.predictions or self.out.with_name(f"{self.out.stem}_predictions")
        with owned(predictions), counting() as on_progress:
            choice = next_scans(
                trained,
                self.scans,
                predictions,
                self.count,
                predict=self.predictions is None,
                on_progress=on_progress,
            )
        choice.write(self.out)
        images = {name: case.images[0] for name, case in choice.scans.items()}
        objects = {value: name for value, name in trained.classes.items() if value}
        page = write_case_page(
            self.out.with_suffix(".html"),
            predictions,
            images,
            objects,
            title="To label next",
            only=[row.case for row in choice.cases],
        )
        for line in in_words(choice):
            output.print(line)
        say(f"The list: {self.out}. Pictures: {page}")
        return 0
