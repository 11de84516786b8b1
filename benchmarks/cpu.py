"""What is measured on a CPU: the demo's step beside a plain loop, and how time and memory grow with the data.

    python benchmarks/cpu.py step growth

The plain loop is what a careful person writes by hand: the same networks, losses and updates in eager fp32 with PyTorch's
default layout and optimizer, on batches that both draw and augment alike.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from rows import RESULTS, Report, Row
from torch import nn
from work import Steps, last_phase, make_store, make_trainer, milliseconds

from coranet.engine.listeners.film import Film
from coranet.engine.run import Accel
from coranet.engine.trainer import Trainer
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Slices
from coranet.methods.coranet import CoraNet
from coranet.nets import MakeNet, Net
from coranet.runs.demonstration import Demo, prepare_demo
from coranet.runs.options import Options
from coranet.runs.run_plan import make_run

CPU = torch.device("cpu")
PAIRS = 81
"""How often step and plain loop are timed, three of each at a time: 21 pairs left the ratio unsure by 0.02."""


class PlainLoop:
    """The demo's CoraNet by hand."""

    def __init__(self, trainer: Trainer) -> None:
        run, stretch = trainer.run, last_phase(trainer)
        self.method = run.method
        torch.manual_seed(0)
        self.nets: dict[str, nn.Module] = dict(
            run.method.nets(MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes))
        )
        self.optimizer = torch.optim.Adam(self.nets["student"].parameters(), run.optim.lr, run.optim.betas)
        self.trainer, self.step = trainer, stretch.start
        self.at = trainer.setup.progress(stretch.start, stretch)

    def __call__(self) -> None:
        """One step."""
        batch = self.trainer.setup.batches.at(self.step, self.trainer.state.memory)
        self.step += 1
        student, teacher = self.nets["student"].train(), self.nets["teacher"]
        for update in self.method.objectives(self.at.phase):
            self.optimizer.zero_grad()
            update.loss(self.nets, batch, self.at).total.backward()
            self.optimizer.step()
        with torch.no_grad():
            theirs = student.state_dict()
            for name, value in teacher.state_dict().items():
                if value.is_floating_point():
                    value.mul_(0.99).add_(theirs[name], alpha=0.01)


def step(report: Report) -> None:
    """The demo's training step, and the whole demo."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(out=Path(folder))
        prepare_demo(demo)
        options = Options(method="coranet", steps=demo.steps, seed=demo.seed, device="cpu", cache=demo.out / "cache")
        run, store = make_run(demo.data, options, CPU)
        (Path(folder) / "ours").mkdir()
        ours = Steps(Trainer(run, store, Path(folder) / "ours", CPU), warm_up=3)
        plain = PlainLoop(ours.trainer)
        plain()
        pairs = []
        for _ in range(PAIRS):  # by turns, since a shared machine is now faster and now slower
            mine = milliseconds(ours, CPU, repeats=1, inner=3)
            pairs.append((mine, milliseconds(plain, CPU, repeats=1, inner=3)))
        mine, theirs = (sorted(times)[len(times) // 2] for times in zip(*pairs, strict=True))
        report.add(
            Row(
                name="cpu_step_ratio",
                value=statistics.median(other / own for own, other in pairs),
                unit="times",
                what=f"the demo's step: {mine:.1f} ms; a plain loop of the same {theirs:.1f} ms; {PAIRS} by turns",
                must=1.25,
                aim=1.5,
                less_is_better=False,
            )
        )
        whole = {}
        for name, accel in (("ours", run.accel), ("plain", Accel())):
            began = time.monotonic()
            target = Path(folder) / f"whole-{name}"
            target.mkdir()
            Trainer(replace(run, accel=accel), store, target, CPU, [Film(target)]).fit()
            whole[name] = time.monotonic() - began
        report.add(
            Row(
                name="cpu_demo_run_s",
                value=whole["ours"],
                unit="s",
                what=f"the demo's CoraNet run of {run.train.steps} steps, relabelling and pictures included",
                peer=whole["plain"],
                peer_name="the same with accel off",
            )
        )


GROWTH = {
    "cases": [10, 30, 100, 300, 1000],
    "side": [32, 64, 128, 256],
    "classes": [2, 4, 8, 16],
}


def resident_mb() -> float:
    """What the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def grown(axis: str, value: int) -> dict[str, float]:
    """Seconds and memory of one small training at one size; meant to be a process of its own."""
    cases, side, classes = (
        value if axis == name else default for name, default in (("cases", 20), ("side", 48), ("classes", 2))
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        began = time.monotonic()
        store = make_store(root, (side, side, 4), cases, classes)
        made = time.monotonic()
        before = resident_mb()
        trainer = make_trainer(
            store,
            root / "run",
            method=CoraNet(updates="joint", refresh_every=1e9),
            net=Net(width=8, levels=3),
            window=Slices(size=(side, side)),
            batch=(4, 4),
            augment=Augment(),
            device=CPU,
            accel=Accel(channels_last=True),
            steps=100_000,
        )
        loaded = time.monotonic()
        work = Steps(trainer, warm_up=2)
        refreshed = milliseconds(lambda: trainer.refresh(0), CPU, repeats=1)
        return {
            "load_s": loaded - made,
            "step_ms": milliseconds(work, CPU, repeats=3, inner=3),
            "refresh_s": refreshed / 1000,
            "memory_mb": resident_mb() - before,
            "made_s": made - began,
        }


def growth(report: Report) -> None:
    """Time and memory against cases, size and classes, each in a process of its own."""
    for axis, values in GROWTH.items():
        for value in values:
            found = subprocess.run(
                [sys.executable, __file__, "--grow", axis, str(value)], capture_output=True, text=True, check=True
            )
            for kind, number in json.loads(found.stdout.splitlines()[-1]).items():
                if kind != "made_s":
                    unit = kind.rpartition("_")[2].replace("mb", "MB")
                    report.add(
                        Row(name=f"growth_{axis}_{value}_{kind}", value=number, unit=unit, what=f"{axis} = {value}")
                    )


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["step", "growth"], help="step, growth")
    parser.add_argument("--grow", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.grow:
        print(json.dumps(grown(args.grow[0], int(args.grow[1]))))
        return
    for part in args.parts:
        {"step": step, "growth": growth}[part](Report(f"cpu_{part}", CPU, args.out))


if __name__ == "__main__":
    main()
