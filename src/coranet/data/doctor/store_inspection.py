"""A prepared store seen with the eyes of `coranet doctor`: whether its labels still lie on what they label."""

from __future__ import annotations

from collections.abc import Callable

from coranet.data.alignment import fits, judge
from coranet.data.datasets.folder import Case, Dataset
from coranet.data.doctor.checks import check_alignment
from coranet.data.doctor.inspection import OnCase, Report
from coranet.data.doctor.outliers import outliers
from coranet.data.grid import Grid
from coranet.data.readers import Source, Volume
from coranet.data.store import Store, StoredCase


def inspect_store(
    store: Store, on_progress: Callable[[int, int], None] | None = None, *, on_case: OnCase | None = None
) -> Report:
    """How the labels of a store lie, and the cases whose label lies otherwise; arguments as of `inspect_folder`."""
    cases, found = [], {}
    for done, stored in enumerate(store.cases.values(), start=1):
        case, label = _as_case(store, stored), store.label(stored.name) if stored.labelled else None
        image, geometry = store.image(stored.name), Grid.from_json(stored.grid).geometry
        found[case.name] = fits(image[0], label, store.ignore) if label is not None else {}
        if on_case:
            on_case(case, [Volume(channel, geometry, store.path) for channel in image], label, store.classes)
        if on_progress:
            on_progress(done, len(store.cases))
        cases.append(case)
    verdict = judge((case.patient, found[case.name]) for case in cases)
    dataset = Dataset(
        root=store.path,
        name=str(store.index["name"]),
        channels=tuple(store.index["channels"]),
        classes=store.classes,
        cases=tuple(cases),
        ignore=store.ignore,
    )
    return Report(
        dataset=dataset,
        problems=tuple(check_alignment(dataset, verdict)),
        facts=None,
        outliers=outliers({}, found, verdict),
        alignment=verdict,
    )


def _as_case(store: Store, stored: StoredCase) -> Case:
    here = Source(path=store.path, inside=(("case", stored.name),))
    return Case(
        name=stored.name,
        images=(here,) * store.channels,
        label=here if stored.labelled else None,
        part=stored.part,
        patient=stored.patient,
        ignore=store.ignore,
    )
