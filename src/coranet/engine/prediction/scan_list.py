"""Which scans a prediction is asked for."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from coranet.data.datasets import read_dataset
from coranet.data.datasets.folder import Case, scan_cases
from coranet.data.datasets.names import refuse_twins
from coranet.data.prepare.store_builder import fill_gaps
from coranet.data.store import Store
from coranet.errors import InputError


def list_scans(
    scans: Path,
    out: Path,
    channels: int,
    *,
    only: Collection[str] | None = None,
    dataset: str | None = None,
    gaps: bool = False,
    series: str | None = None,
) -> list[Case]:
    """The cases to predict, in order.

    Args:
        scans: a scan, a folder of them, or a text file that lists some.
        out: where predictions will go, which is another folder.
        channels: that each scan has.
        only: the cases, by name.
        dataset: how the folder is laid out, one of `DATASETS`; a folder of scans where it is not given.
        gaps: fill slices that are missing from a DICOM series.
        series: the DICOM series to take, by its UID or number, where there are several.

    Raises:
        InputError: there are no such scans, they lie where predictions would go, or would get files of one name.
    """
    if dataset and series:
        raise InputError(f"--series {series}: the layout of --dataset {dataset} says which series it takes. Drop one.")
    if Store.is_store(scans):
        raise InputError(f"{scans}: is a prepared store. Give the folder it was made of, with --dataset as then.")
    every = read_dataset(scans, dataset).cases if dataset else scan_cases(scans, channels, series)
    cases = [case for case in (map(fill_gaps, every) if gaps else every) if only is None or case.name in only]
    if absent := sorted({*(only or ())} - {case.name for case in cases}):
        listed = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
        raise InputError(f"{scans}: lacks {len(absent)} of the {len(only or ())} cases asked for: {listed}.")
    refuse_twins([case.name for case in cases])
    folder = scans if scans.is_dir() else scans.parent
    if out.resolve() == folder.resolve():
        raise InputError(f"{out}: holds the scans themselves. Write predictions to another folder.")
    return cases
