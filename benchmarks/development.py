"""Many short trainings on development splits, side by side on one GPU, and one table of what they reach.

    python benchmarks/development.py rows.json --data DIR --splits a.json b.json --out DIR --steps 6000 --at-once 16

rows.json lists what is trained, a name and what differs from `shared`:

    {"shared": {"preset": "auto", "dims": 2, "patch": [192, 192], "set": ["net.width=16"]},
     "rows": {"supervised": {"method": "supervised"},
              "wide": {"method": "supervised", "set": ["net.width=32"]}}}

A row's `set` comes after the shared one; both are as in `coranet train --set`. Runs start in the order seeds x rows x
splits, so many at once, each a process, under NVIDIA's MPS where it is there. After `--budget` seconds what still runs is
ended and what it has logged is kept. DIR receives scores.csv, a line for each look at the validation cases, and failures.txt
where runs failed. Validation cases are looked at a few times a run and nothing is chosen by them here; test cases are never
read.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coranet.data.doctor.inspection import inspect_folder
from coranet.data.prepare.store_builder import cached_store, cores
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store
from coranet.engine.run import versions
from coranet.errors import InputError
from coranet.runs.launch import train
from coranet.runs.options import Options
from coranet.runs.presets import choose_dims, find_preset


@dataclass
class Job:
    """One training."""

    row: str
    split: Path
    seed: int
    settings: dict[str, Any]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    began: float = 0.0
    state: str = "waiting"
    """Then running, and done, failed or ended."""
    command: list[str] = field(default_factory=list)

    def start(self) -> None:
        """As a process of its own, which says into a file what it has to say."""
        self.folder.mkdir(parents=True)
        (self.folder / "job.json").write_text(json.dumps(self.settings))
        with (self.folder / "output.txt").open("wb") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.STDOUT)
        self.began, self.state = time.monotonic(), "running"

    def look(self) -> None:
        """Whether it still runs."""
        if self.process is not None and self.state == "running" and self.process.poll() is not None:
            self.state = "failed" if self.process.returncode else "done"

    def end(self) -> None:
        """Before its time."""
        self.look()
        if self.process is not None and self.state == "running":
            self.process.kill()
            self.process.wait()
            self.state = "ended"

    def records(self) -> Iterator[dict[str, Any]]:
        """What was logged of validation cases."""
        log = self.folder / "run" / "log.jsonl"
        for line in log.read_text().splitlines() if log.exists() else ():
            try:
                record: dict[str, Any] = json.loads(line)
            except json.JSONDecodeError:  # killed while writing
                continue
            if record.get("val"):
                yield record


def main() -> int:
    """Read rows, run them, write what they reached."""
    if len(sys.argv) == 3 and sys.argv[1] == "--job":
        return one(Path(sys.argv[2]))
    asked = _arguments()
    content = json.loads(asked.rows.read_text())
    shared, rows = content.get("shared", {}), content["rows"]
    chosen = {name: row for name, row in rows.items() if asked.only is None or name in asked.only}
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="development-", dir=asked.work))
    data = prepared(asked.data, shared, asked.splits, asked.cache or folder / "cache")
    print(f"prepared in {time.monotonic() - began:.0f} s: {data}", flush=True)
    jobs = [
        _job(
            name,
            {**shared, **row, "set": [*shared.get("set", []), *row.get("set", [])]},
            split,
            seed,
            data,
            folder,
            asked,
        )
        for seed in asked.seeds
        for name, row in chosen.items()
        for split in asked.splits
    ]
    os.environ["OMP_NUM_THREADS"] = str(max(cores() // asked.at_once, 1))
    with_mps = start_mps(folder) if asked.at_once > 1 else False
    try:
        run_all(jobs, asked.at_once, began + asked.budget)
    finally:
        for job in jobs:
            job.end()
        if with_mps:
            subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", check=False, timeout=30)
    report(jobs, asked.out, asked.commit or versions()["commit"])
    print(f"{time.monotonic() - began:.0f} s; {_states(jobs)}", flush=True)
    if not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def prepared(data: Path, shared: dict[str, Any], splits: Sequence[Path], cache: Path) -> Path:
    """The store all runs share, made once on all cores; one that is there already is taken as it is."""
    if Store.is_store(data):
        return data
    found = inspect_folder(data, lambda done, total: None)
    if found.fatal or found.dataset is None or found.facts is None:
        raise InputError(f"{data}: cannot be trained on; `coranet doctor {data}` says why.")
    facts, preset = found.facts, find_preset(shared.get("preset", "auto"))
    dims = preset.dims or shared.get("dims") or choose_dims(facts.shapes.median, facts.spacings.median)
    wanted = {case for split in splits for case in Split.read(split).stored}
    cases = [case for case in found.dataset.cases if case.name in wanted]
    settings = preset.prepare(facts, found.dataset.channels, dims)
    return cached_store(found.dataset, cases, settings, cache, jobs=cores()).path


def one(folder: Path) -> int:
    """A training, in its own process."""
    asked = json.loads((folder / "job.json").read_text())
    pairs = [text.partition("=") for text in asked.get("set", [])]
    options = Options(
        preset=asked.get("preset"),
        method=asked.get("method"),
        steps=asked["steps"],
        seed=asked["seed"],
        split=Path(asked["split"]),
        save_every=10**9,  # nothing is continued here
        device=asked.get("device"),
        dims=asked.get("dims"),
        net=asked.get("net"),
        patch=tuple(asked["patch"]) if asked.get("patch") else None,
        overrides=(("train.checks", str(asked["checks"])), ("train.log_every", "500"), *((k, v) for k, _, v in pairs)),
    )
    train(Path(asked["data"]), folder / "run", options, say=print)
    return 0


def run_all(jobs: Sequence[Job], at_once: int, until: float) -> None:
    """So many at once, in order, until all are done or time is up."""
    told = ""
    while time.monotonic() < until:
        for job in jobs:
            job.look()
        running = [job for job in jobs if job.state == "running"]
        waiting = [job for job in jobs if job.state == "waiting"]
        if not running and not waiting:
            return
        for job in waiting[: at_once - len(running)]:
            job.start()
        now = _states(jobs)
        if now != told:
            print(now, flush=True)
            told = now
        time.sleep(0.5)


def start_mps(folder: Path) -> bool:
    """Let processes share the GPU's units at the same time, where the driver can."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        print("no MPS here: processes take turns", flush=True)
        return False
    for name in ("PIPE", "LOG"):
        place = folder / f"mps-{name.lower()}"
        place.mkdir()
        os.environ[f"CUDA_MPS_{name}_DIRECTORY"] = str(place)
    return subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False).returncode == 0


def report(jobs: Sequence[Job], out: Path, commit: str) -> None:
    """One table, and what failed runs said last."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "row": job.row,
            "split": job.split.stem,
            "seed": job.seed,
            "step": record["step"],
            "dice": round(100 * record["val"]["mean"], 2),
            **{name: round(100 * value, 2) for name, value in record["val"].items() if name != "mean"},
            "seconds": round(record["seconds"], 1),
            **{f"measure {name}": round(value, 4) for name, value in record.get("measures", {}).items()},
            "state": job.state,
            "commit": commit,
        }
        for job in jobs
        for record in job.records()
    ]
    names = list(dict.fromkeys(name for line in lines for name in line))
    with (out / "scores.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(lines)
    failed = [job for job in jobs if job.state != "done"]
    if failed:
        said = [
            f"## {job.row} {job.split.stem} seed {job.seed}: {job.state}\n{_last_words(job.folder / 'output.txt')}\n"
            for job in failed
        ]
        (out / "failures.txt").write_text("\n".join(said))
    for line in _final(lines):
        print(line, flush=True)


def _final(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each row's newest scores, to be read at once."""
    newest: dict[str, dict[tuple[str, int], tuple[int, float]]] = {}
    for line in lines:
        newest.setdefault(line["row"], {})[line["split"], line["seed"]] = line["step"], line["dice"]
    for row, found in newest.items():
        mean = sum(dice for _, dice in found.values()) / len(found)
        parts = (f"{split}/{seed} {dice:.2f} @{step}" for (split, seed), (step, dice) in found.items())
        yield f"{row}: {mean:.2f} ({', '.join(parts)})"


def _job(
    name: str, settings: dict[str, Any], split: Path, seed: int, data: Path, folder: Path, asked: argparse.Namespace
) -> Job:
    place = folder / f"{name}-{split.stem}-{seed}".replace("/", "_").replace(" ", "_")
    steps = settings.get("steps", asked.steps)
    whole = {**settings, "steps": steps, "seed": seed, "split": str(split.resolve()), "data": str(data)}
    whole |= {"checks": asked.checks, "device": asked.device}
    command = [sys.executable, str(Path(__file__).resolve()), "--job", str(place)]
    return Job(name, split, seed, whole, place, command=command)


def _states(jobs: Sequence[Job]) -> str:
    counts = {
        state: sum(job.state == state for job in jobs) for state in ("waiting", "running", "done", "failed", "ended")
    }
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _last_words(file: Path) -> str:
    return "\n".join(file.read_text(errors="replace").splitlines()[-12:]) if file.exists() else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="a raw folder, or a store of all cases")
    parser.add_argument("--splits", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help="names of rows; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--checks", type=int, default=3, help="looks at validation cases over a run")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything")
    parser.add_argument("--device")
    parser.add_argument("--commit", help="where this is no checkout")
    parser.add_argument("--cache", type=Path, help="where the store is kept")
    parser.add_argument("--work", type=Path, help="where run folders are made")
    parser.add_argument("--keep", action="store_true", help="keep run folders")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
