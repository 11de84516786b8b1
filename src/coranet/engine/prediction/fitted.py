"""`calibration.json` of a run: how far its uncertainty is to be believed, fitted on cases that were not trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coranet.engine.codec import decode, encode
from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.json_files import read_object
from coranet.metrics.expectation import DiceFit
from coranet.uncertainty.wrongness import Wrongness

FITTED = "calibration.json"
_FORMAT = "coranet-calibration-2"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Two fits, of voxels and of cases."""

    voxels: Wrongness
    """From signs of doubt to the probability that a voxel is wrong."""
    cases: DiceFit | None = None
    """The Dice to expect of a case; None where too few cases were held out."""


@dataclass(frozen=True, kw_only=True)
class Fitted(Fit):
    """Those of a run, and what they were made of."""

    run: str
    """The identity of the run that they belong to."""
    held_out: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The Dice of each class in each case that was held out: by case and class, without those that are nowhere."""
    folds: int = 0
    """How many were trained; 0 where validation cases were enough."""
    steps: int = 0
    """Of each."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    format: str = _FORMAT
    sha256: str = ""
    """Of all else: it finds damage, not malice."""

    def write(self, folder: Path) -> Path:
        """To the run's folder; returns the file."""
        whole = replace(self, sha256=self._checksum())
        write_atomically(folder / FITTED, (json.dumps(encode(whole), indent=1) + "\n").encode())
        return folder / FITTED

    @classmethod
    def of(cls, folder: Path, run: str) -> Fitted | None:
        """What a run's folder has; None where it has none.

        Raises:
            InputError: the file is damaged, makes no sense, or is another run's.
        """
        file = folder / FITTED
        if not file.exists():
            return None
        remedy = f"Remove it, or make it anew with coranet calibrate {folder}."
        content = read_object(file)
        try:
            fitted: Fitted = decode(cls, content, "calibration")
        except InputError as error:
            raise InputError(f"{file}: {error} {remedy}") from error
        if fitted.format != _FORMAT:
            raise InputError(f"{file}: is of another version of coranet ({fitted.format[:40]}). {remedy}")
        if fitted.sha256 != fitted._checksum():
            raise InputError(f"{file}: is damaged: its checksum does not fit. {remedy}")
        if fitted.run != run:
            raise InputError(f"{file}: belongs to another run. {remedy}")
        return fitted

    @property
    def fit(self) -> Fit:
        """The fits alone, which name no case."""
        return Fit(voxels=self.voxels, cases=self.cases)

    def _checksum(self) -> str:
        content = json.dumps(encode(replace(self, sha256="")), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()
