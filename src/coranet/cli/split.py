"""`coranet split`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.errors import InputError
from coranet.files import make_folder

if TYPE_CHECKING:
    from coranet.data.splits import by_patient


@dataclass(frozen=True, kw_only=True)
class SplitVerb:
    """Write down which cases are labelled, unlabelled, for validation and for test, by patient.

    Give a published protocol by its name, or draw new lists: --ratio 1:4 labels one patient for every four that are not.
    Use the file with `coranet train DATA --split FILE`.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="STORE")]
    """A prepared store, or a raw folder."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The JSON file to write."""
    protocol: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(or --ratio)")] = None
    """Such as acdc:7, acdc:14, la:8, la:16, pancreas-a:12, pancreas-b:12, endocardium:1:4 or acdc-peng:20%."""
    ratio: Annotated[str | None, tyro.conf.arg(metavar="L:U", help_behavior_hint="(or --protocol)")] = None
    """Labelled to unlabelled patients, such as 1:4."""
    val: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 0)")] = None
    """Patients to watch during training, drawn from those with labels."""
    test: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 0)")] = None
    """Patients never trained on, drawn from those with labels. Test cases of the dataset itself come on top."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="S", help_behavior_hint="(default: 0)")] = None
    """One seed, one draw."""
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "folder"
    """What a raw folder holds: folder, acdc, left_atrium, pancreas_ct, endocardium, sunnybrook, msd or h5."""

    def __call__(self) -> int:
        """Write it."""
        from coranet.cli.terminal.show import output
        from coranet.data.splits.protocols import find_protocol, protocols

        if (self.protocol is None) == (self.ratio is None):
            raise InputError(f"Give either --ratio, such as 1:4, or --protocol, one of {', '.join(protocols())}.")
        drawn = {"--val": self.val, "--test": self.test, "--seed": self.seed}
        if self.protocol is not None and any(value is not None for value in drawn.values()):
            words = ", ".join(option for option, value in drawn.items() if value is not None)
            raise InputError(f"{words}: a protocol has its own lists. Leave it out, or draw with --ratio.")
        protocol = find_protocol(self.protocol) if self.protocol else None
        patients, labelled, kept = self._cases()
        if protocol is not None:
            split, said = protocol.split(patients, labelled)
            source, notes = f"{protocol.name}: {protocol.source}", (*protocol.notes, *said)
        else:
            split, source, notes = self._draw(patients, labelled, kept)
        split.check(patients, labelled)
        make_folder(self.out.parent)
        split.write(self.out, source=source, notes=notes)
        for line in (source, *notes):
            output.print(line, markup=False)
        for part, cases in (
            ("labelled", split.labelled),
            ("unlabelled", split.unlabelled),
            ("val", split.val),
            ("test", split.test),
        ):
            people = len({patients[case] for case in cases})
            output.print(f"{part:10} {len(cases):5} cases of {people} patients", markup=False)
        return 0

    def _cases(self) -> tuple[Mapping[str, str], list[str], list[str]]:
        """The patient of every case, the cases with a label, and those that are kept for test."""
        from coranet.data.datasets import read_dataset
        from coranet.data.store import Store

        if Store.is_store(self.data):
            stored = Store.open(self.data).cases.values()
            return (
                {case.name: case.patient for case in stored},
                [case.name for case in stored if case.labelled],
                [case.name for case in stored if case.part == "Ts"],
            )
        cases = read_dataset(self.data, self.dataset).cases
        return (
            {case.name: case.patient for case in cases},
            [case.name for case in cases if case.label is not None],
            [case.name for case in cases if case.part == "Ts"],
        )

    def _draw(
        self, patients: Mapping[str, str], labelled: list[str], kept: list[str]
    ) -> tuple[by_patient.Split, str, tuple[str, ...]]:
        from coranet.data.splits.by_patient import split_by_ratio

        first, _, second = str(self.ratio).partition(":")
        if not (first.isdecimal() and second.isdecimal() and int(first)):
            raise InputError(f"--ratio {self.ratio}: write it as labelled:unlabelled, such as 1:4.")
        val, test, seed = self.val or 0, self.test or 0, self.seed or 0
        if val < 0 or test < 0:
            raise InputError(f"--val {val} --test {test}: give numbers of patients, 0 or more.")
        split = split_by_ratio(
            patients, labelled, (int(first), int(second)), val=val, test=test, kept_for_test=kept, seed=seed
        )
        return split, f"Drawn by coranet split --ratio {self.ratio} --val {val} --test {test} --seed {seed}.", ()
