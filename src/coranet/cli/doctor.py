"""`coranet doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from coranet.cli.terminal.parsing import MaxGb
from coranet.data.budget import within_budget
from coranet.errors import one_line

if TYPE_CHECKING:
    from coranet.data.doctor.inspection import Facts, OnCase, Report
    from coranet.report.pictures.overlay import CaseRow


NAMED = 20
"""Cases that are drawn in part, of which each is said how much."""


@dataclass(frozen=True, kw_only=True)
class DoctorVerb:
    """Read a whole dataset and list every problem at once, each with its remedy.

    Exits 1 where training would be refused, 0 where there are warnings only.
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A folder in nnU-Net's raw layout, or the Medical Decathlon's; or a prepared store."""
    dataset: str = "folder"
    """How the folder is laid out: folder, acdc, left_atrium, pancreas_ct, endocardium, sunnybrook, msd or h5."""
    overlay: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write a page of pictures there, overlay.html: each case with its label's edges, unusual ones first."""
    max_gb: MaxGb = None
    """Memory that one scan may take while it is read."""

    @within_budget
    def __call__(self) -> int:
        """Look."""
        from coranet.cli.terminal.show import counting, output
        from coranet.data.doctor.inspection import inspect_folder
        from coranet.data.doctor.store_inspection import inspect_store
        from coranet.data.store import Store

        rows: list[CaseRow] = []
        on_case = self._draw_into(rows) if self.overlay else None
        store = Store.open(self.data) if Store.is_store(self.data) else None
        with counting() as progress:

            def on_progress(done: int, total: int) -> None:
                progress("reading", done, total)

            if store:
                report = inspect_store(store, on_progress, on_case=on_case)
            else:
                report = inspect_folder(self.data, on_progress, dataset=self.dataset, on_case=on_case)
        if store:
            labelled = sum(case.labelled for case in store.cases.values())
            output.print(f"A prepared store: {len(store.cases)} cases, {labelled} of them labelled.")
        if report.facts is not None:
            _show(report.facts)
        _show_findings(report)
        for line in report.lines():
            output.print(one_line(line), markup=False)
        fatal = sum(problem.level == "fatal" for problem in report.problems)
        warnings = len(report.problems) - fatal
        verdict = (
            f"{fatal} problems to mend, {warnings} warnings." if fatal else f"Ready to train, {warnings} warnings."
        )
        output.print(verdict)
        if self.overlay and rows:
            from coranet.report.pictures.overlay import write_overlay

            output.print(f"Pictures: {write_overlay(self.overlay, rows, report)}", markup=False)
        return 1 if fatal else 0

    def _draw_into(self, rows: list[CaseRow]) -> OnCase:
        from coranet.report.pictures.overlay import draw_row

        return lambda case, images, label, classes: rows.append(draw_row(case, images, label, classes))


def _show(facts: Facts) -> None:
    from coranet.cli.terminal.show import output

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
    if facts.partial:
        named = [f"{case} {drawn}" for case, drawn in list(facts.partial.items())[:NAMED]]
        more = f"; and {len(facts.partial) - NAMED} more" if len(facts.partial) > NAMED else ""
        output.print(f"{'drawn':12} in part, in {len(facts.partial)} cases: {'; '.join(named)}{more}", markup=False)


def _show_findings(report: Report) -> None:
    """What is no problem, but worth knowing."""
    from coranet.cli.terminal.show import output
    from coranet.data.alignment import AS_IT_LIES

    verdict = report.alignment
    if verdict and verdict.clear and verdict.turn == AS_IT_LIES:
        output.print(
            f"{'labels':12} fit best as they lie, in {verdict.votes} of {verdict.voters} patients", markup=False
        )
    for case, note in report.notes.items():
        output.print(f"{'label':12} {case}: {note}", markup=False)
    if report.outliers:
        named = "; ".join(f"{case} ({odd[0].text})" for case, odd in list(report.outliers.items())[:3])
        output.print(f"{'unusual':12} {len(report.outliers)} of the cases: {named}", markup=False)
