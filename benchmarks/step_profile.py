"""Where the time of a training step goes on a GPU: its parts, its kernels, and how many of them there are.

    python benchmarks/step_profile.py --out DIR --rows supervised coranet:plus --widths 16 32

Each row is timed alone, by preset `auto`'s recipe on scans made on the spot (8 + 8 slices of 192 x 192, four classes). Then
twenty steps are profiled. DIR receives kernels.csv: per row, kernels of a step by the time they take.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from work import FAST, Steps, make_store, make_trainer, milliseconds, wait

from coranet.engine.run import Accel, Optim
from coranet.engine.trainer import Trainer
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Patches, Slices
from coranet.methods import Method, find_method
from coranet.nets import Net
from coranet.ops.appearance import Appearance
from coranet.runs.row_text import parse_row

VIEWS = Augment(rotate=20, scale=(0.8, 1.25), flip=False, share=0.5, appearance=Appearance(), appearance_of="labelled")
ADAM = Optim(lr=1e-3, betas=(0.9, 0.999), decay="poly")


def main() -> None:
    """Time and profile each row."""
    asked = _arguments()
    device = torch.device(asked.device)
    accel = replace(FAST, deterministic=not asked.search) if device.type == "cuda" else Accel()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = (96, 96, 96) if asked.dims == 3 else (asked.side + 24, asked.side + 24, 10)
        store = make_store(folder / "scans", shape, 40, classes=4)
        rows: list[dict[str, Any]] = []
        for width in asked.widths:
            for number, row in enumerate(asked.rows):
                trainer = make_trainer(
                    store,
                    folder / f"run-{width}-{number}",
                    method=method_of(row),
                    net=Net(body="vnet" if asked.dims == 3 else "unet", width=width),
                    window=Patches(size=(asked.side,) * 3) if asked.dims == 3 else Slices(size=(asked.side,) * 2),
                    batch=(asked.batch, asked.batch),
                    augment=VIEWS,
                    device=device,
                    accel=accel,
                    optim=ADAM,
                    steps=100_000,
                )
                rows += seen(f"{row} {width}", trainer, device, asked.steps, asked.most)
                del trainer
                gc.collect()
        asked.out.mkdir(parents=True, exist_ok=True)
        with (asked.out / "kernels.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["row", "kernel", "calls_per_step", "us_per_step"])
            writer.writeheader()
            writer.writerows(rows)


def method_of(row: str) -> Method:
    """From a row's text, such as coranet:plus[views=2;region=none]."""
    name, settings = parse_row(row)
    return find_method(name)(dice=1.0, **{key: json.loads(value) for key, value in settings.items()})


def seen(name: str, trainer: Trainer, device: torch.device, steps: int, most: int) -> list[dict[str, Any]]:
    """Print what a row takes, and give its kernels."""
    work = Steps(trainer)
    taken = milliseconds(work, device, repeats=3, inner=steps)
    began = time.perf_counter()
    for _ in range(steps):
        trainer.setup.batch(work.at, trainer.state.memory)
    asked = 1000 * (time.perf_counter() - began) / steps
    wait(device)
    drawn = 1000 * (time.perf_counter() - began) / steps
    print(f"{name}: {taken:.2f} ms a step; drawing alone {drawn:.2f} ms, {asked:.2f} of it on the CPU", flush=True)
    if device.type != "cuda":
        return []
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(steps):
            work()
        wait(device)
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for event in record.events() or ():
        if event.device_type.value:
            times[event.name] += event.time_range.elapsed_us()
            calls[event.name] += 1
    total, count = sum(times.values()) / steps, sum(calls.values()) / steps
    print(f"  {total / 1000:.2f} ms in {count:.0f} kernels and copies a step", flush=True)
    for kernel, micros in times.most_common(most):
        print(f"  {micros / steps:8.1f} us {calls[kernel] / steps:6.1f} x {kernel[:150]}", flush=True)
    return [
        {"row": name, "kernel": kernel, "calls_per_step": calls[kernel] / steps, "us_per_step": round(us / steps, 2)}
        for kernel, us in times.most_common()
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=["supervised", "coranet:plus"])
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--side", type=int, default=192)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--dims", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--most", type=int, default=45, help="kernels to print")
    parser.add_argument("--search", action="store_true", help="let cuDNN search for algorithms, deterministic or not")
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


if __name__ == "__main__":
    main()
