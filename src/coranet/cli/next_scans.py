"""`coranet next`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from coranet.cli.terminal.parsing import FLAT
from coranet.cli.terminal.run_loading import LoadOptions, MadeBefore
from coranet.cli.terminal.stopping import until_stopped
from coranet.data.budget import allowing
from coranet.errors import InputError
from coranet.files import make_folder
from coranet.locks import owned

if TYPE_CHECKING:
    from coranet.runs.labelling import Choice


@dataclass(frozen=True, kw_only=True)
class NextVerb:
    """Say which scans to label next, and why.

    Asks for scans that most others without a label look like, and that no labelled one looks like. In short runs these
    taught more than scans drawn by chance on two sets of three (docs/uncertainty.md). `--first worst` asks for those that
    it is expected to do worst, each organ counted by its own size: that shows where it fails. A scan that cannot be read is
    listed, and stops nothing. Writes FILE.csv, and beside it a page of the chosen scans (FILE.html), what was predicted
    (FILE_predictions), and where the scans lie (FILE.txt): coranet review RUN FILE.txt --predictions FILE_predictions
    opens just these.
    """

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")]
    """The folder that `coranet train --out` made. Leave it out before there is one: SCANS alone is enough to begin."""
    scans: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="SCANS", help_behavior_hint="")] = None
    """A dataset in nnU-Net's layout, whose unlabelled training scans are meant, or a folder of scans, or a text file (.txt)
    that lists some; cases that the run has labels of are passed over."""
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
        if self.count < 1:
            raise InputError(f"-n {self.count}: at least one.")
        if self.out.suffix != ".csv":
            raise InputError(
                f"--out {self.out}: is a table, and others lie beside it. Give it a name that ends in .csv."
            )
        choose = self._before_any_run if self.scans is None else partial(self._by_run, self.scans)
        with allowing(self.loading.max_gb):
            return until_stopped(choose, ". The same command starts over.")

    def _before_any_run(self) -> int:
        from coranet.cli.terminal.show import counting, say
        from coranet.runs.labelling import first_scans

        if (self.run / "run.json").exists():
            raise InputError(f"{self.run}: is a run. Give the folder of scans after it: coranet next {self.run} SCANS.")
        if self.first == "worst" or self.predictions:
            raise InputError("--first worst and --predictions need a run: coranet next RUN SCANS.")
        with counting() as on_progress:
            choice = first_scans(self.run, self.count, on_progress=on_progress)
        make_folder(self.out.parent)
        self._list(choice)
        say(f"The list: {self.out}")
        return 0

    def _by_run(self, scans: Path) -> int:
        from coranet.cli.terminal.show import counting, say
        from coranet.report.case_page import write_case_page
        from coranet.runs.labelling import next_scans

        trained = self.loading.load(self.run)
        make_folder(self.out.parent)
        predictions = self.predictions or self.out.with_name(f"{self.out.stem}_predictions")
        with owned(predictions), counting() as on_progress:
            choice = next_scans(
                trained,
                scans,
                predictions,
                self.count,
                first=self.first,
                predict=self.predictions is None,
                on_progress=on_progress,
            )
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
        self._list(choice)
        if choice.unseen:
            say(
                f"{choice.unseen} labelled scans are no longer where the run was trained from: "
                "what looks like them may be on the list. Put them into SCANS, too, and it is not."
            )
        say(f"The list: {self.out}. Pictures: {page}")
        return 0

    def _list(self, choice: Choice) -> None:
        from coranet.cli.terminal.show import output
        from coranet.runs.labelling import in_words

        choice.write(self.out)
        for line in in_words(choice):
            output.print(line)
