"""Successive halving: train all rows a little, keep the better half, train these further, and so on.

Every run is one of full length, with the learning rates and phases of its full length. At a rung it is paused and judged on
validation cases; if it is kept, it is resumed. So the run that is chosen is, step for step, what it would be alone. What
this costs: a run whose learning rate still has to fall, or whose self-training has not begun, is judged as it is then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from coranet.errors import InputError
from coranet.runs.comparison import Compare
from coranet.runs.opened_store import Say
from coranet.runs.search.ranking import ranked
from coranet.runs.search.rung import Attempt, Rung
from coranet.runs.search.search_record import SearchRecord


@dataclass(frozen=True, kw_only=True)
class Halving:
    """Where runs are judged."""

    steps: tuple[int, ...]
    """Of each rung; the last is the length of a run."""

    @classmethod
    def from_text(cls, text: str, steps: int | None) -> Halving:
        """`--halving 100,200` of runs of so many steps.

        Raises:
            InputError: no steps that rise, or no length.
        """
        parts = [part.strip() for part in text.split(",")]
        if steps is None:
            raise InputError("--halving: say how long a whole run is, with --steps.")
        if not all(part.isascii() and part.isdecimal() for part in parts):
            raise InputError(f"--halving {text}: name the steps where the better half goes on, such as 500,1000.")
        rungs = (*map(int, parts), steps)
        if rungs[0] < 1 or any(after <= before for before, after in pairwise(rungs)):
            raise InputError(f"--halving {text}: steps rise, and end before those of --steps {steps}.")
        return cls(steps=rungs)

    def counts(self, rows: int) -> tuple[int, ...]:
        """How many rows are trained up to each rung."""
        found = [rows]
        for _ in self.steps[1:]:
            found.append(-(-found[-1] // 2))
        return tuple(found)

    def budget(self, rows: int, seeds: int) -> int:
        """Steps of all runs together, at most."""
        gaps = [after - before for before, after in pairwise((0, *self.steps))]
        return seeds * sum(count * gap for count, gap in zip(self.counts(rows), gaps, strict=True))

    def in_words(self, compare: Compare) -> str:
        """The plan, before it begins."""
        rows, seeds = len(compare.rows), compare.seeds
        climb = ", ".join(f"{count} to step {step}" for count, step in zip(self.counts(rows), self.steps, strict=True))
        whole = rows * seeds * self.steps[-1]
        return f"Halving: {climb}; {self.budget(rows, seeds)} steps at most, where all in full would take {whole}."

    def record(self, compare: Compare, varied: str) -> SearchRecord:
        """A search that has not begun."""
        budget = self.budget(len(compare.rows), compare.seeds)
        asked = {"rows": list(compare.rows), "seeds": compare.seeds, "rungs": list(self.steps), "budget_steps": budget}
        return SearchRecord(how="halving", varied=varied, asked=asked)

    def choose(self, compare: Compare, record: SearchRecord, attempt: Attempt, say: Say) -> SearchRecord:
        """Climb all rungs; what was judged before is not judged again. Nothing is chosen where all rows failed."""
        rows = list(compare.rows)
        for number, step in enumerate(self.steps):
            if number == len(record.rounds):
                rung = Rung.of(compare, rows, step)
                dice, failed = rung.judge(attempt)
                kept = ranked(dice)[: 1 if step == self.steps[-1] else -(-len(rows) // 2)]
                record = replace(record, validation=record.validation or rung.validation_cases())
                record = record.with_round(step=step, dice=dice, failed=failed, kept=kept)
                record.write(compare.out)
            rows = record.rounds[number]["kept"]
            say(f"Step {step}: kept {', '.join(rows) or 'none'}.")
            if not rows:
                return record
        record = replace(record, chosen=rows[0])
        record.write(compare.out)
        return record
