"""Label maps that another model made of some scans, on the store's grid and in its classes.

Classes are matched by name, through a `dataset.json` beside the maps; without one their values are the store's. What the
other model knows and the store does not is background. Where it lacks one of the store's classes, what it calls background
may be that class: then it has no word there. Where there are maps of labelled cases too, its words are tried on these first
(`tried_words.py`).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.description import IGNORE, numbered_labels, read_dataset_json
from coranet.data.datasets.names import scans, stem
from coranet.data.grid import Grid, mismatch
from coranet.data.prepare.cases import OTHER_GRID, label_values
from coranet.data.prepare.resampling import forward_turned
from coranet.data.prepare.tried_words import NO_WORD, TriedWords
from coranet.data.problem import FileError
from coranet.data.readers import label_source
from coranet.data.store import Store
from coranet.files import write_atomically

FILE = "teacher.npz"
"""What a run folder keeps of it."""
TRIED, TOLD = "tried/", "told/"
"""The folders within it of words that were tried and of others, so that a case may be called as it likes."""


@dataclass(frozen=True)
class OtherLabels:
    """By unlabelled case, a label map `(X, Y, Z)` on the store's grid."""

    maps: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    tried: bool = False
    """Whether they were tried on labelled cases, and are silent where they cannot be relied on."""
    agreement: Mapping[str, float] = field(default_factory=dict)
    """By class, the Dice of the words that were tried with the labels; known when they are read."""

    @classmethod
    def read(cls, folder: Path, store: Store, cases: Sequence[str], labelled: Sequence[str] = ()) -> OtherLabels:
        """The maps in a folder of any of these unlabelled cases, `<case>.nii.gz` each, tried on those of labelled ones.

        Raises:
            InputError: there is none, one does not lie on its scan's grid, or has a value that means nothing.
        """
        if not folder.is_dir():
            raise FileError(folder, "is not a folder", "Give one with label maps <case>.nii.gz of unlabelled scans")
        files = {stem(file): file for file in scans(folder)}
        known = [name for name in cases if name in files]
        if not known:
            some = f"names as {cases[0]}.nii.gz" if cases else "unlabelled scans first"
            raise FileError(folder, "has no label map of an unlabelled scan", f"Give {some}")
        meaning = _meaning(folder, store)
        maps = {name: _placed(files[name], store, name, meaning) for name in known}
        shown = {name: _placed(files[name], store, name, meaning) for name in labelled if name in files}
        if not shown:
            return cls(maps)
        pairs = [(word, store.label(name)) for name, word in shown.items()]
        words = TriedWords.on(pairs, len(store.classes))
        return cls(
            {name: words.heard(map_) for name, map_ in maps.items()}, tried=True, agreement=_agreement(pairs, store)
        )

    @property
    def relied_on(self) -> float:
        """The share of voxels that have a word."""
        spoken = sum(int((word != NO_WORD).sum()) for word in self.maps.values())
        return spoken / max(sum(word.size for word in self.maps.values()), 1)

    def write(self, run_folder: Path) -> None:
        """Keep them, so that a run can go on without the folder they came from."""
        buffer, place = io.BytesIO(), TRIED if self.tried else TOLD
        maps: dict[str, Any] = {f"{place}{name}": word for name, word in self.maps.items()}
        np.savez_compressed(buffer, **maps)  # of numbers, so that nothing is pickled; NumPy 1.26 cannot be told so
        write_atomically(run_folder / FILE, buffer.getvalue())

    @classmethod
    def kept(cls, run_folder: Path, store: Store) -> OtherLabels:
        """What `write` kept.

        Raises:
            InputError: the file is missing or is not of these scans.
        """
        path = run_folder / FILE
        try:
            with np.load(path, allow_pickle=False) as content:
                maps = {name: content[name] for name in content.files}
        except (OSError, ValueError, BadZipFile, EOFError) as error:
            raise FileError(path, "is missing or cannot be read", "Start the run anew") from error
        tried = all(name.startswith(TRIED) for name in maps)
        maps = {name.removeprefix(TRIED).removeprefix(TOLD): array for name, array in maps.items()}
        for name, array in maps.items():
            if name not in store.cases or array.shape != store.cases[name].shape[1:] or array.dtype != np.uint8:
                raise FileError(path, f"holds labels of {name[:100]} that are not of these scans", "Start the run anew")
        return cls(maps, tried=tried)


def _agreement(pairs: Sequence[tuple[NDArray[np.uint8], NDArray[np.uint8]]], store: Store) -> dict[str, float]:
    """Dice of each class over all voxels of these cases that were drawn, where there is any of it."""
    found = {}
    for value, name in list(store.classes.items())[1:]:
        both = [((word == value) & (truth != store.ignore), truth == value) for word, truth in pairs]
        shared = sum(int((said & true).sum()) for said, true in both)
        if size := sum(int(said.sum()) + int(true.sum()) for said, true in both):
            found[name] = 2 * shared / size
    return found


def _meaning(folder: Path, store: Store) -> NDArray[np.uint8] | None:
    """The store's class for each value of the maps; None where they are the same."""
    path = folder / "dataset.json"
    if not path.exists():
        return None
    named = numbered_labels(path, read_dataset_json(path))
    values = {name.lower(): value for value, name in store.classes.items()}
    there = {name.lower() for _, name in named}
    shared = [name for name in values if values[name] and name in there]
    if not shared:
        ours = ", ".join(name for value, name in store.classes.items() if value)
        raise FileError(path, "names none of the classes that are trained", f"Rename its classes to {ours}")
    rest = 0 if len(shared) == len(store.classes) - 1 else NO_WORD
    meaning = np.full(256, NO_WORD, np.uint8)
    for number, name in named:
        if not 0 <= number <= 255:
            raise FileError(path, f'"labels" gives {name!r} the number {number}', "Number the classes from 0 to 255")
        of = values.get(name.lower(), 0)
        meaning[number] = NO_WORD if name.lower() == IGNORE else of or rest
    meaning[0] = rest
    return meaning


def _placed(file: Path, store: Store, name: str, meaning: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
    volume, grid = label_source(file).read(), Grid.from_json(store.cases[name].grid)
    if difference := mismatch(grid.native, volume.geometry):
        raise FileError(file, f"does not lie on the grid of the scan {name}: {difference}", OTHER_GRID)
    values = label_values(volume)
    if meaning is not None:
        values = meaning[values]
    elif unknown := sorted(set(np.unique(values).tolist()) - set(store.classes)):
        message = f"has values that are no class: {', '.join(map(str, unknown))}"
        raise FileError(file, message, "Say in a dataset.json beside it what they mean")
    return forward_turned(np.ascontiguousarray(grid.turn(values)), grid, NO_WORD)
