"""Whose each case of a setting is: slices and phases of one patient are not independent, and tests must know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coranet.data.datasets.names import patient_of
from coranet.experiments.compare import SETTINGS
from coranet.files import write_atomically

PATIENTS = "patients.json"
"""In a setting's folder: the patient of each test case."""


def write_patients(folder: Path, patients: Mapping[str, str]) -> None:
    """By case."""
    write_atomically(folder / PATIENTS, (json.dumps(dict(patients), indent=1) + "\n").encode())


def read_patients(folder: Path) -> dict[str, str]:
    """The patients of the test cases in a setting's folder: as it says, as its scans say, or as names tell."""
    if (folder / PATIENTS).exists():
        kept: dict[str, str] = json.loads((folder / PATIENTS).read_text(encoding="utf-8"))
        return kept
    file = folder / SETTINGS
    shared = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    about = Path(shared.get("data", folder)) / "dataset.json"
    told = json.loads(about.read_text(encoding="utf-8")).get("patients", {}) if about.exists() else {}
    return {case: told.get(case, patient_of(case)) for case in shared.get("test", ())}
