"""Predictions of many cases as files beside each other; what is finished is not predicted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coranet.data.case_journal import CaseJournal
from coranet.data.datasets.folder import Case
from coranet.data.readers import Volume
from coranet.data.writers import LabelWriter
from coranet.engine.prediction.answer import Answer
from coranet.files import make_folder
from coranet.metrics.case_facts import CaseFacts

OnCase = Callable[[int, int, str], None]
"""Told `(done, total, case)` after each."""


@dataclass(frozen=True, kw_only=True)
class CaseFiles:
    """What is written of each case, and where."""

    out: Path
    masks: bool = False
    """What else the method shows, too."""
    writers: Sequence[LabelWriter] = ()
    """Of label maps in further formats."""
    journal: CaseJournal | None = None
    """Knows which cases are finished, and is told of others."""

    def write(
        self, predict: Callable[[Sequence[Volume]], Answer], cases: Sequence[Case], on_case: OnCase | None = None
    ) -> dict[str, CaseFacts]:
        """Predict what is not finished; returns what was found, by case."""
        for writer in self.writers:
            for case in cases:
                writer.check(case)
        make_folder(self.out)
        found: dict[str, CaseFacts] = {}
        for number, case in enumerate(cases, start=1):
            found[case.name] = self.finished(case) or self._predict(predict, case)
            if on_case:
                on_case(number, len(cases), case.name)
        return found

    def finished(self, case: Case) -> CaseFacts | None:
        """What is known of a case whose files are there and are as they were; None of any other."""
        row = self.journal.found(case) if self.journal else None
        return None if row is None else CaseFacts.from_row(row)

    def _predict(self, predict: Callable[[Sequence[Volume]], Answer], case: Case) -> CaseFacts:
        volumes = [image.read() for image in case.images]
        answer, geometry = predict(volumes), volumes[0].geometry
        files = answer.write(self.out, case.name, geometry, flat=volumes[0].flat, masks=self.masks)
        files += [writer.write(self.out, case, answer.label, geometry) for writer in self.writers]
        assert answer.facts is not None
        if self.journal:
            self.journal.add(case, answer.facts.to_row(), files)
        return answer.facts
