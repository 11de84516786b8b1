"""The page of `coranet doctor --overlay`: one row of pictures a case, those worth a look first, labelled ones first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.alignment import AS_IT_LIES, Verdict
from coranet.data.datasets.folder import Case
from coranet.data.doctor.drawing import drawn_of
from coranet.data.doctor.inspection import Report
from coranet.data.doctor.outliers import amount
from coranet.data.grid import orientation_code
from coranet.data.problem import Problem
from coranet.data.readers import Volume
from coranet.files import make_folder, write_atomically
from coranet.report.markup import bullets, document, element, picture
from coranet.report.pictures.paint import colour_of
from coranet.report.pictures.thumbnails import choose_slice, histogram, part, whole
from coranet.report.pictures.upright import SIDES

_STYLE = """<style>
body { max-width: 76rem; }
.case { display: grid; grid-template-columns: 15rem repeat(4, minmax(0, 1fr)); gap: 0.75rem; align-items: start;
  border-top: 1px solid var(--line); padding: 0.75rem 0; break-inside: avoid; }
.unlabelled { display: inline-grid; width: 49%; box-sizing: border-box; padding-right: 1rem;
  grid-template-columns: 9rem repeat(2, minmax(0, 1fr)); }
.case h3 { margin: 0; overflow-wrap: anywhere; font-size: 1rem; }
.case p, .case ul { margin: 0.25rem 0; font-size: 0.85rem; padding-left: 0; list-style: none; }
.case li { color: #c02020; }
.case figure { margin: 0; }
.case img { width: auto; max-width: 100%; background: #000; }
.case svg { width: 100%; font: 11px system-ui, sans-serif; fill: currentColor; }
.key { border-radius: 3px; padding: 0 0.5em; color: #000; margin-right: 0.5em; }
@media (max-width: 50rem) { .case, .unlabelled { width: 100%; grid-template-columns: repeat(2, minmax(0, 1fr)); } }
</style>"""
ABOUT = (
    "Each labelled case: the slice that shows most of the label with its edges; the part about the label, without and with "
    "them; how often grey levels occur, in the scan (grey) and in each class (its colour), each "
    f"to its own height. Of an unlabelled case the middle slice and its grey levels. {SIDES}"
)


@dataclass(frozen=True, kw_only=True)
class CaseRow:
    """The pictures and words of one case, ready for the page."""

    name: str
    labelled: bool
    """Whether it has pictures of a label."""
    files: frozenset[str]
    """Names that problems may know it by."""
    facts: tuple[str, ...]
    pictures: tuple[str, ...]


def draw_row(
    case: Case, images: Sequence[Volume], label: NDArray[np.uint8] | None, classes: Mapping[int, str]
) -> CaseRow:
    """A case while it is in memory, by its first channel."""
    first, drawn = images[0], None
    if label is not None and (drawn := drawn_of(label, case.ignore)):
        label = np.where(label == case.ignore, 0, label)  # no class, and so without an edge
    cut = choose_slice(first, label)
    shown = [("slice", whole(cut), f"slice {cut.index + 1} of {cut.count}" if cut.count > 1 else "")]
    for name, content in (("part", part(cut, edges=False)), ("part with label", part(cut, edges=True))):
        shown += [(name, content, "")] if content else []
    labelled = case.label is not None
    blanks = [element("div", "")] * (3 - len(shown)) if labelled else []
    sizes, steps = first.geometry.shape[: 3 - first.flat], first.geometry.spacing[: 3 - first.flat]
    facts = [
        _role(case) if case.patient == case.name else f"{_role(case)}, of {case.patient}",
        f"{' × '.join(map(str, sizes))} voxels, {orientation_code(first.geometry)}",
        f"{' × '.join(f'{step:.3g}' for step in steps)} mm" if first.placed else "spacing not stated",
    ]
    for value, name in classes.items():
        if label is not None and value:
            size, unit = amount(int(np.count_nonzero(label == value)), first)
            facts.append(f"{name} {size:,.0f} {unit}" if size >= 100 else f"{name} {size:.3g} {unit}")
    if drawn:
        facts.append(f"drawn: {drawn}")
    if label is not None and label.shape != first.array.shape:
        facts.append(f"label of {' × '.join(map(str, label.shape))} voxels: not shown")
    files = frozenset(str(file.path) for file in (*case.images, case.label) if file)
    pictures = (*(picture(*one, kind="jpeg") for one in shown), *blanks, histogram(first, label))
    return CaseRow(name=case.name, labelled=labelled, files=files, facts=tuple(facts), pictures=pictures)


def write_overlay(folder: Path, rows: Sequence[CaseRow], report: Report) -> Path:
    """Write `overlay.html`, which needs no other file, to `folder`; returns it.

    Raises:
        InputError: it cannot be written.
    """
    assert report.dataset is not None
    page = folder / "overlay.html"
    owned = _problems_of_cases(rows, report)
    reasons = {row.name: _reasons(row.name, report, owned) for row in rows}
    oddest = {case: place for place, case in enumerate(report.outliers)}
    odd = [row for row in rows if reasons[row.name]]
    odd.sort(key=lambda row: (not row.labelled, oddest.get(row.name, -1)))  # files with problems before the oddest
    usual = sorted((row for row in rows if not reasons[row.name]), key=lambda row: not row.labelled)
    legend = "".join(
        f'<span class="key" style="background:{colour_of(value)}">{element("span", name)}</span>'
        for value, name in report.dataset.classes.items()
        if value
    )
    parts = [
        _STYLE,
        element("h1", f"{report.dataset.name}: {len(rows)} cases"),
        bullets([*_alignment(report.alignment), *report.lines(leave_out=owned.__contains__)]),
        element("p", ABOUT, "quiet"),
        f"<p>{legend}</p>",
        *([element("h2", f"Worth a look: {len(odd)}")] if odd else []),
        *(_section(row, reasons[row.name]) for row in odd),
        *([element("h2", f"{'The others' if odd else 'Nothing unusual'}: {len(usual)}")] if usual else []),
        *(_section(row, ()) for row in usual),
    ]
    make_folder(folder)
    write_atomically(page, document(f"{report.dataset.name}: overlay", parts).encode())
    return page


def _role(case: Case) -> str:
    return f"{'labelled' if case.label else 'unlabelled'}{', for test' if case.part == 'Ts' else ''}"


def _section(row: CaseRow, reasons: Sequence[str]) -> str:
    words = (
        element("h3", row.name) + bullets(list(reasons)) + "".join(element("p", fact, "quiet") for fact in row.facts)
    )
    kind = "case" if row.labelled else "case unlabelled"
    return f'<section class="{kind}"><div>{words}</div>{"".join(row.pictures)}</section>'


def _problems_of_cases(rows: Sequence[CaseRow], report: Report) -> dict[Problem, list[str]]:
    """The problems that are told in the rows of cases, with whose they are: what half of all have sets no case apart."""
    assert report.dataset is not None
    owners: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for file in row.files:
            owners[file].append(row.name)
    alike = Counter(problem.remedy for problem in report.problems)
    return {
        problem: names
        for problem in report.problems
        if (names := owners.get(problem.file) or owners.get(str(report.dataset.root / problem.file)))
        and (problem.level == "fatal" or 2 * alike[problem.remedy] < len(rows))
    }


def _reasons(case: str, report: Report, owned: Mapping[Problem, Sequence[str]]) -> tuple[str, ...]:
    """Why a case is worth a look."""
    problems = [problem.message for problem, names in owned.items() if case in names]
    odd = [oddity.text for oddity in report.outliers.get(case, ())]
    return (*problems, *odd)


def _alignment(verdict: Verdict | None) -> list[str]:
    """What the report's problems do not say of how the labels lie."""
    if not verdict:
        return []
    if not verdict.clear:
        return ["How the labels lie could not be told from the grey levels: see for yourself."]
    votes = f"{verdict.votes} of {verdict.voters} patients"
    return [f"The labels fit best as they lie, in {votes}."] if verdict.turn == AS_IT_LIES else []
