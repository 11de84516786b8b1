"""Whose each test case is: slices and phases of one patient are no independent witnesses, and tests must know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from coranet.files import write_atomically
from coranet.json_files import read_object

PATIENTS = "patients.json"
"""In the folder of a comparison: the patient of each test case."""


def write_patients(folder: Path, patients: Mapping[str, str]) -> None:
    """By case."""
    write_atomically(folder / PATIENTS, (json.dumps(dict(patients), indent=1) + "\n").encode())


def read_patients(folder: Path) -> dict[str, str]:
    """What was written; nothing where it was not, and names of cases have to tell."""
    file = folder / PATIENTS
    written = read_object(file) if file.exists() else {}
    return {case: str(patient) for case, patient in written.items()}
