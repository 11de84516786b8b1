"""`coranet review`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coranet.cli.terminal.parsing import FLAT
from coranet.cli.terminal.run_loading import LoadOptions, MadeBefore, RunFolder, ScanFolder
from coranet.cli.terminal.stopping import until_stopped
from coranet.data.budget import allowing
from coranet.errors import InputError
from coranet.locks import owned


@dataclass(frozen=True, kw_only=True)
class ReviewVerb:
    """Look at predictions in the browser, correct them by choosing or drawing, save, and train on.

    Opens a page that this machine alone can see. Scans are predicted one after the other, and listed worst first. For each
    uncertain piece one key takes the conservative answer, one the radical one, one the prediction. Saved labels lie on the
    scan's own grid in CORRECTIONS/labelsTr, with a note beside each. Scans are never changed. Ctrl-C ends it;
    the same command goes on. Needs the extra coranet[review].
    """

    run: RunFolder
    """The folder that `coranet train --out` made."""
    scans: ScanFolder
    """A scan or a folder of scans, as in `coranet predict`."""
    out: Annotated[Path, tyro.conf.arg(metavar="CORRECTIONS")]
    """Where corrected labels go, and predictions where there are none."""
    predictions: MadeBefore = None
    """What `coranet predict --masks` made of these scans."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DATA", help_behavior_hint="(default: the run's own)")] = None
    """The folder that the run was trained on, to train on from the page."""
    port: Annotated[int, tyro.conf.arg(metavar="P", help_behavior_hint="(default: one that is free)")] = 0
    """Where the page is served, on this machine alone."""
    no_browser: bool = False
    """Print the address and open nothing."""
    loading: Annotated[LoadOptions, FLAT] = LoadOptions()

    def __call__(self) -> int:
        """Serve until it is stopped."""
        with allowing(self.loading.max_gb):
            return until_stopped(self._serve, ". What was saved is whole. The same command goes on.")

    def _serve(self) -> int:
        from coranet.cli.terminal.show import say

        try:
            from coranet.review.desk import ReviewRequest, serve
        except ModuleNotFoundError as error:
            if error.name not in ("starlette", "uvicorn"):
                raise
            raise InputError("coranet review needs two more packages: pip install 'coranet[review]'.") from error
        given = {**vars(self.loading), **vars(self)}
        request = ReviewRequest(**{name: given[name] for name in ReviewRequest.__dataclass_fields__})
        with owned(self.out):
            serve(request, say)
        return 0
