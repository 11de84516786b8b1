"""All methods at equal steps: the tables of docs/ranking.md, and a sentence about them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import mean

from coranet.paper.pages.origin import origin_of
from coranet.report.numbers import WORK, markdown
from coranet.report.seeds import Standing, comparison_text, standings
from coranet.runs.row_text import run_name

SEEDS = {"phantom": 3, "acdc": 1, "dan": 8, "sassnet": 3}
"""Of each ranking; the last two take a method apart."""
COLUMNS = ("run", "DSC %, mean ± std over seeds", "each seed", "HD95 mm", "failures", *WORK)


@cache
def ranking(runs: Path, name: str) -> list[Standing]:
    """Supervised, then the others from the best down."""
    place = runs / "ranking" / name
    rows = [_row_of(run.name.removesuffix("-seed0")) for run in place.glob("*-seed0")]
    repeats = [{row: place / run_name(row, seed) for row in ["supervised", *rows]} for seed in range(SEEDS[name])]
    first, *others = standings(repeats, "supervised")
    return [first, *sorted(others, key=lambda one: -mean(one.each))]


def ranking_table(runs: Path, name: str) -> str:
    """Every row with the commit that it was run at."""
    rows = [
        {title: text for title, text in row.items() if title in COLUMNS or title.startswith("ahead")}
        | {"commit": origin_of(runs / "ranking" / name / run_name(row["run"], 0)).commit}
        for row in comparison_text(ranking(runs, name))
    ]
    if SEEDS[name] == 1:
        for row in rows:
            row.pop("each seed")
    return markdown(rows)


def ranking_sentence(runs: Path) -> str:
    """Supervised, the best and CoraNet on two sets."""
    clauses = []
    for name, title in (
        ("acdc", "on ACDC with 14 labelled patients (one seed)"),
        ("phantom", "on the phantom (three seeds)"),
    ):
        found = ranking(runs, name)
        dice = {one.name: f"{100 * mean(one.each):.1f}" for one in found}
        named = {"supervised": "supervised", found[1].name: f"best `{found[1].name}`"}
        named |= {row: f"`{row}`" for row in ("coranet:repaired", "coranet")}
        clauses.append(f"{title} " + ", ".join(f"{words} {dice[row]}" for row, words in named.items()))
    both = ";\n".join(clauses)
    return f"All {len(found)} methods, 3,000 steps, the same network, batch and augmentation:\n{both}."


def _row_of(folder: str) -> str:
    """The row whose runs have this name: `dan[weight=0]` of `dan-weight=0`."""
    method, _, own = folder.partition("-")
    return f"{method}[{own}]" if "=" in own else f"{method}:{own}" if own else method
