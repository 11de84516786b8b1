"""Write the README's section of results, and the tables of docs/ranking.md and docs/results.md, from the runs here.

    python results/section.py

The section's words are in `section.md`. Every number is computed from scores here; `tests/test_docs.py` fails when a page
says something else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev

from coranet.evaluation import Scores
from coranet.paper.studies import STUDIES
from coranet.paper.studies.sheet import sheets_markdown
from coranet.paper.table_text import Line, Part, read_table, table_markdown
from coranet.paper.tables import TABLES
from coranet.report.numbers import markdown
from coranet.report.seeds import Standing, comparison_text, standings, write_comparison
from coranet.runs.comparison import run_name

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RANKING = HERE.parent / "docs/ranking.md"
EVIDENCE = HERE.parent / "docs/results.md"
BEGIN, END = "<!-- made by results/section.py{} -->\n", "<!-- until here -->\n"

RANKINGS = {"phantom": 3, "acdc": 1, "dan": 8, "sassnet": 3}
"""Seeds of each; the last two take a method apart."""
PAPER = ("table2", "table3", "table4", "table5", "table6", "table7", "table8", "table9")
"""Tables of the paper that runs in `paper` fill."""
STUDIED = {"masks": "paper", "efficiency": "efficiency"}
"""Studies, and the folder of their runs. Runs that are timed had the device for themselves."""
SHOWN = ("run", "DSC %, mean ± std over seeds", "each seed", "HD95 mm")
REAL = {
    "supervised": ("Supervised", "V-Net"),
    "`pseudo_label`": ("PL", ""),
    "`mean_teacher`": ("MT", "MT"),
    "`ua_mt`": ("UA-MT", "UA-MT"),
    "`dan`": ("", "DAN"),
    "`advent`": ("", "ADVNET"),
    "`sassnet`": ("", "SASSNet"),
    "`dtc`": ("", "DTC"),
    "`unimatch`": ("UniMatch", ""),
    "`coranet`": ("Ours, several classes in one network", "Ours"),
    "`coranet:released`": ("Ours, as the released code does", ""),
    "`coranet:repaired`": ("Ours, repaired", "Ours, repaired"),
    "all scans labelled": ("Fully supervised", ""),
}
"""Rows on real scans, and what the paper's table on ACDC and its table on volumes call them."""
DEMO = {
    "supervised": "supervised: the same network on the labels alone",
    "coranet": "`coranet`: the paper's method",
    "coranet-repaired": "`coranet:repaired`: one change",
}
DEMO_AHEAD = "ahead of supervised, 95 % interval over cases"


def seeds_of(folder: str, rows: dict[str, str], seeds: int, first: str = "") -> dict[str, Standing]:
    """Rows of several seeds by name; `first` is how the folder of seed 0 ends."""
    endings = [first, *(f"-seed{seed}" for seed in range(1, seeds))]
    repeats = [{row: HERE / folder / f"{row}{ending}" for row in rows} for ending in endings]
    return {one.name: one for one in standings(repeats)}


def percent(one: Standing) -> str:
    """Mean and deviation over seeds."""
    return f"{100 * mean(one.each):.1f} ± {100 * one.std:.1f}"


def demo() -> str:
    """The demo's table."""
    found = seeds_of("demo-fresh", DEMO, 5)
    rows = []
    for name, title in DEMO.items():
        ahead = found[name].ahead
        said = (
            "" if ahead is None else f"{100 * ahead.difference:+.1f} [{100 * ahead.low:+.1f}, {100 * ahead.high:+.1f}]"
        )
        rows.append({"": title, "mean ± std over seeds": percent(found[name]), DEMO_AHEAD: said})
    return markdown(rows)


def hippocampus() -> str:
    """Means over three seeds, and of all labels."""
    rows = dict.fromkeys(("supervised", "coranet", "coranet-repaired"), "")
    found = seeds_of("hippocampus", rows, 3, "-seed0")
    every = Scores.read_csv(HERE / "hippocampus/supervised-208-labels-seed0/scores.csv").mean()["dsc"].mean
    supervised, coranet, repaired = (f"{100 * mean(found[row].each):.2f}" for row in rows)
    return (
        "Real scans, hippocampus MR with 10 labelled and 198 unlabelled cases, 52 test cases, three seeds: "
        f"supervised {supervised}, `coranet` {coranet},\n`coranet:repaired` {repaired}; "
        f"with all 208 labels {100 * every:.2f}. "
    )


@cache
def rankings(folder: str) -> list[Standing]:
    """All methods of a ranking: supervised, then the others from the best down."""
    place = HERE / "ranking" / folder
    rows = [row_of(run.name.removesuffix("-seed0")) for run in place.glob("*-seed0")]
    repeats = [{row: place / run_name(row, seed) for row in ["supervised", *rows]} for seed in range(RANKINGS[folder])]
    first, *others = standings(repeats, "supervised")
    return [first, *sorted(others, key=lambda one: -mean(one.each))]


def row_of(folder: str) -> str:
    """The row whose runs have this name: `dan[weight=0]` of `dan-weight=0`."""
    method, _, own = folder.partition("-")
    return f"{method}[{own}]" if "=" in own else f"{method}:{own}" if own else method


def ranking_said() -> str:
    """Supervised, the best and CoraNet on two sets."""
    said = []
    for folder, title in (
        ("acdc", "on ACDC with 14 labelled patients (one seed)"),
        ("phantom", "on the phantom (three seeds)"),
    ):
        found = rankings(folder)
        dice = {one.name: f"{100 * mean(one.each):.1f}" for one in found}
        named = {"supervised": "supervised", found[1].name: f"best `{found[1].name}`"}
        named |= {row: f"`{row}`" for row in ("coranet:repaired", "coranet")}
        said.append(f"{title} " + ", ".join(f"{name} {dice[row]}" for row, name in named.items()))
    both = ";\n".join(said)
    return f"All {len(found)} methods, 3,000 steps, the same network, batch and augmentation: {both}."


def ranking_table(folder: str) -> str:
    """What docs/ranking.md shows of them, each row with the commit that it was run at."""
    rows = [
        {title: text for title, text in row.items() if title in SHOWN or title.startswith("ahead")}
        | {"commit": str(made_by(HERE / "ranking" / folder / run_name(row["run"], 0))["commit"])}
        for row in comparison_text(rankings(folder))
    ]
    if RANKINGS[folder] == 1:
        for row in rows:
            row.pop("each seed")
    return markdown(rows)


def sunnybrook() -> str:
    """The paper's ablation and its comparison at 1 : 4, on the set that stands for its own."""
    (ablation,), (compared,) = paper_parts("table4"), paper_parts("table7")
    dice = [mean(line.cells["dsc"].ours) for line in ablation.lines]
    lines = {line.row.label: line for line in compared.lines}
    supervised, ours = (
        f"{mean(lines[row].cells['dsc'].ours):.1f} ± {stdev(lines[row].cells['dsc'].ours):.1f}"
        for row in ("U-Net", "Ours")
    )
    runs = [run for line in (lines["U-Net"], lines["Ours"], *ablation.lines) for run in line.runs]
    steps, commits = made_with(runs)
    (patients,) = {line.ahead.n for line in ablation.lines if line.ahead}
    return (
        f"The text's recipe on Sunnybrook's endocardium, {steps} steps, {len(lines['Ours'].runs)} seeds, "
        f"{patients} test patients: with one in five patients labelled supervised {supervised}, `coranet` {ours};\n"
        f"with one in two, the seven rows of the ablation (the paper's six, one of which reads two ways) lie between "
        f"{min(dice):.1f} and {max(dice):.1f}: what it adds to the supervised loss does not show here. "
        f"H200, commit {commits}"
    )


def uncertainty() -> str:
    """What CRM's region holds on Sunnybrook, beside as many of the least confident pixels."""
    run = HERE / "paper/sunnybrook-1to1/coranet-seed0"
    held, softmax = (100 * json.loads((run / "held.json").read_text())["looks"][-1][by] for by in ("held", "softmax"))
    return (
        "At the end of self-training the region where the conservative and the radical head disagree holds "
        f"{held:.0f} % of the\nerrors in pseudo-labels, as many of the least confident pixels hold {softmax:.0f} % "
        f"(one seed, commit {made_by(run)['commit']})"
    )


def real() -> str:
    """Rows of the paper's table on ACDC and of its table on volumes, beside each other."""
    parts = [paper_parts(name)[0] for name in ("table9", "table5")]  # the first block, on its first set
    lines = [{line.row.label: line for line in part.lines} for part in parts]
    shown = {name: [of.get(label) for of, label in zip(lines, labels, strict=True)] for name, labels in REAL.items()}
    slices, volumes = (
        made_with([run for line in column if line for run in line.runs]) for column in zip(*shown.values(), strict=True)
    )
    titles = (
        f"ACDC, 14 of 70 patients labelled, {slices[0]} steps",
        f"left atrium, 16 of 80 scans labelled, {volumes[0]} steps",
    )
    rows = [
        {"": name} | {title: dice_said(line) for title, line in zip(titles, row, strict=True) if line}
        for name, row in shown.items()
    ]
    return f"{markdown(rows)}\n\nCommits: ACDC {slices[1]}; left atrium {volumes[1]}."


def dice_said(line: Line) -> str:
    """Mean Dice, and its deviation over seeds."""
    dice = line.cells["dsc"].ours
    return f"{mean(dice):.1f} ± {stdev(dice):.1f}" if len(dice) > 1 else f"{mean(dice):.1f}"


def missed() -> str:
    """What CoraNet's mean on the left atrium owes to scans that it misses, and what it has by another recipe."""
    runs = {row: HERE / f"paper/la-16/{row}-seed0/scores.csv" for row in ("coranet", "supervised")}
    dice = {row: Scores.read_csv(run).by_case("dsc") for row, run in runs.items()}
    lost = [case for case, one in dice["coranet"].items() if one < 0.5]
    others = {row: 100 * mean(one for case, one in cases.items() if case not in lost) for row, cases in dice.items()}
    own = Scores.read_csv(HERE / "left-atrium/scores.csv").mean()["dsc"]
    return (
        f"On the left atrium `coranet` misses {len(lost)} of {len(dice['coranet'])} test scans nearly whole; on the others "
        f"it has {others['coranet']:.1f}, supervised {others['supervised']:.1f}. By the paper's recipe it has "
        f"{100 * own.mean:.1f} [{100 * own.low:.1f}, {100 * own.high:.1f}]"
    )


def made_by(run: Path) -> dict[str, str | int]:
    """The steps and the commit of a run."""
    content = json.loads((run / "run.json").read_text())
    return {"steps": content["train"]["steps"], "commit": content["made_with"]["commit"]}


def made_with(runs: Sequence[Path]) -> tuple[str, str]:
    """The steps and the commits of several runs, in words."""
    made = [made_by(run) for run in runs]
    steps, commits = {f"{one['steps']:,}" for one in made}, {str(one["commit"]) for one in made}
    return " or ".join(sorted(steps)), ", ".join(sorted(commits))


def section() -> str:
    """The whole of it."""
    commit = made_by(HERE / "ranking/phantom/supervised-seed0")["commit"]
    text = (HERE / "section.md").read_text(encoding="utf-8")
    return text.format(
        demo=demo(),
        hippocampus=hippocampus(),
        real=real(),
        missed=missed(),
        ranking=ranking_said(),
        sunnybrook=sunnybrook(),
        uncertainty=uncertainty(),
        commit=commit,
    )


@cache
def paper_parts(name: str) -> tuple[Part, ...]:
    """What runs in `paper` say in a table of the paper."""
    return read_table(HERE / "paper", TABLES[name])


def paper_table(name: str) -> str:
    """Such a table, without its title, and the commits that its rows were run at."""
    parts = paper_parts(name)
    _, _, rows = table_markdown(TABLES[name], parts).partition("\n\n")
    made = [
        "; ".join(f"{line.row.label}: {made_with(line.runs)[1]}" for line in part.lines if line.runs) for part in parts
    ]
    return f"{rows.strip()}\n\nCommits: {'. '.join(made)}."


def study(name: str) -> str:
    """What runs say in a study, without its title, and the commits that they were run at."""
    root = HERE / STUDIED[name]
    sheets = STUDIES[name](root)
    _, _, rows = sheets_markdown(name, sheets).partition("\n\n")
    named = {str(line["run"]) for sheet in sheets for line in sheet.numbers if "run" in line}
    _, commits = made_with([root / run for run in named] or list(root.glob("*/*-seed*")))
    return f"{rows.strip()}\n\nCommits: {commits}."


def made_parts() -> dict[Path, dict[str, str]]:
    """What is made in which page, by the name that its place there has."""
    return {
        README: {"": section()},
        RANKING: {f", {folder}": ranking_table(folder) for folder in RANKINGS},
        EVIDENCE: {f", {name}": paper_table(name) for name in PAPER} | {f", {name}": study(name) for name in STUDIED},
    }


def with_parts(text: str, parts: dict[str, str]) -> str:
    """A page with its made parts made anew."""
    for name, made in parts.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        assert begin, f"there is no {BEGIN.format(name)}"
        text = f"{before}{begin}\n{made}\n{END}{rest.partition(END)[2]}"
    return text


def main() -> None:
    """Write pages and tables."""
    for page, parts in made_parts().items():
        page.write_text(with_parts(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
    for folder in RANKINGS:
        write_comparison(HERE / "ranking" / folder, rankings(folder), {})


if __name__ == "__main__":
    main()
