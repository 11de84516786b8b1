"""What the name of a file says: which case, which channel, which patient, and in which order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from coranet.data.listing import entries
from coranet.data.problem import Problem, fatal, warning
from coranet.data.readers import READERS, dicom, ending_of
from coranet.errors import InputError

_CHANNEL = re.compile(r"(?P<case>.+)_(?P<number>\d{4})", re.DOTALL)
_MOMENT = re.compile(r"([_-](E[DS]|(frame|slice|visit|t)_?\d+))+\Z", re.IGNORECASE)


def scans(folder: Path) -> tuple[Path, ...]:
    """The scans of a folder, `case2` before `case10`.

    They are of one format, the first of `READERS` that is there: pictures beside NIfTI files are no scans. A DICOM scan is a
    folder in this one.
    """
    there = entries(folder) if folder.is_dir() else []
    for name, reader in READERS.items():
        if name == "dicom":
            found = [entry for entry in there if dicom.holds_dicom(entry)]
        else:
            found = [entry for entry in there if entry.name.lower().endswith(reader.endings)]
        if found:
            return tuple(sorted(found, key=lambda entry: natural(entry.name)))
    return ()


def strangers(folder: Path) -> list[str]:
    """The names of what else lies in a folder of scans."""
    if not folder.is_dir():
        return []
    return sorted({file.name for file in entries(folder)} - {file.name for file in scans(folder)})


def stem(file: Path) -> str:
    """A scan's name without its ending, such as `.nii.gz`."""
    name = file.name or file.resolve().name  # a folder may be given as `.`
    return name[: len(name) - len(ending_of(file))] or name


MAPS = ("uncertain", "score", "probabilities", "conservative", "radical")
"""What `coranet predict` writes beside a label map, each as `<case>_<map>.nii.gz`."""


def map_of(name: str, cases: Collection[str]) -> str | None:
    """The case of whose map a name is, among these; None where it is of none."""
    case, _, ending = name.rpartition("_")
    return case if ending in MAPS and case in cases else None


def refuse_twins(cases: Collection[str]) -> None:
    """Refuse cases of which one has the name of another's map: one would be written over the other."""
    for name in cases:
        if case := map_of(name, cases):
            raise InputError(f"The scans {case} and {name}: a map of the first has the name of the second. Rename one.")


def patient_of(case: str) -> str:
    """The patient that a case's name tells: the name less its phase, frame, slice, visit or time."""
    return _MOMENT.sub("", case) or case


def case_and_channel(name: str, channels: int, whole: Collection[str]) -> tuple[str, int]:
    """What a file's stem says: `a_0001` is channel 1 of `a`.

    Where there is no channel 1, it is a case of that name; and `a_0000` is, where a case is known to be called so.
    """
    match = _CHANNEL.fullmatch(name)
    if match is None or int(match["number"]) >= channels or (channels == 1 and name in whole):
        return name, 0
    return match["case"], int(match["number"])


def group_channels(
    files: Iterable[Path], channels: int, whole: Collection[str] = ()
) -> tuple[dict[str, tuple[Path, ...]], list[Problem]]:
    """The files of each complete case by channel, and what is wrong with the others."""
    groups: dict[str, dict[int, Path]] = {}
    problems = []
    for file in files:
        case, channel = case_and_channel(stem(file), channels, whole)
        if (other := groups.setdefault(case, {}).setdefault(channel, file)) != file:
            problems.append(fatal(file, f"is a second file of case {case} beside {other.name}", "Keep one of the two"))
    complete = {}
    for case, found in sorted(groups.items(), key=lambda item: natural(item[0])):
        if problem := _incomplete(case, found, channels) or _stray_channel(case, found, groups, channels, whole):
            problems.append(problem)
        else:
            complete[case] = tuple(found[channel] for channel in range(channels))
    return complete, problems


def _incomplete(case: str, found: dict[int, Path], channels: int) -> Problem | None:
    missing = [f"{case}_{channel:04d}.nii.gz" for channel in range(channels) if channel not in found]
    if not missing:
        return None
    first = next(iter(found.values()))
    return fatal(first, f"lacks other channels of its case: {', '.join(missing)}", "Add them, or move the case away")


def _stray_channel(
    case: str, found: dict[int, Path], cases: Collection[str], channels: int, whole: Collection[str]
) -> Problem | None:
    """A file numbered past the last channel of a case, rather than a case that happens to be called so."""
    match = _CHANNEL.fullmatch(case)
    if match is None or match["case"] not in cases or case in whole:
        return None
    message = f"looks like channel {int(match['number'])} of {match['case']}, but the number of channels is {channels}"
    return fatal(found[0], message, "Name the channel in dataset.json, or rename the case, or move it away")


def nearly_same(files: Mapping[str, Path]) -> list[Problem]:
    """What is said of cases, here with a file of each, whose names some systems cannot tell apart, such as a1 and A1."""
    first: dict[str, str] = {}
    return [
        warning(
            files[name], f"differs from case {other} in capitals or accents alone", "Rename one: some disks mix them up"
        )
        for name in files
        if (other := first.setdefault(unicodedata.normalize("NFC", name).casefold(), name)) != name
    ]


def natural(name: str) -> tuple[list[str | int], str]:
    """A key by which `case2` comes before `case10`."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name
