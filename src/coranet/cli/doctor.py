"""`coranet doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from coranet.data.inspect import Facts


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Read a whole dataset and list every problem at once, each with its remedy.

    Exits 1 where training would be refused, 0 where there are warnings only.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A folder in nnU-Net's raw layout, or the Medical Decathlon's; or a prepared store."""

    def __call__(self) -> int:
        """Look."""
        from coranet.cli.show import counting, output
        from coranet.data.inspect import inspect_folder
        from coranet.data.store import Store

        if Store.is_store(self.data):
            store = Store.open(self.data)
            labelled = sum(case.labelled for case in store.cases.values())
            output.print(f"A prepared store: {len(store.cases)} cases, {labelled} of them labelled. In order.")
            return 0
        with counting() as on_progress:
            report = inspect_folder(self.data, lambda done, total: on_progress("reading", done, total))
        if report.facts is not None:
            _show(report.facts)
        for problem in report.problems:
            output.print(f"{problem.level.upper()}: {problem}", markup=False)
        fatal = sum(problem.level == "fatal" for problem in report.problems)
        warnings = len(report.problems) - fatal
        verdict = (
            f"{fatal} problems to mend, {warnings} warnings." if fatal else f"Ready to train, {warnings} warnings."
        )
        output.print(verdict)
        return 1 if fatal else 0


def _show(facts: Facts) -> None:
    from coranet.cli.show import output

    def axes(values: tuple[float, ...]) -> str:
        return " x ".join(f"{value:.4g}" for value in values)

    shares = ", ".join(f"{name} {100 * share:.2f} %" for name, share in facts.class_shares.items())
    ranges = ", ".join(f"{name} {low:.4g} to {high:.4g}" for name, (low, high) in facts.intensities.items())
    orientations = ", ".join(f"{count} {code}" for code, count in facts.orientations.items())
    for title, text in (
        ("cases", f"{facts.labelled} labelled, {facts.unlabelled} unlabelled, {facts.test} for test"),
        ("patients", str(facts.patients)),
        ("size", f"{axes(facts.shapes.median)} voxels ({axes(facts.shapes.smallest)} to {axes(facts.shapes.largest)})"),
        (
            "spacing",
            f"{axes(facts.spacings.median)} mm ({axes(facts.spacings.smallest)} to {axes(facts.spacings.largest)})",
        ),
        ("orientation", orientations),
        ("classes", shares),
        ("grey levels", ranges),
    ):
        output.print(f"{title:12} {text}", markup=False)
