"""From a folder of scans to the store a run trains on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from coranet.data.budget import allowing
from coranet.data.datasets.corrections import Correction, with_corrections
from coranet.data.datasets.names import patient_of
from coranet.data.doctor.intake import Intake, take_in
from coranet.data.prepare.extents import Extents
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.store_builder import cache_place, default_cache
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.errors import InputError

Say = Callable[[str], None]
OnProgress = Callable[[str, int, int], None]


def open_store(
    data: Path,
    prepare: Callable[[Extents, Sequence[str]], Preparation],
    split: Split | None,
    cache: Path | None,
    *,
    corrections: Mapping[str, Correction] | None = None,
    max_gb: float | None = None,
    say: Say = lambda message: None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> tuple[Store, dict[str, str]]:
    """A store as it is, or a raw folder checked and prepared into the cache; and the patient of every case there is.

    Cases of imagesTs are prepared only where a split trains or validates on them, with their label only where it says so.
    Corrected cases are trained on, wherever they lie.
    """
    if Store.is_store(data):
        if corrections:
            raise InputError(f"{data}: is a prepared store, whose labels are fixed. With --labels give its raw folder.")
        store = Store.open(data)
        unseen = {case: patient_of(case) for case in split.test} if split else {}
        return store, unseen | {name: case.patient for name, case in store.cases.items()}
    wanted = set(split.stored) if split else set()
    known = {*split.labelled, *split.val} if split else set()
    intake = Intake(
        root=data,
        choose=lambda dataset: [
            case if case.part == "Tr" or case.name in known else replace(case, label=None)
            for case in dataset.cases
            if case.part == "Tr" or case.name in wanted
        ],
        amend=lambda dataset: with_corrections(dataset, corrections or {}),
        prepare=prepare,
        place=partial(cache_place, cache=cache or default_cache()),
        purpose="trained on",
        keep=False,
        say=say,
        on_progress=on_progress,
    )
    with allowing(max_gb):
        path, dataset, _ = take_in(intake)
    return Store.open(path), {case.name: case.patient for case in dataset.cases}
