"""What the page needs of a case, made once and kept: the scan, what is in question, its pieces, a small picture."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.folder import Case
from coranet.data.grid import mismatch, through_plane_axis
from coranet.data.problem import FileError
from coranet.data.readers import Volume, label_source, nifti
from coranet.evaluation.classes import class_map
from coranet.files import make_folder, part_of, write_atomically
from coranet.geometry import Geometry
from coranet.json_files import read_object
from coranet.review.miniature import miniature
from coranet.review.pieces import Answers, Map, Region, RegionPiece, complete, cut

LAYOUT = 2
"""Changes with what is kept of a case, so that nothing of an earlier version is taken for it."""
FACTS = "facts.json"
"""Written last: where it is, all else is whole."""


@dataclass(frozen=True, kw_only=True)
class CaseOverview:
    """What is known of a prepared case."""

    stamp: str
    """Of the files that it was made of."""
    geometry: Geometry
    flat: bool
    axis: int
    """Across the slices."""
    window: tuple[float, float]
    """Grey levels from black to white."""
    share: float
    """Uncertain volume over predicted volume."""
    millilitres: Mapping[str, float]
    channels: int
    pieces: tuple[RegionPiece, ...]


@dataclass(frozen=True, kw_only=True)
class PreparedCase:
    """A case's files, and what is made of them."""

    case: Case
    predictions: Path
    cache: Path
    """A folder of this case alone."""
    classes: Mapping[int, str]

    @property
    def is_predicted(self) -> bool:
        """Whether there is a prediction, which is written after its maps."""
        return self._map().exists()

    def facts(self) -> CaseOverview | None:
        """What is known, if the files are still those it was made of."""
        if not (self.cache / FACTS).exists():
            return None
        content = read_object(self.cache / FACTS, "Remove the folder it lies in")
        if content.get("stamp") != self.stamp():
            return None
        shape, affine = content["geometry"]["shape"], content["geometry"]["affine"]
        content["geometry"] = Geometry(shape=tuple(shape), affine=tuple(map(tuple, affine)))
        content["window"] = tuple(content["window"])
        content["pieces"] = tuple(
            RegionPiece(**{**piece, "key": tuple(piece["key"]), "middle": tuple(piece["middle"])})
            for piece in content["pieces"]
        )
        return CaseOverview(**content)

    def stamp(self) -> str:
        """Changes with the files that a case is made of."""
        files = [file for image in self.case.images for file in image.files()]
        files += [file for name in ("", "uncertain", "conservative", "radical") if (file := self._map(name)).exists()]
        return f"{LAYOUT} " + " ".join(
            f"{file.name}:{(stat := file.stat()).st_size}:{stat.st_mtime_ns}" for file in files
        )

    def make(self) -> CaseOverview:
        """Read, cut and draw.

        Raises:
            InputError: a file is damaged, or lies on another grid than the scan.
        """
        stamp = self.stamp()
        volumes = [image.read() for image in self.case.images]
        first, answers = volumes[0], self.answers(volumes[0])
        geometry = first.geometry
        axis = through_plane_axis(geometry.shape, geometry.spacing)
        region = cut(answers, geometry.spacing, axis)
        window = _window(first.array)
        whole = part_of(self.cache)
        shutil.rmtree(whole, ignore_errors=True)
        make_folder(whole)
        for number, volume in enumerate(volumes):
            nifti.write(whole / f"image{number}.nii.gz", np.nan_to_num(volume.array), geometry)
        (whole / "prediction.bin.gz").write_bytes(gzip.compress(voxels_of(answers.prediction), compresslevel=3))
        (whole / "region.bin").write_bytes(_packed(region))
        (whole / "thumbnail.jpg").write_bytes(miniature(first, answers, axis, window))
        voxels = np.bincount(answers.prediction.ravel(), minlength=max(self.classes) + 1)
        volume_of = prod(geometry.spacing) / 1000
        facts = CaseOverview(
            stamp=stamp,
            geometry=geometry,
            flat=first.flat,
            axis=axis,
            window=window,
            share=float(np.count_nonzero(answers.uncertain) / max(1, int(voxels[1:].sum()))),
            millilitres={name: float(voxels[value] * volume_of) for value, name in self.classes.items() if value},
            channels=len(volumes),
            pieces=region.pieces,
        )
        write_atomically(whole / FACTS, json.dumps(asdict(facts)).encode())
        shutil.rmtree(self.cache, ignore_errors=True)
        whole.replace(self.cache)
        return facts

    def answers(self, scan: Volume | None = None) -> Answers:
        """What may be chosen from.

        Raises:
            InputError: a map is damaged, or lies on another grid than the scan.
        """
        prediction = label_source(self._map()).read()
        scan = scan or prediction

        def read(name: str) -> Map | None:
            file = self._map(name)
            if name and not file.exists():
                return None
            volume = label_source(file).read() if name else prediction
            if difference := mismatch(volume.geometry, scan.geometry):
                message = f"does not lie on the grid of its scan: {difference}"
                raise FileError(file, message, "Predict the scan again")
            return class_map(volume, {1: "uncertain"} if name == "uncertain" else self.classes)

        label, uncertain = read(""), read("uncertain")
        assert label is not None
        unsure = np.zeros_like(label) if uncertain is None else uncertain
        return complete(label, unsure, read("conservative"), read("radical"), scan.geometry.spacing)

    def region(self, facts: CaseOverview) -> Region:
        """The pieces with their voxels, as they were kept."""
        content = (self.cache / "region.bin").read_bytes()
        count = len(content) // 7
        maps = np.frombuffer(content, np.uint8, offset=4 * count).reshape(3, count)
        return Region(
            shape=facts.geometry.shape,
            index=np.frombuffer(content, "<u4", count).astype(np.uint32),
            prediction=maps[0],
            conservative=maps[1],
            radical=maps[2],
            pieces=facts.pieces,
        )

    def prediction(self) -> Map:
        """The map of classes that was predicted."""
        return class_map(label_source(self._map()).read(), self.classes)

    def _map(self, name: str = "") -> Path:
        return self.predictions / f"{self.case.name}{name and f'_{name}'}.nii.gz"


def voxels_of(label: Map) -> bytes:
    """A byte a voxel, the first axis running fastest as in a NIfTI file."""
    return label.astype(np.uint8).tobytes(order="F")


def _packed(region: Region) -> bytes:
    """Places as four bytes each, then the three answers as one byte each."""
    maps = (region.prediction, region.conservative, region.radical)
    return region.index.astype("<u4").tobytes() + b"".join(one.astype(np.uint8).tobytes() for one in maps)


def _window(array: NDArray[Any]) -> tuple[float, float]:
    """From black to white, but for the darkest and brightest two in a hundred of what is not the most common level."""
    flat = np.ravel(array, order="K")
    some = flat[:: 1 + len(flat) // 200_000].astype(np.float64)
    some = some[np.isfinite(some)]
    low, high = np.quantile(some, (0.01, 0.995)) if len(some) else (0.0, 1.0)
    return float(low), float(high if high > low else low + 1)
