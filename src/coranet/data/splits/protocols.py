"""The splits that published numbers are made with, by name: `acdc:7`, `la:16`, `pancreas-a:12`, `endocardium:1:4`.

Each family is a file in `protocols/`: where its lists come from, what their source leaves open and what was chosen there,
and the patients in order. What follows the colon says how many of the training patients are labelled, always the first.
Patients are recognised by the part of their name that `pattern` finds, so that a list fits every form a set comes in:
`PANCREAS_0001`, `image0001_norm` and `0001` are one patient.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from coranet.data.splits.by_patient import Split, assign
from coranet.errors import InputError, some, suggest

_FOLDER = files("coranet.data.splits") / "protocols"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Who is labelled, unlabelled, for validation and for test."""

    name: str
    source: str
    """Where the lists come from."""
    notes: tuple[str, ...]
    """What the source leaves open, and what was chosen."""
    pattern: str
    """Finds a patient's key, such as a number, in the name that a store has for the patient."""
    labelled: tuple[str, ...]
    """Keys of patients, as all of these lists."""
    unlabelled: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]
    withdrawn: tuple[str, ...] = ()
    """Patients whom the set no longer holds: the lists go on without them."""

    def split(self, patients: Mapping[str, str], labelled: Iterable[str]) -> tuple[Split, tuple[str, ...]]:
        """The lists for some data, and what has to be said of them.

        Args:
            patients: the patient of every case.
            labelled: the cases that have a label.
        """
        found = {match[1]: patient for patient in patients.values() if (match := re.search(self.pattern, patient))}
        listed = [*self.labelled, *self.unlabelled, *self.val, *self.test]
        missing = [key for key in listed if key not in found]
        if len(missing) == len(listed):
            raise InputError(
                f"{self.name}: the data has none of its patients, such as {listed[0]}. Is it this dataset?"
            )
        if unexpected := [key for key in missing if key not in self.withdrawn]:
            raise InputError(
                f"{self.name}: the data lacks {len(unexpected)} of its {len(listed)} patients: {some(unexpected)}. "
                "Add them, or make a split of what there is with --ratio."
            )
        known = {found[key] for key in listed if key in found}
        others = sorted(set(patients.values()) - known)
        used = {case: patient for case, patient in patients.items() if patient in known}
        lists = ([found[key] for key in keys if key in found] for keys in (self.labelled, self.val, self.test))
        said = [f"Withdrawn from the set, and so left out: {some(missing)}."] if missing else []
        said += [f"In none of the protocol's lists, and so left out: {some(others)}."] if others else []
        return assign(used, labelled, *lists), tuple(said)


def find_protocol(name: str) -> Protocol:
    """The protocol of that name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    family, _, share = name.partition(":")
    content = _read(family) if family in _families() else {"labelled": {}}
    if share not in content["labelled"]:
        raise InputError(f"{name}: no such protocol. {suggest(name, protocols())}")
    count = content["labelled"][share]
    return Protocol(
        name=name,
        source=content["source"],
        notes=tuple(content["notes"]),
        pattern=content["pattern"],
        labelled=tuple(content["train"][:count]),
        unlabelled=tuple(content["train"][count:]),
        val=tuple(content["val"]),
        test=tuple(content["test"]),
        withdrawn=tuple(content.get("withdrawn", ())),
    )


def protocols() -> tuple[str, ...]:
    """The names of all there are."""
    return tuple(f"{family}:{share}" for family in _families() for share in _read(family)["labelled"])


def _families() -> list[str]:
    return sorted(file.name.removesuffix(".json") for file in _FOLDER.iterdir() if file.name.endswith(".json"))


def _read(family: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((_FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    return content
