"""What all runs say, in a page: the words are in `digest.md`, the numbers are computed here."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev

from coranet.evaluation import Scores
from coranet.paper.pages.evidence_parts import parts_of
from coranet.paper.pages.origin import origin_of, origins_of
from coranet.paper.pages.rankings import ranking_sentence
from coranet.paper.pages.real_scans import whole_table
from coranet.report.numbers import in_points, markdown
from coranet.report.run_files import read_json
from coranet.report.seeds import Standing, standings

DEMO = {
    "supervised": "supervised: the same network on the labels alone",
    "coranet": "`coranet`: the paper's method",
    "coranet-repaired": "`coranet:repaired`: one change",
}
AHEAD = "ahead of supervised, 95 % interval over patients"


def digest(runs: Path) -> str:
    """The whole of it."""
    return (
        Path(__file__)
        .with_suffix(".md")
        .read_text(encoding="utf-8")
        .format(
            demo=_demo(runs),
            hippocampus=_hippocampus(runs),
            real=whole_table(runs),
            missed=_missed(runs),
            sunnybrook=_sunnybrook(runs),
            uncertainty=_uncertainty(runs),
            ranking=ranking_sentence(runs),
            commit=origin_of(runs / "ranking/phantom/supervised-seed0").commit,
        )
    )


def _demo(runs: Path) -> str:
    found, rows = _standings(runs / "demo-fresh", seeds=5), []
    for name, title in DEMO.items():
        one, ahead = found[name], found[name].ahead
        by = "" if ahead is None else in_points(ahead)
        dice = f"{100 * mean(one.each):.1f} ± {100 * one.std:.1f}"
        rows.append({"": title, "mean ± std over seeds": dice, AHEAD: by})
    return markdown(rows)


def _hippocampus(runs: Path) -> str:
    """Means over three seeds, and of all labels."""
    place = runs / "hippocampus"
    found = _standings(place, seeds=3, first="-seed0")
    every = 100 * Scores.read_csv(place / "supervised-208-labels-seed0/scores.csv").mean_of("dsc")
    supervised, coranet, repaired = (f"{100 * mean(found[row].each):.2f}" for row in DEMO)
    return (
        "Real scans, hippocampus MR with 10 labelled and 198 unlabelled cases, 52 test cases, three seeds:\n"
        f"supervised {supervised}, `coranet` {coranet}, `coranet:repaired` {repaired}; with all 208 labels {every:.2f}."
    )


def _standings(folder: Path, seeds: int, first: str = "") -> dict[str, Standing]:
    """Rows of DEMO over several seeds, by name; `first` is how the folder of seed 0 ends."""
    endings = [first, *(f"-seed{seed}" for seed in range(1, seeds))]
    return {one.name: one for one in standings([{row: folder / f"{row}{end}" for row in DEMO} for end in endings])}


def _missed(runs: Path) -> str:
    """What CoraNet's mean on the left atrium owes to scans that it misses, and what it has by another recipe."""
    scores = {row: runs / f"paper/la-16/{row}-seed0/scores.csv" for row in ("coranet", "supervised")}
    dice = {row: Scores.read_csv(file).by_case("dsc") for row, file in scores.items()}
    lost = [case for case, one in dice["coranet"].items() if one < 0.5]
    others = {row: 100 * mean(one for case, one in cases.items() if case not in lost) for row, cases in dice.items()}
    own = Scores.read_csv(runs / "left-atrium/scores.csv").mean()["dsc"]
    return (
        f"On the left atrium `coranet` misses {len(lost)} of {len(dice['coranet'])} test scans nearly whole. On the others "
        f"it has {others['coranet']:.1f},\nand supervised {others['supervised']:.1f}. By the paper's recipe it has "
        f"{100 * own.mean:.1f} [{100 * own.low:.1f}, {100 * own.high:.1f}]"
    )


def _sunnybrook(runs: Path) -> str:
    """The paper's ablation and its comparison at 1 : 4, on the set that stands for its own."""
    (ablation,), (compared,) = parts_of(runs, "table4"), parts_of(runs, "table7")
    dice = [mean(line.cells["dsc"].ours) for line in ablation.lines]
    lines = {line.row.label: line for line in compared.lines}
    supervised, ours = (
        f"{mean(lines[row].cells['dsc'].ours):.1f} ± {stdev(lines[row].cells['dsc'].ours):.1f}"
        for row in ("U-Net", "Ours")
    )
    made = origins_of([run for line in (lines["U-Net"], lines["Ours"], *ablation.lines) for run in line.runs])
    (patients,) = {line.ahead.n for line in ablation.lines if line.ahead}
    return (
        f"The text's recipe on the endocardium, {made.steps} steps, {len(lines['Ours'].runs)} seeds, "
        f"{patients} test patients.\n"
        f"With one in five patients labelled supervised has {supervised} and `coranet` {ours}. "
        f"With one in two, the seven rows\nof the ablation lie between {min(dice):.1f} and {max(dice):.1f}. "
        f"(The paper has six; one of them reads two ways.)\n"
        f"What the method adds to the supervised loss does not show here. H200, commits {made.commit}"
    )


def _uncertainty(runs: Path) -> str:
    """What CRM's region holds on Sunnybrook, beside as many of the least confident pixels."""
    run = runs / "paper/sunnybrook-1to1/coranet-seed0"
    last = read_json(run / "held.json")["looks"][-1]
    return (
        "At the end of self-training the region where the conservative and the radical head disagree\n"
        f"holds {100 * last['held']:.0f} % of the errors in pseudo-labels. As many of the least confident pixels hold "
        f"{100 * last['softmax']:.0f} % (one seed, commit {origin_of(run).commit})"
    )
