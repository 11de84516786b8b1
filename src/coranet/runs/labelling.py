"""Which scans to label next: predicted, judged and chosen; a scan that cannot be read is listed and stops nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import Literal, NoReturn

from coranet.data.datasets.folder import Case, read_folder, scan_cases
from coranet.data.datasets.names import patient_of
from coranet.data.prepare.cases import prepare_case
from coranet.data.prepare.preparation import Preparation
from coranet.engine.codec import decode
from coranet.engine.prediction.scan_list import list_scans
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.evaluation.quality import ALL, Quality, read_qualities, why
from coranet.evaluation.selection import (
    Descriptor,
    choose_next,
    choose_usual,
    describe_scan,
    need,
    stand_for,
)
from coranet.files import make_folder, write_atomically
from coranet.metrics.case_facts import CaseFacts
from coranet.runs.corrected import trained_on
from coranet.runs.opened_store import OnProgress
from coranet.runs.triage import judge_predictions

COLUMNS = ("rank", "case", "expected_dice", "flags", "why")
LIST = ".txt"
"""Of the file that other commands take for the chosen scans: it has the path of one in each line."""

_BETWEEN = "; "

First = Literal["usual", "worst"]
"""What is asked for first: scans that many others look like, or those a run is expected to do worst."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Cases in the order they should be labelled, and what could not be looked at."""

    cases: tuple[Quality, ...]
    """Of each its own row."""
    reasons: Mapping[str, str]
    """Why each was chosen."""
    scans: Mapping[str, Case]
    broken: Mapping[str, str]
    """What is wrong with each scan that was left out."""
    unseen: int = 0
    """Labelled cases that lie nowhere any more, so that what looks like them may be asked for."""

    def write(self, file: Path) -> None:
        """One line a case, those that are broken last, without a rank; and beside it where the chosen scans lie."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(COLUMNS)
        for rank, row in enumerate(self.cases, start=1):
            expected = "" if isnan(row.expected) else f"{row.expected:.4f}"
            lines.writerow((rank, row.case, expected, "; ".join(row.flags), self.reasons[row.case]))
        lines.writerows(("", case, "", "", f"left out: {reason}") for case, reason in self.broken.items())
        write_atomically(file, text.getvalue().encode())
        paths = [str(image.path.absolute()) for row in self.cases for image in self.scans[row.case].images]
        write_atomically(file.with_suffix(LIST), "".join(f"{path}\n" for path in paths).encode())


def next_scans(
    trained: Trained, scans: Path, predictions: Path, n: int, *, first: First, predict: bool, on_progress: OnProgress
) -> Choice:
    """Choose among the scans that have no label in the run.

    Args:
        trained: the run.
        scans: a folder of them, or a dataset in nnU-Net's layout, of which the training scans are meant.
        predictions: where `coranet predict` wrote what it says of them, or where that is to go.
        n: how many to choose.
        first: which.
        predict: make the predictions: of all scans to find the worst, else of those that are asked for.
        on_progress: told how far that is.

    Raises:
        InputError: there is no scan without a label, none can be read, or the predictions are not there.
    """
    split = trained.whole_run.split
    known = {*split.labelled, *split.val, *split.test}
    cases = {case.name: case for case in _listed(scans, predictions, trained.run.data.channels)}
    wanted = {name: case for name, case in cases.items() if name not in known}
    if not wanted:
        raise InputError(
            f"{scans}: all its scans are labelled, validation or test cases of the run. Give a folder of others."
        )
    pool = _Pool(trained, wanted, labelled_scans(trained, cases), predictions, predict, on_progress)
    found = pool.worst(n) if first == "worst" else pool.usual(n)
    if not found.reasons:
        _refuse(scans, found.broken)
    said = _said_of(predictions, found.reasons, scans)
    doubts = {case: why(rows[0], rows[1:]) for case, rows in said.items()}
    return Choice(
        cases=tuple(said[case][0] for case in found.reasons),
        reasons={case: _BETWEEN.join(filter(None, (reason, doubts[case]))) for case, reason in found.reasons.items()},
        scans={case: wanted[case] for case in found.reasons},
        broken=found.broken,
        unseen=found.unseen,
    )


def _listed(scans: Path, predictions: Path, channels: int) -> list[Case]:
    return _training_scans(scans) if _is_dataset(scans) else list_scans(scans, predictions, channels)


def _is_dataset(scans: Path) -> bool:
    return (scans / "dataset.json").exists()


def _training_scans(dataset: Path) -> list[Case]:
    return [case for case in read_folder(dataset).cases if case.part == "Tr"]


@dataclass(frozen=True)
class _Found:
    """The cases that are asked for, in order, with reasons; what cannot be read; how many labelled cases are gone."""

    reasons: dict[str, str]
    broken: dict[str, str]
    unseen: int = 0


@dataclass(frozen=True)
class _Pool:
    """The scans to choose from, and those that have a label."""

    trained: Trained
    wanted: Mapping[str, Case]
    labelled: Mapping[str, Case]
    predictions: Path
    predict: bool
    on_progress: OnProgress

    def worst(self, n: int) -> _Found:
        """Those that are expected to be worst, of which all are predicted."""
        looks, broken = self._look(self.wanted, self.predict)
        said = _said_of(self.predictions, looks, self.predictions) if looks else {}
        chosen = choose_next(need([row for rows in said.values() for row in rows]), looks, n)
        doubts = {case: why(rows[0], rows[1:]) for case, rows in said.items()}
        return _Found({case: "" if doubts[case] else "most uncertain by volume" for case in chosen}, broken)

    def usual(self, n: int) -> _Found:
        """Those that most others look like. Only what is asked for is predicted."""
        looks, broken = self._look(self.wanted, predict=False)
        if not looks:
            return _Found({}, broken)
        seen, _ = look_at_all(self.trained, self.labelled, self.predictions, predict=False)
        known = list(seen.values())
        chosen = choose_usual(looks, n, known)
        reasons = dict(zip(chosen, map(in_short, stand_for(looks, chosen, known)), strict=True))
        if self.predict:
            _, lost = self._look({case: self.wanted[case] for case in chosen}, predict=True)
            reasons = {case: reason for case, reason in reasons.items() if case not in lost}
            broken |= lost
        return _Found(reasons, broken, len(self.trained.whole_run.split.labelled) - len(seen))

    def _look(self, cases: Mapping[str, Case], predict: bool) -> tuple[dict[str, Descriptor], dict[str, str]]:
        return look_at_all(self.trained, cases, self.predictions, predict=predict, on_progress=self.on_progress)


def _said_of(predictions: Path, cases: Collection[str], scans: Path) -> dict[str, list[Quality]]:
    """What the folder of predictions says of each of these cases, in its own order.

    Raises:
        InputError: it says nothing of one.
    """
    said = {case: list(rows) for case, rows in groupby(read_qualities(predictions), key=lambda row: row.case)}
    if absent := [case for case in cases if case not in said]:
        raise InputError(
            f"{predictions}: says nothing of {absent[0]}. Predict all of {scans} in one go, into one folder."
        )
    return {case: rows for case, rows in said.items() if case in cases}


def first_scans(scans: Path, n: int, *, on_progress: OnProgress) -> Choice:
    """Choose before there is any run: the scans that most others look like.

    Args:
        scans: a dataset in nnU-Net's layout, whose labelled cases are passed over; or a folder of scans of one channel.
        n: how many to choose.
        on_progress: told how far that is.

    Raises:
        InputError: there is no scan without a label, or none can be read.
    """
    cases = _training_scans(scans) if _is_dataset(scans) else list(scan_cases(scans, 1))
    wanted = {case.name: case for case in cases if case.label is None}
    if not wanted:
        raise InputError(f"{scans}: has no scan without a label. Give a folder of others.")
    looks, broken = looks_of(cases, on_progress)
    seen = [looks.pop(case.name) for case in cases if case.label is not None and case.name in looks]
    if not looks:
        _refuse(scans, broken)
    chosen = choose_usual(looks, n, seen)
    return Choice(
        cases=tuple(Quality(case=case, class_name=ALL) for case in chosen),
        reasons=dict(zip(chosen, map(in_short, stand_for(looks, chosen, seen)), strict=True)),
        scans={case: wanted[case] for case in chosen},
        broken=broken,
    )


def looks_of(
    cases: Sequence[Case], on_progress: OnProgress = lambda what, done, total: None
) -> tuple[dict[str, Descriptor], dict[str, str]]:
    """What scans look like that no run has prepared, and what is wrong with those that cannot be read."""
    looks, broken = dict[str, Descriptor](), dict[str, str]()
    for number, case in enumerate(cases, start=1):
        try:
            looks[case.name] = describe_scan(prepare_case([case.images[0].read()], None, Preparation()).image)
        except InputError as error:
            broken[case.name] = str(error)
        on_progress("looking at scans", number, len(cases))
    return looks, broken


def _refuse(scans: Path, broken: Mapping[str, str]) -> NoReturn:
    name, reason = next(iter(broken.items()))
    raise InputError(f"{scans}: no scan of it can be read. {name}: {reason}")


def labelled_scans(trained: Trained, cases: Mapping[str, Case]) -> dict[str, Case]:
    """The cases that the run has labels of: among these, or where it was trained from; without those that are gone."""
    run = trained.whole_run
    there: dict[str, Case] = {}
    with suppress(InputError):  # labels by persons that are gone
        for name, one in trained_on(run, still=False).items():
            if one.images and all(image.path.exists() for image in one.images):
                there[name] = Case(name=name, images=one.images, label=None, part="Tr", patient=patient_of(name))
    with suppress(InputError):  # moved, or in a layout of its own
        there |= {case.name: case for case in read_folder(Path(run.data.source)).cases}
    return {name: case for name, case in {**there, **cases}.items() if name in set(run.split.labelled)}


def in_short(count: int) -> str:
    """Why a usual scan is asked for."""
    return {0: "no other is most like it", 1: "1 other looks like it"}.get(count, f"{count} others look like it")


def look_at_all(
    trained: Trained,
    cases: Mapping[str, Case],
    predictions: Path,
    *,
    predict: bool,
    on_progress: OnProgress = lambda what, done, total: None,
) -> tuple[dict[str, Descriptor], dict[str, str]]:
    """What each scan looks like, predicted on the way if it is to be; and what is wrong with those that cannot be read."""
    settings: Preparation = decode(Preparation, trained.run.data.preparation, "preparation")
    looks, broken, found = dict[str, Descriptor](), dict[str, str](), dict[str, CaseFacts]()
    make_folder(predictions)
    for number, (name, case) in enumerate(cases.items(), start=1):
        try:
            volumes = [image.read() for image in case.images]
            if predict:
                answer = trained.predict_volumes(volumes, scores=True)
                answer.write(predictions, name, volumes[0].geometry, flat=volumes[0].flat, masks=True)
                assert answer.facts is not None
                found[name] = answer.facts
            looks[name] = describe_scan(prepare_case(volumes, None, settings).image)
        except InputError as error:
            broken[name] = str(error)
        on_progress("looking at scans", number, len(cases))
    if predict and found:
        judge_predictions(trained, found, predictions)
    return looks, broken


def in_words(choice: Choice) -> list[str]:
    """A line each, for a person."""
    lines = [f"  {rank}. {row.case}: {choice.reasons[row.case]}" for rank, row in enumerate(choice.cases, start=1)]
    return lines + [f"  left out: {case}: {reason}" for case, reason in choice.broken.items()]
