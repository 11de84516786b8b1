"""`coranet next`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

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

    Asks for scans that most others without a label look like, and that no labelled one looks like: in the studies of
    docs/uncertainty.md these taught a run most. `--first worst` asks for those that it is expected to do worst, each
    organ counted by its own size: that shows where it fails, and taught it less. A scan that cannot be read is listed,
    and stops nothing. Writes FILE.csv, and beside it a page of the chosen scans (FILE.html) and what was predicted
    (FILE_predictions).
    """

    run: RunFolder
    """The folder that `coranet train --out` made. After `coranet calibrate` it knows best."""
    scans: ScanFolder
    """A folder of scans; those that the run was trained on with a label are passed over."""
    count: Annotated[int, tyro.conf.arg(metavar="N", aliases=["-n"])] = 10
    """How many."""
    first: Literal["usual", "worst"] = "usual"
    """Scans that many others look like, or those that the run is expected to do worst."""
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
                first=self.first,
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
        if choice.unseen:
            say(
                f"{choice.unseen} labelled scans are no longer where the run was trained from: "
                "what looks like them may be on the list. Put them into SCANS, too, and it is not."
            )
        say(f"The list: {self.out}. Pictures: {page}")
        return 0
