"""From a raw folder to a prepared store, kept in a cache so that the second run starts at once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from coranet.data.datasets.folder import Case, Dataset
from coranet.data.prepare import Preparation, prepare_case
from coranet.data.readers.nifti import read
from coranet.data.store import FORMAT, Store, StoreWriter
from coranet.errors import InputError


def default_cache() -> Path:
    """The user's cache folder: raw folders are often read-only."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coranet"


def cached_store(
    dataset: Dataset,
    cases: Sequence[Case],
    settings: Preparation,
    cache: Path,
    on_progress: Callable[[int, int], None] | None = None,
) -> Store:
    """The store of these cases, from the cache where files and settings are as they were."""
    path = cache / f"{dataset.root.resolve().name}-{_key(dataset, cases, settings)}"
    if not Store.is_store(path):
        build_store(dataset, cases, settings, path, on_progress)
    return Store.open(path)


def build_store(
    dataset: Dataset,
    cases: Sequence[Case],
    settings: Preparation,
    path: Path,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Read, prepare and write cases one after the other."""
    header = {
        "name": dataset.name,
        "channels": list(dataset.channels),
        "classes": {str(value): name for value, name in dataset.classes.items()},
        "preparation": asdict(settings),
    }
    try:
        with StoreWriter(path, header) as writer:
            for number, case in enumerate(cases, start=1):
                label = read(case.label) if case.label else None
                prepared = prepare_case([read(file) for file in case.images], label, settings)
                writer.add(case.name, case.patient, prepared.image, prepared.label, prepared.grid.to_json(), case.part)
                if on_progress:
                    on_progress(number, len(cases))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}). Make room, or choose another folder with --cache."
        ) from error


def _key(dataset: Dataset, cases: Sequence[Case], settings: Preparation) -> str:
    files = [file for case in cases for file in (*case.images, *([case.label] if case.label else []))]
    seen = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    described = [str(dataset.root.resolve()), dataset.name, dataset.channels, sorted(dataset.classes.items())]
    content = [FORMAT, described, asdict(settings), seen, [(case.name, case.patient) for case in cases]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
