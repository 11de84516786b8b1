"""Predictions as one page, worst first: what to expect of each case, what stands out, and where to look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coranet.data.datasets.names import scans, stem
from coranet.data.readers import Source, Volume, label_source, source
from coranet.errors import InputError
from coranet.evaluation.quality import Quality, read_qualities, why
from coranet.files import write_atomically
from coranet.report.markup import bullets, document, element, picture
from coranet.report.pictures.paint import UNCERTAIN, colour_of
from coranet.report.pictures.thumbnails import UprightSlice, choose_slice, part, whole
from coranet.report.pictures.upright import SIDES

Map = NDArray[np.uint8]

PAGE = "cases.html"
PICTURED = 100
"""Cases with pictures, the worst ones; of the others the words alone are shown."""
_STYLE = """<style>
body { max-width: 72rem; }
.case { display: grid; grid-template-columns: 17rem repeat(3, minmax(0, 1fr)); gap: 0.75rem; align-items: start;
  border-top: 1px solid var(--line); padding: 0.75rem 0; break-inside: avoid; }
.case h3 { margin: 0; overflow-wrap: anywhere; font-size: 1rem; }
.case p, .case ul { margin: 0.25rem 0; font-size: 0.85rem; padding-left: 0; list-style: none; }
.case figure { margin: 0; }
.case img { width: 100%; image-rendering: auto; background: #000; }
.key { border-radius: 3px; padding: 0 0.5em; color: #000; margin-right: 0.5em; }
@media (max-width: 50rem) { .case { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
</style>"""
_ABOUT = (
    f"Lines are the edges of what was predicted. Red is uncertain. {SIDES} Of each case: the slice with most of the "
    "prediction, the part about it, and the slice with most that is uncertain."
)


def write_case_page(
    page: Path,
    predictions: Path,
    images: Mapping[str, Source],
    classes: Mapping[int, str],
    *,
    title: str = "Predictions, worst first",
    only: Sequence[str] | None = None,
) -> Path:
    """Write the page, which needs no other file and no server; returns it.

    Args:
        page: the file.
        predictions: the folder that `coranet predict` wrote.
        images: the first channel of each case.
        classes: names of the objects by value.
        title: the headline.
        only: the cases to show, in this order; all of them, worst first, where none are named.

    Raises:
        InputError: the table of cases is missing or broken, or the page cannot be written.
    """
    parts = [element("h1", title), *case_parts(predictions, images, classes, only)]
    write_atomically(page, document(title, parts).encode())
    return page


def case_parts(
    predictions: Path, images: Mapping[str, Source], classes: Mapping[int, str], only: Sequence[str] | None = None
) -> list[str]:
    """The pieces of the page, for other pages too."""
    rows = {case: list(group) for case, group in groupby(read_qualities(predictions), key=lambda row: row.case)}
    names = {**classes, 0: "uncertain"}
    keys = "".join(
        f'<span class="key" style="background:{colour_of(value) if value else UNCERTAIN}">{element("span", name)}</span>'
        for value, name in sorted(names.items(), reverse=True)
    )
    shown = [
        _case(rows[case], predictions, images.get(case) if number < PICTURED else None)
        for number, case in enumerate(rows if only is None else only)
    ]
    return [_STYLE, element("p", _ABOUT, "quiet"), f"<p>{keys}</p>", *shown]


def sources_in(folder: Path, cases: Mapping[str, object]) -> dict[str, Source]:
    """The first channel of each case in a folder of scans, as far as it is there."""
    files = {stem(file): file for file in scans(folder)}
    named = ((case, files.get(f"{case}_0000") or files.get(case)) for case in cases)
    return {case: source(file) for case, file in named if file}


def _case(rows: list[Quality], predictions: Path, image: Source | None) -> str:
    first, *classes = rows
    reason, lost, pictures, placed = why(first, classes), "", list[str](), True
    if image is not None:
        try:
            scan = image.read()
            label, region = (_map(predictions / f"{first.case}{name}.nii.gz", scan) for name in ("", "_uncertain"))
            reason, placed, pictures = reason or _doubt(label, region), scan.placed, _pictures(scan, label, region)
        except InputError as error:  # a scan that cannot be read any more leaves its words
            lost = element("p", str(error), "quiet")
    lines = [f"{row.class_name}: {_size(row, placed=placed)}{_expected(row)}" for row in classes]
    words = f"{element('h3', first.case)}{element('p', reason or 'Nothing stands out.')}{bullets(lines)}{lost}"
    return f'<div class="case"><div>{words}</div>{"".join(pictures)}</div>'


def _doubt(label: Map, region: Map) -> str:
    """What to say of a case of which nothing else is known: as much of it as is uncertain, which is what ranks it."""
    found, doubted = np.count_nonzero(label), np.count_nonzero(region)
    if not found:
        return "Nothing was found."
    return f"What is uncertain is {100 * doubted / found:.0f} % of what was found, by volume." if doubted else ""


def _size(row: Quality, *, placed: bool) -> str:
    """Of a scan that states no spacing, and whose voxels count as 1 mm, no millilitres."""
    return f"{row.millilitres:.3g} mL" if placed else f"{1000 * row.millilitres:,.0f} voxels"


def _expected(row: Quality) -> str:
    return "" if isnan(row.expected) else f", expected Dice {row.expected:.2f} ({row.low:.2f} to {row.high:.2f})"


def _pictures(scan: Volume, label: Map, region: Map) -> list[str]:
    cut = _marked(choose_slice(scan, label), scan, region)
    doubt = _marked(choose_slice(scan, label, at=region), scan, region)
    about = part(cut, edges=True)
    shown = [("prediction", whole(cut), f"slice {cut.index + 1} of {cut.count}")]
    shown += [("part", about, "the part about it")] if about else []
    shown += [("most uncertain", whole(doubt), f"slice {doubt.index + 1}: most uncertain")] if region.any() else []
    return [picture(*one, kind="jpeg") for one in shown]


def _map(file: Path, scan: Volume) -> Map:
    """A map beside a scan; empty where it is not there or does not fit."""
    array = label_source(file).read().array if file.exists() else np.zeros(0, np.uint8)
    fits = array.shape == scan.array.shape
    return np.asarray(array if fits else np.zeros(scan.array.shape, np.uint8), np.uint8)


def _marked(cut: UprightSlice, scan: Volume, region: Map) -> UprightSlice:
    """With the uncertain region."""
    here = choose_slice(replace(scan, array=region), None, index=cut.index).image > 0
    return replace(cut, uncertain=here)
