"""Scans that are made on the spot, and trainers on them: the work that is measured."""

from __future__ import annotations

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from coranet.data.prepare.cases import Preparation, plan
from coranet.data.splits.by_patient import Split
from coranet.data.store import Store, StoreWriter
from coranet.engine.run import Accel, Optim, Run, Train
from coranet.engine.timeline import Stretch
from coranet.engine.trainer import Trainer
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Window
from coranet.geometry import Geometry
from coranet.methods import Method
from coranet.nets import Net
from coranet.runs.presets.scans import describe

EXACT = Accel()
FAST = Accel(precision="bf16", channels_last=True, graphs=True, fused=True)
"""What `coranet train` takes on a GPU."""


def make_store(folder: Path, shape: tuple[int, int, int], cases: int, classes: int = 2, seed: int = 0) -> Store:
    """Noise with a bright box of each class in it."""
    generator = np.random.default_rng(seed)
    affine = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    grid = plan(Geometry(shape=shape, affine=affine), Preparation())
    header = {
        "name": "made",
        "channels": ["MR"],
        "classes": {str(k): "background" if k == 0 else f"object {k}" for k in range(classes)},
        "preparation": {},
    }
    with StoreWriter(folder / "store", header) as writer:
        for number in range(cases):
            label = np.zeros(shape, np.uint8)
            for k in range(1, classes):
                low = [int(generator.integers(0, max(n // 2, 1))) for n in shape]
                label[tuple(slice(a, a + max(n // 4, 1)) for a, n in zip(low, shape, strict=True))] = k
            image = generator.standard_normal((1, *shape), np.float32) + label
            writer.add(f"case_{number:04d}", f"case_{number:04d}", image, label, grid.to_json(), planes=grid.planes)
    return Store.open(folder / "store")


def make_trainer(
    store: Store,
    folder: Path,
    *,
    method: Method,
    net: Net,
    window: Window,
    batch: tuple[int, int],
    augment: Augment,
    device: torch.device,
    accel: Accel,
    optim: Optim | None = None,
    steps: int = 2000,
    labelled: int | None = None,
) -> Trainer:
    """A trainer of half the cases as labelled ones, or of so many."""
    names = tuple(store.cases)
    cut = labelled or len(names) // 2
    split = Split(labelled=names[:cut], unlabelled=names[cut:])
    run = Run(
        data=replace(describe("made", store, split), window=window, augment=augment),
        split=split,
        net=net,
        method=method,
        optim=optim or Optim(),
        train=Train(steps=steps, batch=batch),
        accel=accel,
    )
    folder.mkdir(parents=True, exist_ok=True)
    return Trainer(run, store, folder, device)


def last_phase(trainer: Trainer) -> Stretch:
    """The phase in which unlabelled images count."""
    return trainer.setup.timeline[-1]


def wait(device: torch.device) -> None:
    """Until the device has done what it was asked to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(work: Callable[[], object], device: torch.device, *, repeats: int = 5, inner: int = 1) -> float:
    """The median over repeats of the time of one piece of work."""
    taken = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        for _ in range(inner):
            work()
        wait(device)
        taken.append(1000 * (time.perf_counter() - began) / inner)
    return statistics.median(taken)


class Steps:
    """Calls itself a step at a time, in the last phase of a trainer."""

    def __init__(self, trainer: Trainer, warm_up: int = 8) -> None:
        self.trainer, self.stretch = trainer, last_phase(trainer)
        self.at = self.stretch.start
        for _ in range(warm_up):
            self()

    def __call__(self) -> None:
        """The next step, drawing included."""
        self.trainer.step(self.at, self.stretch)
        self.at += 1


DONT_NEED = 4
"""Linux's number for memory that is not needed now."""


@contextmanager
def forgotten(folder: Path, every: float = 0.02) -> Iterator[Callable[[], float]]:
    """Take the files of a store out of the page cache again and again, as if memory were too small to keep any of them.

    Gives a function that says how many MB a second came from the disk since then.
    """
    os.sync()  # what is not written yet cannot be forgotten
    files, stop = [file.resolve() for file in folder.glob("*.bin")], threading.Event()
    began, before = time.perf_counter(), _bytes_read()

    def forget() -> None:
        while not stop.wait(every):
            _forget(files)

    thread = threading.Thread(target=forget)
    thread.start()
    try:
        yield lambda: (_bytes_read() - before) / (time.perf_counter() - began) / 1e6
    finally:
        stop.set()
        thread.join()


def _forget(files: list[Path]) -> None:
    names, libc = set(map(str, files)), ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():  # a page that is mapped stays in the cache
        span, *_, name = line.split(maxsplit=5)
        if name in names:
            low, high = (int(end, 16) for end in span.split("-"))
            libc.madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), DONT_NEED)
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_read() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])
