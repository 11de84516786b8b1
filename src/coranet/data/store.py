"""Prepared scans in one folder of a few large files, read through memory maps.

    index.json    what there is: classes, channels, preparation, and for each case its shape and where it lies
    images.bin    float32, case after case, each `(C, X, Y, Z)`
    labels.bin    uint8, the labelled cases, each `(X, Y, Z)`

Of a case that is trained on slice by slice, the axis of its `planes` comes before the other two of space, so that what is
read together lies together: stacked along Z, it is `(C, Z, X, Y)` and `(Z, X, Y)`.

A store is written beside its place and moved there whole, so that one that exists is complete and never changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from coranet.data.grid import Grid
from coranet.errors import InputError
from coranet.files import part_of
from coranet.json_files import JsonError, read_object

FORMAT = "coranet-store-3"


def as_stored(array: NDArray[Any], planes: int | None) -> NDArray[Any]:
    """A view of `(..., X, Y, Z)` as it lies in a file: the axis of its planes before the other two."""
    return array if planes is None else np.moveaxis(array, planes - 3, -3)


def as_seen(array: NDArray[Any], planes: int | None) -> NDArray[Any]:
    """The inverse of `as_stored`."""
    return array if planes is None else np.moveaxis(array, -3, planes - 3)


@dataclass(frozen=True, kw_only=True)
class StoredCase:
    """One case: its shape `(C, X, Y, Z)` and where its voxels begin."""

    name: str
    patient: str
    shape: tuple[int, int, int, int]
    image_at: int
    label_at: int | None
    part: Literal["Tr", "Ts"]
    """Whether it is a training case, or a test case that a split trains or validates on."""
    grid: Mapping[str, Any]
    """How the input's grid became the store's; read by `data.prepare`."""
    planes: int | None
    """The axis of space whose planes lie one after the other; None where all lie as `shape` says."""

    @property
    def labelled(self) -> bool:
        """Whether the store holds its label."""
        return self.label_at is not None

    @property
    def stored_shape(self) -> tuple[int, int, int, int]:
        """Of its image in the file."""
        channels, *space = self.shape
        first = space.pop(self.planes or 0)
        return channels, first, space[0], space[1]


@dataclass(frozen=True)
class Store:
    """A folder of prepared cases."""

    path: Path
    index: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> Store:
        """Read a store's index, and check that its files are whole."""
        try:
            index = read_object(path / "index.json", "Prepare the scans again")
        except JsonError as error:
            message = f"{path}: not a prepared store (index.json {error.message}). Give the raw folder instead."
            raise InputError(message) from error
        if index.get("format") != FORMAT:
            raise InputError(f"{path}: a store of another format ({index.get('format')}). Prepare it again.")
        store = cls(path, index)
        store._check()
        for name, dtype in (("images.bin", np.float32), ("labels.bin", np.uint8)):
            expected = index["voxels"][name] * np.dtype(dtype).itemsize
            file = path / name
            if not file.is_file() or file.stat().st_size != expected:
                raise InputError(f"{file}: missing or cut short. Delete {path} and prepare it again.")
        return store

    def _check(self) -> None:
        """That the index says what it must, and of each case nothing that the files cannot hold."""
        try:
            names = [case.name for case in self.cases.values() if not self._holds(case)]
            sound = self.classes[0] is not None and self.channels > 0 and isinstance(self.preparation, Mapping)
            sound &= self.ignore is None or (type(self.ignore) is int and max(self.classes) < self.ignore <= 255)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            names, sound = [f"{type(error).__name__} {error}"[:100]], False
        if names or not sound:
            about = f" ({names[0]})" if names else ""
            raise InputError(
                f"{self.path / 'index.json'}: is not the index of a whole store{about}. Prepare the scans again."
            )

    def _holds(self, case: StoredCase) -> bool:
        """Whether a case lies within the files, and all that is said of it makes sense."""
        voxels = self.index["voxels"]
        numbers = (*case.shape, case.image_at, *(() if case.label_at is None else (case.label_at,)))
        return (
            all(type(number) is int and 0 <= number < 2**48 for number in numbers)
            and min(case.shape) > 0
            and case.shape[0] == self.channels
            and len(case.shape) == 4
            and ("native" not in case.grid or _fits(Grid.from_json(case.grid), case.shape[1:]))
            and case.image_at + prod(case.shape) <= voxels["images.bin"]
            and (case.label_at or 0) + (prod(case.shape[1:]) if case.labelled else 0) <= voxels["labels.bin"]
            and case.planes in (None, 0, 1, 2)
            and case.part in ("Tr", "Ts")
            and isinstance(case.name, str)
            and isinstance(case.patient, str)
        )

    @staticmethod
    def is_store(path: Path) -> bool:
        """Whether a folder looks like one."""
        return (path / "index.json").is_file() and (path / "images.bin").exists()

    @cached_property
    def cases(self) -> dict[str, StoredCase]:
        """By name, in the order they were written."""
        return {entry["name"]: StoredCase(**{**entry, "shape": tuple(entry["shape"])}) for entry in self.index["cases"]}

    @property
    def classes(self) -> dict[int, str]:
        """Names by value, background first."""
        return {int(value): name for value, name in self.index["classes"].items()}

    @property
    def ignore(self) -> int | None:
        """The value of label voxels that nobody drew, where there is one."""
        value: int | None = self.index.get("ignore")
        return value

    @cached_property
    def partial(self) -> frozenset[str]:
        """Labelled cases of which some voxel was not drawn."""
        if self.ignore is None:
            return frozenset()
        return frozenset(name for name, case in self.cases.items() if case.labelled and self.ignore in self.label(name))

    @property
    def channels(self) -> int:
        """Of every image."""
        return len(self.index["channels"])

    @property
    def preparation(self) -> Mapping[str, Any]:
        """The settings it was made with."""
        settings: Mapping[str, Any] = self.index["preparation"]
        return settings

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any voxel, label or setting does, as the index holds each case's own hash, and not with a name."""
        content = {key: value for key, value in self.index.items() if key != "name"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def image(self, name: str) -> NDArray[np.float32]:
        """`(C, X, Y, Z)`, mapped and not to be written to."""
        case = self.cases[name]
        mapped = np.memmap(self.path / "images.bin", np.float32, "r", 4 * case.image_at, case.stored_shape)
        return as_seen(mapped, case.planes)

    def label(self, name: str) -> NDArray[np.uint8]:
        """`(X, Y, Z)`, mapped and not to be written to."""
        case = self.cases[name]
        assert case.label_at is not None, f"{name} has no label"
        mapped = np.memmap(self.path / "labels.bin", np.uint8, "r", case.label_at, case.stored_shape[1:])
        return as_seen(mapped, case.planes)


def _fits(grid: Grid, shape: tuple[int, ...]) -> bool:
    """Whether a grid is of that shape, with steps that can be measured."""
    return (
        grid.shape == shape
        and sorted(grid.axes) == [0, 1, 2]
        and len(grid.native.shape) == 3
        and all(type(size) is int and size > 0 for size in grid.native.shape)
        and all(isinstance(number, int | float) for number in (*grid.scale, *grid.offset))
        and all(0 < step < inf for step in (*grid.spacing, *grid.native.spacing))
    )


class StoreWriter:
    """Writes a store case by case; leaving the `with` block without an error moves it into place."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.index: dict[str, Any] = {"format": FORMAT, **header, "cases": [], "hashes": {}}
        self.voxels = {"images.bin": 0, "labels.bin": 0}

    def __enter__(self) -> Self:
        self.folder = self.choose_folder()
        self.inner = self.folder / "store"
        self.inner.mkdir(parents=True, exist_ok=True)
        self.files: dict[str, BinaryIO] = {name: (self.inner / name).open("ab") for name in self.voxels}
        return self

    def choose_folder(self) -> Path:
        """Beside the store's place and hidden, for this writer alone."""
        return part_of(self.path.with_name(f"{uuid4().hex}-{self.path.name}"))

    def add(
        self,
        name: str,
        patient: str,
        image: NDArray[np.float32],
        label: NDArray[np.uint8] | None,
        grid: Mapping[str, Any],
        part: Literal["Tr", "Ts"] = "Tr",
        planes: int | None = None,
    ) -> None:
        """Append a case, `(C, X, Y, Z)` and `(X, Y, Z)`; `planes` as of `Grid.planes`."""
        entry = {
            "name": name,
            "patient": patient,
            "part": part,
            "shape": list(image.shape),
            "grid": grid,
            "planes": planes,
        }
        digest = hashlib.sha256()
        for file, array in (("images.bin", image), ("labels.bin", label)):
            if array is not None:
                data = np.ascontiguousarray(as_stored(array, planes)).data
                digest.update(data)
                self.files[file].write(data)
        self.enter(entry, digest.hexdigest()[:16], labelled=label is not None)

    def enter(self, entry: Mapping[str, Any], digest: str, *, labelled: bool) -> None:
        """Put a case whose voxels are written into the index, behind the others."""
        count = int(np.prod(entry["shape"]))
        starts = {"image_at": self.voxels["images.bin"], "label_at": self.voxels["labels.bin"] if labelled else None}
        self.voxels["images.bin"] += count
        self.voxels["labels.bin"] += count // entry["shape"][0] if labelled else 0
        self.index["cases"].append({**entry, **starts})
        self.index["hashes"][entry["name"]] = digest

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with ExitStack() as closing:  # on a full disk even closing a file fails
                for file in self.files.values():
                    closing.enter_context(file)
            if kind is None:
                self.index["voxels"] = self.voxels
                (self.inner / "index.json").write_text(json.dumps(self.index))
                self._move_into_place()
        finally:
            self.clear_away(failed=kind is not None)

    def clear_away(self, *, failed: bool) -> None:
        """Remove what was written on the way."""
        del failed
        shutil.rmtree(self.folder, ignore_errors=True)

    def _move_into_place(self) -> None:
        try:
            self.inner.replace(self.path)
        except OSError:
            if not Store.is_store(self.path):  # else another process made the same one meanwhile
                raise
