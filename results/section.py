"""Write the README's section of results from the runs in this folder; its words are in `section.md`.

    python results/section.py

Every number is computed from scores here; `tests/test_docs.py` fails when the README says something else.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from coranet.evaluation import Scores
from coranet.report import Standing, standings

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- made by results/section.py -->\n", "<!-- until here -->\n"

DEMO = {
    "supervised": "supervised: the same network on the labels alone",
    "coranet": "`coranet`: the paper's method",
    "coranet-repaired": "`coranet:repaired`: one change",
}


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
    found = seeds_of("demo", DEMO, 5)
    lines = ["| | mean ± std over seeds | ahead of supervised, 95 % interval over cases |", "|---|---|---|"]
    for name, title in DEMO.items():
        ahead = found[name].ahead
        said = (
            "" if ahead is None else f"{100 * ahead.difference:+.1f} [{100 * ahead.low:+.1f}, {100 * ahead.high:+.1f}]"
        )
        lines.append(f"| {title} | {percent(found[name])} | {said} |")
    return "\n".join(lines)


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


def left_atrium() -> str:
    """One run, with its interval over cases."""
    dice = Scores.read_csv(HERE / "left-atrium/scores.csv").mean()["dsc"]
    return (
        "Left atrium MR as volumes, 16 labelled of 80, the paper's recipe, one seed: "
        f"Dice {100 * dice.mean:.2f} [{100 * dice.low:.2f}, {100 * dice.high:.2f}]"
    )


def ranking() -> str:
    """Supervised, the best and CoraNet on two sets."""
    said = []
    for folder, seeds, title in (
        ("acdc", 1, "on ACDC with 14 labelled patients (one seed)"),
        ("phantom", 3, "on the phantom (three seeds)"),
    ):
        runs = sorted({run.name.rpartition("-seed")[0] for run in (HERE / "ranking" / folder).glob("*-seed0")})
        dice = {
            row: mean(
                Scores.read_csv(HERE / "ranking" / folder / f"{row}-seed{seed}/scores.csv").mean()["dsc"].mean
                for seed in range(seeds)
            )
            for row in runs
        }
        best = max(dice, key=lambda row: dice[row])
        named = {
            "supervised": "supervised",
            best: f"best `{best}`",
            "coranet-repaired": "`coranet:repaired`",
            "coranet": "`coranet`",
        }
        said.append(f"{title} " + ", ".join(f"{name} {100 * dice[row]:.1f}" for row, name in named.items()))
    both = ";\n".join(said)
    return f"All {len(runs)} methods, 3,000 steps, the same network, batch and augmentation: {both}."


def section() -> str:
    """The whole of it."""
    commit = json.loads((HERE / "ranking/phantom/supervised-seed0/run.json").read_text())["made_with"]["commit"]
    text = (HERE / "section.md").read_text(encoding="utf-8")
    made = text.format(
        demo=demo(), hippocampus=hippocampus(), left_atrium=left_atrium(), ranking=ranking(), commit=commit
    )
    return f"{BEGIN}\n{made}\n{END}"


def main() -> None:
    """Replace the section."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(before + section() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
