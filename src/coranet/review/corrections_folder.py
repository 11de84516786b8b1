"""What a person decides, written down: the label on the scan's own grid, and a note beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.corrections import (
    Status,
    check_scan,
    images_of,
    label_file,
    label_files,
    labels_folder,
    marks_of,
    note_of,
    read_note,
)
from coranet.data.datasets.description import read_dataset_json, read_ignore
from coranet.data.datasets.folder import Case
from coranet.data.problem import FileError
from coranet.data.readers import Source, nifti
from coranet.files import make_folder, write_atomically
from coranet.geometry import Geometry
from coranet.review.pieces import Choice, Map, Region
from coranet.version import __version__


@dataclass(frozen=True, kw_only=True)
class CorrectionsFolder:
    """The folder `--out`."""

    root: Path
    run: Path
    """Whose predictions are corrected."""
    channels: Sequence[str]
    classes: Mapping[int, str]

    def begin(self, cases: Mapping[str, Case]) -> None:
        """Make it a dataset in nnU-Net's layout. One that has these classes already is left as it is.

        Raises:
            InputError: labels are there that number classes otherwise, or that were drawn on other scans of these names.
        """
        make_folder(labels_folder(self.root))
        labels = {name: value for value, name in self.classes.items()}
        described = self.root / "dataset.json"
        there = read_dataset_json(described).get("labels") if described.exists() else None
        files = label_files(self.root)
        for name in files.keys() & cases.keys():
            note = read_note(self.root, name)
            check_scan(files[name], images_of(note, files[name]), marks_of(note), cases[name])
        there = there if isinstance(there, dict) else {}
        if labels.items() <= there.items():
            return
        both = {**there, **labels}
        if files and (there.items() - both.items() or len(set(both.values())) < len(both)):
            said = ", ".join(f"{value} {name}" for name, value in labels.items())
            message = "does not number classes as the run does, and labels lie beside it"
            raise FileError(described, message, f"Number them as the run ({said}), or choose another --out")
        content = {
            "channel_names": {str(number): name for number, name in enumerate(self.channels)},
            "labels": both if files else labels,
            "file_ending": ".nii.gz",
        }
        write_atomically(described, _text(content))

    @property
    def ignore(self) -> int | None:
        """The value of voxels that nobody drew, where the folder names one."""
        described = self.root / "dataset.json"
        return read_ignore(described, read_dataset_json(described)) if described.exists() else None

    def label(self, case: str) -> Path:
        """The file of a case's label: the one that is there, or the one that will be."""
        return label_file(self.root, case) or self._saved(case)

    def _saved(self, case: str) -> Path:
        return labels_folder(self.root) / f"{case}.nii.gz"

    def note(self, case: str) -> dict[str, Any]:
        """What was noted of a case."""
        return read_note(self.root, case)

    def revision(self, case: str) -> str:
        """Changes whenever a case is saved."""
        parts = (file.read_bytes() if file.exists() else b"" for file in (self.label(case), self._note_file(case)))
        return sha256(b"|".join(parts)).hexdigest()[:16]

    def save(self, case: str, label: Map, geometry: Geometry, note: Mapping[str, Any], *, flat: bool = False) -> None:
        """Write a label and then its note: whoever is stopped in between keeps a whole label.

        A label that a person had put there in another format is kept beside it as <file>.before.
        """
        there = label_file(self.root, case)
        if there and there != self._saved(case):
            there.replace(there.with_name(f"{there.name}.before"))
        nifti.write(self._saved(case), label, geometry, flat=flat)
        self.write_note(case, note)

    def write_note(self, case: str, note: Mapping[str, Any]) -> None:
        """Write what was decided, without touching the label."""
        write_atomically(self._note_file(case), _text(note))

    def _note_file(self, case: str) -> Path:
        return labels_folder(self.root) / f"{case}.json"

    def note_on(self, images: Sequence[Source], status: Status, seconds: float) -> dict[str, Any]:
        """What every note says."""
        return {
            "status": status,
            "run": str(self.run.resolve()),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "coranet": __version__,
            "images": [note_of(image) for image in images],
        }


def account(
    region: Region, choices: Mapping[int, Choice], label: Map, prediction: Map, classes: Mapping[int, str]
) -> dict[str, Any]:
    """What was chosen where, and what was drawn: all that differs from what the choices alone would give."""
    drawn = label != region.applied(prediction, choices)
    return {
        "changed": int(np.count_nonzero(label != prediction)),
        "chosen": [_chosen(region, number, choice, classes) for number, choice in sorted(choices.items())],
        "drawn": {
            "voxels": int(np.count_nonzero(drawn)),
            "classes": {
                classes[value]: int(np.count_nonzero(label[drawn] == value)) for value in np.unique(label[drawn])
            },
            "box": _corners(drawn),
        },
    }


def _chosen(region: Region, number: int, choice: Choice, classes: Mapping[int, str]) -> dict[str, Any]:
    piece = region.pieces[number]
    place, kind, thing, edge, sector = piece.key
    return {
        "piece": number,
        "slice": place,
        "class": classes.get(kind, str(kind)),
        "object": thing,
        "edge": ("outer", "inner")[edge],
        "sector": sector,
        "voxels": piece.voxels,
        "answer": choice,
    }


def _corners(mask: NDArray[np.bool_]) -> list[list[int]] | None:
    """The first and the last voxel of the box about a mask."""
    if not mask.any():
        return None
    shown = [np.flatnonzero(mask.any(axis=tuple(other for other in range(3) if other != axis))) for axis in range(3)]
    return [[int(line[0]) for line in shown], [int(line[-1]) for line in shown]]


def _text(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
