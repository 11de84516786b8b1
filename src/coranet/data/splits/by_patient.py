"""Which cases are labelled, unlabelled, for validation and for test: by patient, seeded, written down."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from coranet.errors import InputError
from coranet.files import write_atomically
from coranet.json_files import read_json


@dataclass(frozen=True, kw_only=True)
class Split:
    """Four lists of case names that share no case; training shares no patient with validation or test."""

    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...] = ()
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        """The cases training looks at; the test cases are not among them."""
        return (*self.labelled, *self.unlabelled, *self.val)

    def check(self, patients: Mapping[str, str], labelled: Iterable[str]) -> None:
        """Refuse unknown cases, cases used twice, patients on both sides, and labels that do not exist.

        Args:
            patients: the patient of every case there is.
            labelled: the cases that have a label.
        """
        parts: dict[str, tuple[str, ...]] = asdict(self)
        seen: dict[str, str] = {}
        for part, cases in parts.items():
            for case in cases:
                if case not in patients:
                    raise InputError(
                        f"The split's {part!r} names {case!r}, which is not in the data. Correct the name, or the split."
                    )
                if case in seen:
                    raise InputError(f"The split names {case!r} twice, in {seen[case]!r} and in {part!r}.")
                seen[case] = part
        having = set(labelled)
        for part in ("labelled", "val"):
            missing = [case for case in parts[part] if case not in having]
            if missing:
                raise InputError(f"The split's {part!r} needs labels, and these have none: {', '.join(missing)}.")
        if not self.labelled:
            raise InputError("The split has no labelled case. At least one label is needed to train.")
        sides = {"training": (*self.labelled, *self.unlabelled), "val": self.val, "test": self.test}
        owner: dict[str, str] = {}
        for side, cases in sides.items():
            for patient in {patients[case] for case in cases}:
                if owner.setdefault(patient, side) != side:
                    raise InputError(
                        f"Patient {patient!r} is in both {owner[patient]} and {side}: scores would be too good."
                    )

    def with_labels(self, cases: Iterable[str], patients: Mapping[str, str]) -> Split:
        """The split with further cases among the labelled ones.

        Those of patients who are watched stay where they are. Patients who were kept for test and are trained on now are no
        longer tested on.
        """
        watched = {patients[case] for case in self.val if case in patients}
        taken = [case for case in cases if patients[case] not in watched]
        labelled, trained = tuple(dict.fromkeys((*self.labelled, *taken))), {patients[case] for case in taken}
        return Split(
            labelled=labelled,
            unlabelled=tuple(case for case in self.unlabelled if case not in set(labelled)),
            val=self.val,
            test=tuple(case for case in self.test if patients.get(case) not in trained),
        )

    def write(self, path: Path, *, source: str = "", notes: Iterable[str] = ()) -> None:
        """As JSON, and in words where the lists come from."""
        words = ({"source": source} if source else {}) | ({"notes": told} if (told := list(notes)) else {})
        write_atomically(path, (json.dumps(words | asdict(self), indent=1, ensure_ascii=False) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Split:
        """From JSON: the lists `labelled`, `unlabelled`, `val`, `test`, of which only the first is required."""
        content = read_json(path, "Give the JSON file of a split")
        if isinstance(content, dict):
            content = {name: value for name, value in content.items() if name not in ("source", "notes")}
        known = [f.name for f in fields(cls)]
        lists = isinstance(content, dict) and all(
            isinstance(names, list) and all(isinstance(name, str) for name in names) for names in content.values()
        )
        if not lists or not set(content) <= set(known) or "labelled" not in content:
            raise InputError(f"{path}: a split is a JSON object of case lists named {', '.join(known)}.")
        return cls(**{part: tuple(names) for part, names in content.items()})


def split_by_labels(
    patients: Mapping[str, str],
    labelled: Iterable[str],
    *,
    use: int | None = None,
    val: int | None = None,
    seed: int = 0,
) -> Split:
    """Train on every case there is: those with a label, and the others as unlabelled.

    Args:
        patients: the patient of every training case, in order.
        labelled: the cases that have a label.
        use: take only the first so many labels, and treat the others as absent.
        val: labelled cases to watch during training, drawn with the seed, whole patients at a time. By default one in
            ten of them, and none below eight: with so few labels each is worth more in training. One patient at
            least is left to train on.
        seed: of the draw.
    """
    having = set(labelled)
    known = [case for case in patients if case in having]
    if use is not None and not 1 <= use <= len(known):
        raise InputError(f"--labelled {use}: between 1 and {len(known)} cases have a label.")
    known = known[:use]
    wanted = (len(known) // 10 or int(len(known) >= 8)) if val is None else val
    watched = _draw(known, patients, wanted, seed)
    if val is not None and len(watched) < val:
        people = len({patients[case] for case in known})
        raise InputError(
            f"--val {val}: only {len(known)} cases of {people} patients are labelled. "
            "Patients stay whole, and training needs at least one: watch fewer, or none with --val 0."
        )
    apart = {patients[case] for case in watched}
    return Split(
        labelled=tuple(case for case in known if patients[case] not in apart),
        unlabelled=tuple(case for case in patients if case not in known and patients[case] not in apart),
        val=tuple(watched),
    )


def split_by_ratio(
    patients: Mapping[str, str],
    labelled: Iterable[str],
    ratio: tuple[int, int],
    *,
    val: int = 0,
    test: int = 0,
    kept_for_test: Iterable[str] = (),
    seed: int = 0,
) -> Split:
    """Draw patients for test and validation, and part the others into labelled and unlabelled ones.

    Args:
        patients: the patient of every case, in order.
        labelled: the cases that have a label.
        ratio: labelled to unlabelled patients, such as (1, 4).
        val: patients to watch during training.
        test: patients never trained on.
        kept_for_test: cases that the dataset itself keeps for test; they are, with all of their patients.
        seed: of the draw.
    """
    having = set(labelled)
    apart = {patients[case] for case in kept_for_test}
    everyone = sorted(set(patients.values()) - apart)
    known = [patient for patient in everyone if any(case in having for case in cases_of(patients, [patient]))]
    random.Random(seed).shuffle(known)
    tested, watched, rest = known[:test], known[test : test + val], known[test + val :]
    training = len(everyone) - test - val
    use = max(1, round(training * ratio[0] / sum(ratio)))
    if use > len(rest):
        raise InputError(
            f"--ratio {ratio[0]}:{ratio[1]} with {val} patients for validation and {test} for test needs labels of "
            f"{use + val + test} patients, and {len(known)} have some. Ask for fewer, or label more."
        )
    if ratio[1] and use >= training:
        raise InputError(
            f"--ratio {ratio[0]}:{ratio[1]}: with {training} patients to train on none would be left unlabelled. "
            "Ask for more unlabelled ones, or for fewer in validation and test."
        )
    return assign(patients, having, rest[:use], watched, [*sorted(apart), *tested])


def assign(
    patients: Mapping[str, str],
    labelled: Iterable[str],
    use: Iterable[str],
    val: Iterable[str] = (),
    test: Iterable[str] = (),
) -> Split:
    """The split that uses the labels of some patients, keeps others apart and takes the rest as unlabelled.

    A case without a label cannot be scored: of a patient who is kept apart it is left out, unless none has a label.
    """
    having = set(labelled)

    def scored(apart: Iterable[str]) -> tuple[str, ...]:
        cases = cases_of(patients, apart)
        return tuple(case for case in cases if case in having) or cases

    used, watched, tested = list(use), list(val), list(test)
    known = [case for case in cases_of(patients, used) if case in having]
    training = set(patients.values()) - {*watched, *tested}
    unlabelled = [case for case, patient in patients.items() if patient in training and case not in set(known)]
    return Split(labelled=tuple(known), unlabelled=tuple(unlabelled), val=scored(watched), test=scored(tested))


def cases_of(patients: Mapping[str, str], wanted: Iterable[str]) -> tuple[str, ...]:
    """All cases of some patients, in the order of the patients."""
    return tuple(case for one in wanted for case, patient in patients.items() if patient == one)


def _draw(cases: list[str], patients: Mapping[str, str], count: int, seed: int) -> list[str]:
    order = sorted({patients[case] for case in cases})
    random.Random(seed).shuffle(order)
    drawn: list[str] = []
    for patient in order[:-1]:
        if len(drawn) >= count:
            break
        drawn += [case for case in cases if patients[case] == patient]
    return sorted(drawn)
