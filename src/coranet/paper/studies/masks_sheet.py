"""What any mask of uncertain pixels can give: by looking at the errors it holds, and by training with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isnan
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coranet.paper.figure_list import FIGURES
from coranet.paper.settings import Block, MethodRow, Table
from coranet.paper.studies.sheet import Numbers, Sheet, seeds_in_words, spread, title_of
from coranet.paper.table_text import UNLIKE, Part, TableLine, read_table, table_rows
from coranet.paper.tables import DICE
from coranet.report.curves import INKS
from coranet.report.pictures.paint import TEXT, WIDTH, Picture
from coranet.report.run_files import Json, read_json

CORANET = "CoraNet"
SOURCES = {
    "CRM": "masks-crm",
    "least confident": "masks-softmax",
    "random": "masks-random",
    "oracle": "masks-oracle",
}
"""Rows of runs, by what their mask is called."""
HOLDERS = dict(zip(SOURCES, ("held", "softmax", "random", "oracle"), strict=True))
"""What `held.json` calls the share of errors each holds."""
MOMENTS = ("first", "last")

Looks = Mapping[str, Sequence[Mapping[str, float]]]
"""By moment, what each seed's run held: shares by name."""

EQUAL_NOTE = (
    "Of all pixels of unlabelled images, which share is labelled wrongly, and which share of these errors lies in "
    "the region that CRM calls uncertain, in as many of the least confident pixels of the main head, in as many "
    "random ones, and in as many chosen by an oracle, errors first. The truth is read for this table alone."
)
BAND_NOTE = (
    "Heads that are calibrated at costs α : 1 switch at p = α/(1+α) and 1/(1+α), so that CRM's region would be "
    "the band of p between: α = {alpha:g}, {low:.3f} < p < {high:.3f}. If that were so both would be one region, "
    "an overlap (intersection over union) of 100 %. At CRM's coverage the band is widened or narrowed to as many "
    "of the least confident pixels; at the band's, CRM is, to as many of the pixels where the two heads differ "
    "most. Calibration errors are of an object's probability, costs undone, among pixels of either region."
)
TRAINED_NOTE = (
    "CoraNet trained with its mask replaced at every refresh by another of the same size. The row CRM replaces "
    "nothing and must equal CoraNet's. THE ORACLE READS THE TRUTH OF UNLABELLED CASES: it bounds what a mask can "
    "do, and is no method. Held are the shares of the pseudo-labels' errors that were kept from being learnt as "
    "labels. All rows make as many updates of as many images."
)


def read_masks(root: Path) -> list[Sheet]:
    """Up to three sheets a set: at equal coverage, against a band of the main head, and by training."""
    (needs,) = FIGURES["masks"].needs
    rows = [
        MethodRow(label=CORANET, method="coranet"),
        *(MethodRow(label=name, method=row) for name, row in SOURCES.items()),
    ]
    block = Block(title="", role=needs.role, share=needs.share, rows=tuple(rows), columns=DICE, against=CORANET)
    parts = read_table(root, Table(name="masks", title=FIGURES["masks"].title, blocks=(block,)))
    return [sheet for part in parts for sheet in _sheets(part)]


def _sheets(part: Part) -> list[Sheet]:
    held = {line.row.label: [found for run in line.runs if (found := _read(run))] for line in part.lines}
    # Where CoraNet's own run kept no probabilities, the one that replaces nothing is the same run, and did.
    own = max(
        (line for line in part.lines if line.row.label in (CORANET, "CRM")), key=lambda line: len(held[line.row.label])
    )
    sheets = []
    if seen := held[own.row.label]:
        looks = looks_of(seen)
        sheets += [_equal(part, own, looks), _band(part, own, looks, seen[0]["alpha"])]
    if any(line.runs for line in part.lines if line.row.label in SOURCES):
        sheets.append(_trained(part, held))
    return sheets


def _read(run: Path) -> Json | None:
    file = run / "held.json"
    return read_json(file) if file.exists() else None


def looks_of(held: Sequence[Json]) -> Looks:
    """The first and the last refresh of every run."""
    return {moment: [one["looks"][at] for one in held] for moment, at in zip(MOMENTS, (0, -1), strict=True)}


def _percent(looks: Sequence[Mapping[str, float]], name: str, digits: int = 1) -> str:
    return spread([100 * look[name] for look in looks if not isnan(look[name])], digits)  # NaN: of no errors at all


def _at(moment: str, looks: Sequence[Mapping[str, float]]) -> str:
    return f"{moment}, step {looks[0]['step']}"


def _equal(part: Part, own: TableLine, looks: Looks) -> Sheet:
    rows = [
        {
            "refresh": _at(moment, found),
            "errors, % of pixels": _percent(found, "errors", 2),
            "uncertain, % of pixels": _percent(found, "coverage", 2),
            **{f"held by {name}, % of errors": _percent(found, key) for name, key in HOLDERS.items()},
            "seeds": str(len(found)),
        }
        for moment, found in looks.items()
    ]
    return Sheet(
        title=f"{title_of(part.scans)}: errors of the pseudo-labels held, at equal coverage",
        scans=part.scans,
        rows=rows,
        numbers=_numbers(own, looks, ("errors", "coverage", *HOLDERS.values())),
        note=EQUAL_NOTE,
        pictures=(_draw(part, looks),),
    )


BAND = {
    "CRM, % of pixels": "coverage",
    "band, % of pixels": "band_coverage",
    "overlap %": "overlap",
    "held by CRM, % of errors": "held",
    "by the band": "band",
    "at CRM's coverage: least confident": "softmax",
    "at the band's coverage: heads apart": "crm_at_band",
    "calibration error % of main": "ece_main",
    "of con": "ece_con",
    "of rad": "ece_rad",
}


def _band(part: Part, own: TableLine, looks: Looks, alpha: float) -> Sheet:
    return Sheet(
        title=f"{title_of(part.scans)}: CRM's region, and the band of the main head that calibrated heads amount to",
        scans=part.scans,
        rows=[
            {
                "refresh": _at(moment, found),
                **{title: _percent(found, key) for title, key in BAND.items()},
                "seeds": str(len(found)),
            }
            for moment, found in looks.items()
        ],
        numbers=_numbers(own, looks, BAND.values()),
        note=BAND_NOTE.format(alpha=alpha, low=1 / (1 + alpha), high=alpha / (1 + alpha)),
    )


def _numbers(own: TableLine, looks: Looks, names: Collection[str]) -> list[Numbers]:
    """One line a run and refresh."""
    runs = [run for run in own.runs if (run / "held.json").exists()]
    return [
        {"run": f"{run.parent.name}/{run.name}", "refresh": moment, "step": look["step"], **{n: look[n] for n in names}}
        for moment, found in looks.items()
        for run, look in zip(runs, found, strict=True)
    ]


def _trained(part: Part, held: Mapping[str, Sequence[Json]]) -> Sheet:
    rows, numbers = [], list[Numbers]()
    for line, shown in zip(part.lines, table_rows(part), strict=True):
        looks = looks_of(held[line.row.label])
        ahead = next(column for column in shown if column.startswith("DSC ahead"))
        rows.append(
            {
                "mask": line.row.label,
                "DSC %": line.cells["dsc"].text,
                ahead: shown[ahead],
                **{f"held at the {moment} refresh, %": _percent(found, "held") for moment, found in looks.items()},
                "seeds": str(len(line.runs)),
            }
        )
        numbers += [
            {
                "mask": line.row.label,
                "run": f"{run.parent.name}/{run.name}",
                "dsc": dice,
                **_shares_in(run),
            }
            for run, dice in zip(line.runs, line.cells["dsc"].ours, strict=True)
        ]
    return Sheet(
        title=f"{title_of(part.scans)}: trained with other masks of CRM's size",
        scans=part.scans,
        rows=rows,
        numbers=numbers,
        note=f"{TRAINED_NOTE} {UNLIKE}" if part.unlike else TRAINED_NOTE,
    )


def _shares_in(run: Path) -> Numbers:
    """What a run's mask held at both moments; nothing where it was not looked at."""
    found = _read(run)
    return {f"held_{moment}": look["held"] for moment, (look,) in looks_of([found]).items()} if found else {}


def _draw(part: Part, looks: Looks) -> Picture:
    trained = [line for line in part.lines if line.runs]
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_shares(left, looks)
    _draw_dice(right, trained)
    missing = [line.row.label for line in part.lines if not line.runs]
    caption = (
        f"{title_of(part.scans)}. Left: the share of the pseudo-labels' errors that an uncertain region holds, at CRM's "
        f"coverage (dotted line); means over {seeds_in_words(len(looks['first']))}, bars are the deviation. Right: DSC of "
        "CoraNet trained with each mask at CRM's coverage, a dot a seed and a line at the mean; the oracle reads the "
        "truth of unlabelled cases."
        + (f" Missing, for want of finished runs: {', '.join(missing)}." if missing else "")
    )
    return Picture(name=f"masks-{part.scans}", figure=figure, caption=caption)


def _draw_shares(axes: Axes, looks: Looks) -> None:
    width = 0.8 / len(HOLDERS)
    for place, (name, key) in enumerate(HOLDERS.items()):
        shares = [[100 * look[key] for look in found] for found in looks.values()]
        axes.bar(
            [moment + (place - 1.5) * width for moment in range(len(looks))],
            [fmean(values) for values in shares],
            0.95 * width,
            yerr=[stdev(values) if len(values) > 1 else 0.0 for values in shares],
            color=INKS[place],
            label=name,
            error_kw={"elinewidth": 1, "capsize": 2},
        )
    for moment, found in enumerate(looks.values()):
        axes.hlines(
            100 * fmean(look["coverage"] for look in found), moment - 0.45, moment + 0.45, "0.2", linestyles=":"
        )
    axes.set_xticks(range(len(looks)), [f"{moment} refresh" for moment in looks])
    axes.set_ylim(0, 105)
    axes.set_title("errors held, %", fontsize=TEXT)
    axes.tick_params(labelsize=TEXT - 1)
    axes.legend(fontsize=TEXT - 1, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=4, frameon=False)


def _draw_dice(axes: Axes, lines: Sequence[TableLine]) -> None:
    inks = {CORANET: "0.3"} | dict(zip(SOURCES, INKS, strict=False))
    for place, line in enumerate(lines):
        dice, ink = line.cells["dsc"].ours, inks[line.row.label]
        axes.scatter([place] * len(dice), dice, color=ink, s=30)
        axes.hlines(fmean(dice), place - 0.3, place + 0.3, ink)
    axes.set_xticks(range(len(lines)), [line.row.label.replace(" ", "\n") for line in lines])
    axes.set_xlim(-0.6, len(lines) - 0.4)
    axes.set_title("DSC on test cases, %", fontsize=TEXT)
    axes.tick_params(labelsize=TEXT - 1)
    axes.grid(axis="y", color="0.9")
