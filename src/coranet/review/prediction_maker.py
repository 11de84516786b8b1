"""Predictions that a review needs, made while the page is open: each case once, whoever stops in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from coranet.data.case_journal import CaseJournal, digest
from coranet.data.datasets.folder import Case
from coranet.engine.prediction.case_files import CaseFiles
from coranet.engine.prediction.loading import content_of
from coranet.engine.prediction.trained import Trained
from coranet.metrics.case_facts import CaseFacts
from coranet.runs.triage import judge_predictions


@dataclass
class PredictionMaker:
    """A run and the folder its predictions go to, with `cases.csv`: what is expected of each, worst first."""

    run: Path
    out: Path
    load: Callable[[], Trained]
    """The run, loaded when the first case is missing."""
    found: dict[str, CaseFacts] = field(default_factory=dict)
    listed: int = 0
    """Cases that `cases.csv` was written of; 0 where nothing was predicted yet."""

    def make(self, case: Case) -> None:
        """Predict a case that is not finished.

        Raises:
            InputError: it cannot be read, or the run cannot be loaded.
        """
        facts = self.files.finished(case)
        if facts is None:
            with self.journal.opened("review"):
                facts = self.trained.predict_cases([case], self.files)[case.name]
            self.found[case.name] = facts
            self._list()
        self.found[case.name] = facts

    def finish(self) -> None:
        """List also the cases that were finished before, and came after the last one that was predicted."""
        if 0 < self.listed < len(self.found):
            self._list()

    def _list(self) -> None:
        judge_predictions(self.trained, self.found, self.out)
        self.listed = len(self.found)

    @cached_property
    def trained(self) -> Trained:
        """What predicts."""
        return self.load()

    @cached_property
    def journal(self) -> CaseJournal:
        """Which cases are finished."""
        return CaseJournal(self.out, digest([content_of(self.run, best=False), "review"]))

    @property
    def files(self) -> CaseFiles:
        """What is written of each case."""
        return CaseFiles(out=self.out, masks=True, journal=self.journal)
