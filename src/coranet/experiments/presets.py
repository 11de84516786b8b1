"""Presets: functions from what the data and the device are to a whole Run.

auto     body, width, window, batch and steps from the data and the device; a rate that falls to zero, a Dice term
beside the cross-entropy, gentle views. What to use on scans of one's own.
paper    section IV-A of Shi et al. (2021): U-Net of 64 channels, 256 x 256 pixels, 4 + 4 images a step, Adam at a
constant 1e-3, cross-entropy alone, 30 + 100 epochs, wide views. A GPU's work: about 130 epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import torch

from coranet.data.augment import Augment
from coranet.data.batches import Slices
from coranet.data.facts import Facts
from coranet.data.grid import Grid, through_plane_axis
from coranet.data.prepare import Preparation
from coranet.data.splits import Split
from coranet.data.store import Store
from coranet.engine.run import Accel, Data, Optim, Run, Train, versions
from coranet.engine.timeline import natural_steps
from coranet.errors import InputError
from coranet.methods import Method
from coranet.methods.coranet import CoraNet
from coranet.nets import MakeNet, Net, count_parameters


@dataclass(frozen=True)
class Preset:
    """How scans are prepared, and what is then trained on them."""

    prepare: Callable[[Facts, Sequence[str]], Preparation]
    """From what the training scans are, and the channels' names."""
    run: Callable[[Data, Split, Method, Store, torch.device], Run]


def find_preset(name: str) -> Preset:
    """By name."""
    if name not in PRESETS:
        raise InputError(f"No preset is called {name!r}. There are: {', '.join(PRESETS)}.")
    return PRESETS[name]


def stack_axis(store: Store) -> Literal[0, 1, 2]:
    """The axis slices are stacked along, as the scans themselves were, whatever grid they were brought to."""
    grids = [Grid.from_json(case.grid) for case in store.cases.values() if case.part == "Tr"]
    shape = [median(grid.turned_shape[axis] for grid in grids) for axis in range(3)]
    spacing = [median(grid.turned_spacing[axis] for grid in grids) for axis in range(3)]
    axes: tuple[Literal[0], Literal[1], Literal[2]] = (0, 1, 2)
    return axes[through_plane_axis(shape, spacing)]


def describe(source: str, store: Store) -> Data:
    """What a run has to know of its store."""
    return Data(
        source=source,
        fingerprint=store.fingerprint,
        channels=store.channels,
        classes={str(value): name for value, name in store.classes.items()},
        preparation=store.preparation,
    )


def auto_preparation(facts: Facts, channels: Sequence[str]) -> Preparation:
    """CT by a soft-tissue window, all else by z-score; one in-plane spacing where scans differ by more than a half."""
    intensity = Preparation(intensity="window" if all("CT" in name.upper().split() for name in channels) else "zscore")
    stack, spacings = through_plane_axis(facts.shapes.median, facts.spacings.median), facts.spacings
    differ = [high > 1.5 * low for low, high in zip(spacings.smallest, spacings.largest, strict=True)]
    x, y, z = (round(spacings.median[axis], 3) if differ[axis] and axis != stack else None for axis in range(3))
    return replace(intensity, spacing=(x, y, z))


def auto_run(data: Data, split: Split, method: Method, store: Store, device: torch.device) -> Run:
    """As large as the device bears, as small as the data allows."""
    gpu = device.type == "cuda"
    axis = stack_axis(store)
    planes = [[n for i, n in enumerate(store.cases[name].shape[1:]) if i != axis] for name in split.stored]
    largest = [max(plane[i] for plane in planes) for i in (0, 1)]
    levels = 4 if min(largest) >= 96 else 3
    height, width = (min(-(-n // 2**levels) * 2**levels, 320 if gpu else 256) for n in largest)
    return Run(
        data=replace(
            data,
            window=Slices(axis=axis, size=(height, width)),
            augment=Augment(rotate=20, scale=(0.8, 1.25), flip=False, share=0.5),
        ),
        split=split,
        net=Net(width=32 if gpu else 16, levels=levels),
        method=replace(method, dice=1.0),
        optim=Optim(lr=1e-3, betas=(0.9, 0.999), decay="poly"),
        train=Train(steps=12_000 if gpu else 2_000, batch=(8, 8) if gpu else (4, 4)),
        accel=Accel(precision="bf16" if gpu else "fp32", channels_last=True),
        made_with=versions(),
    )


def paper_preparation(facts: Facts, channels: Sequence[str]) -> Preparation:
    """Grey levels to [0, 1], slices to 256 x 256."""
    stack = through_plane_axis(facts.shapes.median, facts.spacings.median)
    x, y, z = (None if axis == stack else 256 for axis in range(3))
    return Preparation(intensity="minmax", size=(x, y, z), fit="resize")


def paper_run(data: Data, split: Split, method: Method, store: Store, device: torch.device) -> Run:
    """The text's setting, for any method at the same number of steps."""
    axis = stack_axis(store)
    batch = (4, 4)
    slices = [sum(store.cases[name].shape[axis + 1] for name in part) for part in (split.labelled, split.unlabelled)]
    epoch = max(-(-count // size) for count, size in zip(slices, batch, strict=True))
    return Run(
        data=replace(data, window=Slices(axis=axis, size=(256, 256))),
        split=split,
        method=method,
        train=Train(steps=natural_steps(CoraNet().phases, epoch), batch=batch),
        accel=Accel(precision="bf16" if device.type == "cuda" else "fp32", channels_last=True),
        made_with=versions(),
    )


def parameter_note(run: Run) -> str:
    """Our count of parameters beside the paper's."""
    with torch.device("meta"):  # shapes alone
        nets = run.method.nets(MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes))
    training = count_parameters(nets["student"])
    test = count_parameters(run.method.inference_net(nets, uncertainty=False))
    return (
        f"Parameters in training {training / 1e6:.2f} M, in test {test / 1e6:.2f} M; the paper prints 29.8 M and 29.6 M "
        f"(two classes). In units of 2^20 ours are {training / 2**20:.2f} and {test / 2**20:.2f}: see docs/paper.md."
    )


PRESETS: dict[str, Preset] = {
    "auto": Preset(auto_preparation, auto_run),
    "paper": Preset(paper_preparation, paper_run),
}
