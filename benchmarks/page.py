"""Write RESULTS.md and its plot from the files in benchmarks/results.

python benchmarks/page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rows import RESULTS

SOURCES = HERE = Path(__file__).parent


def read(name: str) -> list[dict[str, Any]]:
    """The rows of one file, none where it is not there."""
    path = RESULTS / f"{name}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def number(value: float | None) -> str:
    """Short."""
    return "" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows with a bound or a peer, or without."""
    lines = ["| figure | value | must | aim | reached | beside | work |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        beside = f"{row['ratio']} times {row['peer_name']} ({number(row['peer'])})" if row["ratio"] else ""
        lines.append(
            f"| `{row['name']}` | {number(row['value'])} {row['unit']} | {number(row['must'])} | {number(row['aim'])} "
            f"| {row['verdict']} | {beside} | {row['what']} |"
        )
    return "\n".join(lines) + "\n"


def made(rows: list[dict[str, Any]]) -> str:
    """On what, when and how."""
    found = dict.fromkeys(
        f"{row['device']}, torch {row['torch']}, commit {row['commit']}, {row['date']}: `{row['command']}`"
        for row in rows
    )
    return "\n".join(f"- {line}" for line in found) + "\n"


def beside(peers: list[dict[str, Any]]) -> str:
    """The peers' steps once more, and ours in the same run; nothing where it was not made yet."""
    title = "### The same once more, in the run that times ours (`python benchmarks/peer_steps.py`)"
    return f"{title}\n\n{table(peers)}\n{made(peers)}\n" if peers else ""


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and memory against cases, size and classes, each with the line that grows as its input does."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    axes, kinds = ("cases", "side", "classes"), ("load_s", "step_ms", "refresh_s", "memory_mb")
    titles = {"load_s": "loading, s", "step_ms": "a step, ms", "refresh_s": "relabelling, s", "memory_mb": "memory, MB"}
    figure, grid = plt.subplots(len(kinds), len(axes), figsize=(9, 9), constrained_layout=True)
    for column, axis in enumerate(axes):
        for line, kind in enumerate(kinds):
            points = sorted(
                (int(row["name"].split("_")[2]), row["value"])
                for row in rows
                if row["name"].startswith(f"growth_{axis}_") and row["name"].endswith(kind)
            )
            if not points:
                continue
            place = grid[line][column]
            xs, ys = zip(*points, strict=True)
            power = 2 if axis == "side" else 1
            place.loglog(xs, ys, "o-", color="#1f77b4")
            place.loglog(xs, [ys[-1] * (x / xs[-1]) ** power for x in xs], ":", color="grey")
            place.set_xticks(xs, [str(x) for x in xs])
            place.minorticks_off()
            if line == 0:
                place.set_title("side of a slice" if axis == "side" else axis)
            if column == 0:
                place.set_ylabel(titles[kind])
    figure.savefig(path, dpi=110)


def main() -> None:
    """Write the page."""
    gpu, cpu, growth, prepared, peers = map(read, ("gpu", "cpu_step", "cpu_growth", "prepare", "peers"))
    methods = [row for row in gpu if row["name"].startswith("method_")]
    others = [row for row in gpu if row not in methods]
    lines = [f"| {row['name'][7:-8]} | {row['value']:.1f} | {row['what'].split('; ', 1)[1]} |" for row in methods]
    if growth:
        plot(growth, HERE / "growth.png")
    page = f"""# How fast

Made by `python benchmarks/page.py` from the files in [results](results), which `make bench` (CPU) and
`python benchmarks/gpu.py` (a GPU) write.

## What others take

On an NVIDIA H200 on 2026-11-15, each of one run. The chip's measured ceilings: 790 TFLOP/s in bf16, 4.3 TB/s.

{(SOURCES / "peers.md").read_text()}
{beside(peers)}## On a GPU

{table(others)}
{made(others)}
{(SOURCES / "notes.md").read_text()}
## Every method

A step of U-Net 16, 4 + 4 slices of 256 x 256, 4 classes; beside supervised, which draws its unlabelled half too and
does not look at it. Steps this small wait for the host's drawing of the batch, not for the GPU: rows of 5 to 7 ms say
little of the method, and supervised itself took 5.3, 6.2 and 5.1 ms in three runs on three machines. Memory is the peak
since the trainer was made: where a method relabels, that of predicting 256 slices at once.

| method | ms | |
|---|---|---|
{chr(10).join(lines)}

{made(methods)}
## On a CPU

{table(cpu)}
{made(cpu)}
## Preparing scans

On two cores, other work on them at times; a case may take three times its decoded float32 volume and 300 MB. Scaled:
the file's header has a slope.

{table(prepared)}
{made(prepared)}
## Growth

Time and memory on two CPU cores against the number of cases, the side of a slice and the number of classes; dotted:
growth with the input, which is the number of voxels for the side. Memory is what the process holds after some steps
beyond what it held before the scans were loaded.

![growth](growth.png)

{made(growth)}"""
    (HERE / "RESULTS.md").write_text(page.rstrip() + "\n")
    print(HERE / "RESULTS.md")


if __name__ == "__main__":
    main()
