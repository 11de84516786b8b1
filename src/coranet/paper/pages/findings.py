"""What we found, for readers of the paper: the words are in `findings.md`, the numbers are computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean

from coranet.evaluation import Scores
from coranet.paper import printed
from coranet.paper.pages.evidence_parts import parts_of
from coranet.paper.pages.origin import origins_of
from coranet.paper.settings import Block
from coranet.paper.studies.efficiency_sheet import METHODS
from coranet.paper.studies.masks_sheet import read_masks
from coranet.paper.studies.sheet import seeds_in_words
from coranet.paper.table_text import TableLine, finished_runs
from coranet.paper.tables import HEART_OURS, TABLES
from coranet.report.numbers import in_points
from coranet.report.run_files import read_json, read_runs

Lines = Mapping[str, TableLine]
SUNNYBROOK = ("table4", "table7", "table8")
"""Tables whose rows all have three seeds there."""


def findings(runs: Path) -> str:
    """The whole of it."""
    words = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return words.format(**_sunnybrook(runs), **_costs(runs), **_real(runs), **_regions(runs), **_work(runs))


def _sunnybrook(runs: Path) -> dict[str, str]:
    compared, ablation = _lines(runs, "table7"), _lines(runs, "table4")
    dice = [mean(line.cells["dsc"].ours) for line in ablation.values()]
    paper = [numbers["dsc"] for numbers in printed.TABLE4.values()]
    all_runs = [run for name in SUNNYBROOK for line in _lines(runs, name).values() for run in line.runs]
    made = origins_of(all_runs)
    (width,) = {read_json(run / "run.json")["net"]["width"] for run in all_runs}
    (seeds,) = {len(line.runs) for line in (*ablation.values(), compared["Ours"], compared["U-Net"])}
    (patients,) = {line.ahead.n for line in ablation.values() if line.ahead}
    gain = printed.TABLE7["Ours"]["dsc"] - printed.TABLE7["U-Net"]["dsc"]
    return {
        "seeds": seeds_in_words(seeds),
        "endocardium": _lead(compared["U-Net"], of_ours=True),
        "endocardium_paper": f"{gain:+.1f}",
        "ablation": f"{min(dice):.1f} and {max(dice):.1f}",
        "ablation_paper": f"{min(paper):.1f} to {max(paper):.1f}",
        "width": str(width),
        "steps": made.steps,
        "patients": str(patients),
        "ahead": ", ".join(name for name, line in compared.items() if line.ahead and line.ahead.low > 0) or "none",
        "behind": ", ".join(name for name, line in compared.items() if line.ahead and line.ahead.high < 0) or "none",
        "half": _lead(_lines(runs, "table2")["U-Net"], of_ours=True),
    }


def _costs(runs: Path) -> dict[str, str]:
    half, fifth = (_lines(runs, "table8", block) for block in TABLES["table8"].blocks)
    free = "α = 1 (*)"
    seeds = seeds_in_words(min(len(lines[free].runs) for lines in (half, fifth)))
    return {
        "costs_half": _lead(half[free]),
        "costs_two": _lead(half["α = 2"]),
        "costs_fifth": _lead(fifth[free]),
        "cost_seeds": seeds,
    }


def _real(runs: Path) -> dict[str, str]:
    hearts, volumes = _lines(runs, "table9"), _lines(runs, "table5")
    scans = [
        dice for run in volumes["Ours"].runs for dice in Scores.read_csv(run / "scores.csv").by_case("dsc").values()
    ]
    return {
        "hearts": _lead(hearts["Supervised"], of_ours=True),
        "heart_steps": origins_of(hearts[HEART_OURS].runs).steps,
        "heart_updates": f"{_updates(hearts[HEART_OURS]) / _updates(hearts['Supervised']):.1f}",
        "text": _dice(hearts["Ours"]),
        "heart_seeds": seeds_in_words(len(hearts[HEART_OURS].runs)),
        "text_seeds": seeds_in_words(len(hearts["Ours"].runs)),
        "text_paper": f"{printed.TABLE9['Ours']['dsc']:.1f}",
        "volumes_paper": f"{printed.TABLE5_VNET['Ours']['dsc'] - printed.TABLE5_VNET['V-Net']['dsc']:+.1f}",
        "volumes": _dice(volumes["Ours"]),
        "volumes_supervised": _dice(volumes["V-Net"]),
        "volume_lead": _lead(volumes["V-Net"], of_ours=True),
        "volume_seeds": seeds_in_words(len(volumes["Ours"].runs)),
        "lost": f"{sum(dice < 0.5 for dice in scans)} of {len(scans)}",
        "volume_steps": origins_of(volumes["Ours"].runs).steps,
    }


def _regions(runs: Path) -> dict[str, str]:
    looks = read_json(runs / "paper/sunnybrook-1to1/coranet-seed0/held.json")["looks"]
    first, last = looks[0], looks[-1]
    trained = next(sheet for sheet in read_masks(runs / "paper") if "trained" in sheet.title)
    ahead = {row["mask"]: next(value for name, value in row.items() if "ahead" in name) for row in trained.rows}
    return {
        "held_first": f"{100 * first['held']:.0f}",
        "softmax_first": f"{100 * first['softmax']:.0f}",
        "held": f"{100 * last['held']:.0f}",
        "softmax": f"{100 * last['softmax']:.0f}",
        "least": ahead["least confident"].rpartition(", p")[0],
        **{name: ahead[name].rpartition(", p")[0] for name in ("oracle", "random")},
        "mask_seeds": seeds_in_words(min(int(row["seeds"]) for row in trained.rows)),
        "tta_seeds": seeds_in_words(len(_lines(runs, "table6")["Test augmentation"].runs)),
        "tta": _lead(_lines(runs, "table6")["Test augmentation"]),
    }


def _work(runs: Path) -> dict[str, str]:
    folder = runs / "efficiency/sunnybrook-1to1"
    found = {name: finished_runs(folder, method)[0] for name, method in METHODS.items()}
    teacher, ours = read_runs(found)
    return {
        "time": f"{100 * (ours.seconds / teacher.seconds - 1):.0f} %",
        "updates": f"{ours.log[-1]['updates'] / teacher.log[-1]['updates']:.1f}",
    }


def _lines(runs: Path, name: str, block: Block | None = None) -> Lines:
    """The rows of a table's block, the first where none is named, on the first set that has some."""
    wanted = block or TABLES[name].blocks[0]
    part = next(part for part in parts_of(runs, name) if part.block == wanted)
    return {line.row.label: line for line in part.lines}


def _lead(line: TableLine, *, of_ours: bool = False) -> str:
    """How far a row is ahead of the one it is held against, or the other way round, with its interval over patients."""
    assert line.ahead is not None
    one = line.ahead
    if of_ours:
        one = replace(one, difference=-one.difference, low=-one.high, high=-one.low)
    return in_points(one)


def _updates(line: TableLine) -> int:
    (run,) = read_runs({"": line.runs[0]})
    return int(run.log[-1]["updates"])


def _dice(line: TableLine) -> str:
    """Its mean over seeds."""
    return f"{mean(line.cells['dsc'].ours):.1f}"
