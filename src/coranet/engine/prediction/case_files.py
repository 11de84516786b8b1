"""Predictions of many cases as files beside each other; what is finished is not predicted again.

A case that cannot be predicted need not stop the others: why it cannot be is kept as its row of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coranet.data.case_journal import CaseJournal
from coranet.data.datasets.folder import Case
from coranet.data.readers import Volume
from coranet.data.writers import ENDINGS, LabelWriter
from coranet.engine.prediction.answer import Answer
from coranet.errors import InputError
from coranet.files import make_folder
from coranet.metrics.case_facts import CaseFacts

OnCase = Callable[[int, int, str], None]
"""Told `(done, total, case)` after each."""
Predict = Callable[[Sequence[Volume]], Answer]
_REFUSED = "refused"
"""In the row of a case that could not be predicted: why."""


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
    on_refusal: Callable[[Case, str], None] | None = None
    """Told of a case that cannot be predicted, and why, while the others go on; without it, the first one stops all."""
    again: bool = True
    """Try those again that could not be predicted before."""

    def write(self, predict: Predict, cases: Sequence[Case], on_case: OnCase | None = None) -> dict[str, CaseFacts]:
        """Predict what is not finished; returns what was found, by case.

        Raises:
            InputError: what is wrong with the first case that cannot be predicted, or with the folder for results.
        """
        unfit = self._unfit(cases)
        make_folder(self.out)
        found: dict[str, CaseFacts] = {}
        for number, case in enumerate(cases, start=1):
            if facts := self.finished(case):
                found[case.name] = facts
            elif case.name in unfit:
                self._refuse(case, unfit[case.name])
            elif facts := self._attempt(predict, case):
                found[case.name] = facts
            if on_case:
                on_case(number, len(cases), case.name)
        return found

    def _unfit(self, cases: Sequence[Case]) -> dict[str, str]:
        """Cases whose label maps cannot be written in a further format, and why; refused at once if that is so of all."""
        unfit: dict[str, str] = {}
        for case in cases:
            try:
                for writer in self.writers:
                    writer.check(case)
            except InputError as error:
                unfit[case.name] = str(error)
                if self.on_refusal is None or len(unfit) == len(cases):
                    raise
        return unfit

    def finished(self, case: Case) -> CaseFacts | None:
        """What is known of a case whose files are there and are as they were; None of any other."""
        row = self.journal.found(case) if self.journal else None
        return None if row is None else CaseFacts.from_row(row)

    def kept(self) -> dict[str, CaseFacts]:
        """What is known of all cases that were finished, wherever their scans are by now."""
        rows = self.journal.kept() if self.journal else {}
        return {name: facts for name, row in rows.items() if (facts := CaseFacts.from_row(row))}

    def refusal(self, case: Case) -> str | None:
        """Why a case could not be predicted, where nothing has changed since."""
        row = (self.journal.found(case) if self.journal else None) or {}
        return row.get(_REFUSED)

    def _attempt(self, predict: Predict, case: Case) -> CaseFacts | None:
        if not self.again and (reason := self.refusal(case)):
            self._refuse(case, reason)
            return None
        try:
            volumes = [image.read() for image in case.images]
            answer, geometry = predict(volumes), volumes[0].geometry
        except InputError as error:
            if self.on_refusal is None:
                raise
            named = any(str(image.path) in str(error) for image in case.images)
            self._refuse(case, str(error) if named else f"{case.images[0].path}: {error}")
            return None
        files = answer.write(self.out, case.name, geometry, flat=volumes[0].flat, masks=self.masks)
        try:
            files += [writer.write(self.out, case, answer.label, geometry) for writer in self.writers]
        except InputError as error:
            if self.on_refusal is None:
                raise
            self._refuse(case, str(error))
            return None
        for ending in ENDINGS:  # of an earlier prediction
            if (further := self.out / f"{case.name}{ending}") not in files:
                further.unlink(missing_ok=True)
        assert answer.facts is not None
        if self.journal:
            self.journal.add(case, answer.facts.to_row(), files)
        return answer.facts

    def _refuse(self, case: Case, reason: str) -> None:
        if self.journal and self.refusal(case) != reason:
            self.journal.add(case, {_REFUSED: reason}, [])
        if self.on_refusal:
            self.on_refusal(case, reason)
