"""Trials: Optuna says which combination of values to try next, and learns from validation cases how it did.

Its storage is a file in the folder of the comparison, so that the search goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from coranet.errors import InputError
from coranet.runs.comparison import Compare
from coranet.runs.opened_store import Say
from coranet.runs.search.grids import Axis, axes_of, shared_out, with_settings
from coranet.runs.search.ranking import ranked, worth
from coranet.runs.search.rung import Attempt, Rung, RungScores
from coranet.runs.search.search_record import SearchRecord

if TYPE_CHECKING:
    from optuna import Study, Trial

STORAGE = "optuna.log"
_ROW, _ERROR, _METHOD = "row", "error", "method"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """How many, of runs of which length, over what."""

    count: int
    steps: int
    rows: tuple[str, ...]
    """Methods, before anything is varied."""
    axes: tuple[Axis, ...]
    at_once: int = 1
    """Combinations that are tried together, before anything is learnt of them."""

    @classmethod
    def of(cls, count: int, steps: int | None, rows: Sequence[str], axes: Sequence[Axis], at_once: int = 1) -> Trials:
        """`--search COUNT` of runs of so many steps.

        Raises:
            InputError: no length, nothing to search, or Optuna is not there.
        """
        if steps is None:
            raise InputError("--search: say how long a whole run is, with --steps.")
        own = shared_out(rows, axes)
        size = sum(prod(len(axis.values) for axis in some) for some in own.values())
        if size < 2:
            raise InputError(f"--search {count}: there is nothing to search. Name values with --grid KEY=A,B.")
        if not 1 <= count < size:
            raise InputError(
                f"--search {count}: there are {size} combinations. Try fewer, at least one; --halving tries them all."
            )
        _optuna()
        return cls(count=count, steps=steps, rows=tuple(rows), axes=tuple(axes), at_once=at_once)

    @property
    def samples(self) -> tuple[str, ...]:
        """Rows that have every value once: if these can be trained, so can their combinations."""
        own = shared_out(self.rows, self.axes).items()
        rows = (with_settings(row, {axis.path: value}) for row, some in own for axis in some for value in axis.values)
        return tuple(dict.fromkeys((*self.rows, *rows)))

    def in_words(self, compare: Compare) -> str:
        """The plan, before it begins."""
        return f"Optuna: {self.count} trials; {self.count * compare.seeds * self.steps} steps at most."

    def record(self, compare: Compare, varied: str) -> SearchRecord:
        """A search that has not begun; more trials may be asked for later."""
        asked = {"rows": list(self.rows), "seeds": compare.seeds, "steps": self.steps, "sampler": "TPE"}
        return SearchRecord(how="optuna", varied=varied, asked=asked)

    def choose(self, compare: Compare, record: SearchRecord, attempt: Attempt, say: Say) -> SearchRecord:
        """Try until there are enough trials; a combination that comes again is not trained again."""
        study = _study(compare)
        while len(done := _done(study)) < self.count:
            trials = [study.ask() for _ in range(min(self.at_once, self.count - len(done)))]
            rows = [self._suggested(trial) for trial in trials]
            found = Rung.of(compare, list(dict.fromkeys(rows)), self.steps).judge(attempt)
            for number, (trial, row) in enumerate(zip(trials, rows, strict=True), start=len(done) + 1):
                _tell(study, trial, row, found)
                say(f"Trial {number} of {self.count}: {row}, {_told(row, found)}.")
        rows = list(dict.fromkeys(trial.user_attrs[_ROW] for trial in done))
        rung = Rung.of(compare, rows, self.steps)
        dice, _ = rung.judge(lambda rung: {})  # all are trained
        best = ranked(dice)[:1]
        facts = {"step": self.steps, "dice": dice, "kept": best, **_history(study, done)}
        chosen = best[0] if best else None
        record = replace(record, validation=rung.validation_cases(), rounds=[facts], chosen=chosen)
        record.write(compare.out)
        return record

    def _suggested(self, trial: Trial) -> str:
        row = str(trial.suggest_categorical(_METHOD, self.rows)) if len(self.rows) > 1 else self.rows[0]
        axes = axes_of(row, self.axes)
        row = with_settings(row, {axis.path: str(trial.suggest_categorical(axis.path, axis.values)) for axis in axes})
        trial.set_user_attr(_ROW, row)
        return row


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError(
            "--search: needs Optuna, which is not installed. Install it with: pip install 'coranet[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _study(compare: Compare) -> Study:
    """The one in the folder; a trial that was cut off is tried again, and its run goes on."""
    optuna = _optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(compare.out / STORAGE)))
    study: Study = optuna.create_study(storage=storage, study_name="search", direction="maximize", load_if_exists=True)
    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(trial.params)
    # Not the same draws again when it goes on; and of those that are tried together, not the same twice.
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials), constant_liar=True)
    return study


def _done(study: Study) -> list[Any]:
    """Trials that were judged, or whose run failed; not those that were cut off."""
    return [trial for trial in study.trials if trial.value is not None or _ERROR in trial.user_attrs]


def _tell(study: Study, trial: Trial, row: str, found: RungScores) -> None:
    if row in found.dice:
        study.tell(trial, worth(found.dice[row]))
    else:
        trial.set_user_attr(_ERROR, found.failed[row])
        study.tell(trial, state=_optuna().trial.TrialState.FAIL)


def _told(row: str, found: RungScores) -> str:
    return f"Dice {worth(found.dice[row]):.3f} on validation cases" if row in found.dice else "failed"


def _history(study: Study, done: Sequence[Any]) -> dict[str, Any]:
    """What search.json says of the trials, one after the other."""
    good = {trial.user_attrs[_ROW] for trial in done if trial.value is not None}
    failed = {trial.user_attrs[_ROW]: trial.user_attrs[_ERROR] for trial in done if trial.value is None}
    return {
        "failed": {row: error for row, error in failed.items() if row not in good},
        "trials": [[trial.user_attrs[_ROW], trial.value] for trial in done],
        "importance": _importance(study, done),
    }


def _importance(study: Study, done: Sequence[Any]) -> dict[str, float]:
    """How much each field matters, by PED-ANOVA; nothing where all trials did the same."""
    if len({trial.value for trial in done} - {None}) < 2:
        return {}
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    return {
        name: float(value)
        for name, value in get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()).items()
    }
