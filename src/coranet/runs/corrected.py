"""The labels by persons that a run trains on: those of its folder of corrections, and of the run that it goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Any

from coranet.data.datasets.corrections import Correction, read_corrections
from coranet.data.problem import FileError
from coranet.engine.run import Run

MARK = "corrected"
"""In `made_with`: by case the file of its label and the SHA-256 of that."""


def asked_corrections(labels: Path | None, before: Run | None) -> dict[str, Correction]:
    """Those of a folder, and those that the run before was trained on and the folder says nothing of.

    Raises:
        InputError: the folder has none, or a label of the run before is gone.
    """
    if labels is None:
        return {}
    earlier = trained_on(before, still=False) if before else {}
    elsewhere = {case: one for case, one in earlier.items() if one.label.parents[1].resolve() != labels.resolve()}
    return {**elsewhere, **read_corrections(labels)}


def trained_on(run: Run, *, still: bool = True) -> dict[str, Correction]:
    """Those that a run was trained on, whatever was corrected since.

    Args:
        run: that run.
        still: refuse those that were changed since.

    Raises:
        InputError: one is gone, or was changed.
    """
    marks: Mapping[str, Mapping[str, str]] | None = run.made_with.get(MARK)
    if marks is None:  # a run of an earlier version says the folder alone
        folder = run.made_with.get("labels")
        return read_corrections(Path(folder)) if folder else {}
    found = dict[str, Correction]()
    for folder in dict.fromkeys(Path(mark["file"]).parents[1] for mark in marks.values()):
        found |= read_corrections(folder)
    for case, mark in marks.items():
        remedy = "Put it back as it was, or train anew on the labels of today"
        if case not in found:
            raise FileError(mark["file"], "is gone, or was set aside, and a run was trained on it", remedy)
        if still and _checksum(found[case].label) != mark["sha256"]:
            raise FileError(found[case].label, "was changed since the run was trained on it", remedy)
    return {case: found[case] for case in marks}


def marks_of(corrections: Mapping[str, Correction]) -> dict[str, Any]:
    """What a run remembers of them."""
    files = {case: one.label for case, one in corrections.items()}
    marks = {case: {"file": str(file.resolve()), "sha256": _checksum(file)} for case, file in files.items()}
    return {MARK: marks} if marks else {}


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()
