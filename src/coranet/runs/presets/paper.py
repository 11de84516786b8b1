"""The settings of the paper's text (Shi et al., IEEE TMI 2021, sections IV-A and IV-B), on slices and on volumes."""

from __future__ import annotations

from dataclasses import replace

import torch

from coranet.engine.run import Run, Train, versions
from coranet.engine.timeline import natural_steps
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Patches, Slices
from coranet.methods import Method
from coranet.methods.coranet import CoraNet, SeparateSelfTraining
from coranet.nets import MakeNet, Net, count_parameters
from coranet.runs.presets.scans import Scans, epoch_of, stack_axis

CROP_ONLY = Augment(rotate=0, scale=(1, 1), flip=False)
"""Windows at random places, upright."""


def paper_run(scans: Scans, method: Method) -> Run:
    """The text's setting, for any method at the same number of steps."""
    if scans.dims == 3:
        return _paper_volumes(scans, method)
    axis, batch = stack_axis(scans.store), (4, 4)
    height, width = scans.patch or (256, 256)
    epoch = epoch_of(scans, batch, lambda shape: shape[axis])
    return Run(
        data=replace(scans.data, window=Slices(axis=axis, size=(height, width))),
        split=scans.split,
        net=Net(body=scans.body or "unet"),
        method=method,
        train=Train(steps=natural_steps(CoraNet().phases, epoch), batch=batch),
        accel=scans.accel,
        made_with=versions(),
    )


def acdc_run(scans: Scans, method: Method) -> Run:
    """The text's setting for ACDC: rotation, flips, and crops of 85 to 95 % of a slice's area.

    How far slices are turned is not stated: as far as on the other sets.
    """
    run = paper_run(scans, method)
    return replace(run, data=replace(run.data, augment=Augment(scale=(1, 1), area=(0.85, 0.95))))


def pancreas_run(scans: Scans, method: Method) -> Run:
    """The text's setting for Pancreas-CT: slices of 192 x 240 pixels; volumes as `paper` has them."""
    return paper_run(scans if scans.dims == 3 else replace(scans, patch=scans.patch or (240, 192)), method)


def _paper_volumes(scans: Scans, method: Method) -> Run:
    x, y, z = scans.patch or (96, 96, 96)
    batch = (4, 4)
    lasting = replace(method, selftrain_epochs=200) if isinstance(method, SeparateSelfTraining) else method
    epoch = epoch_of(scans, batch, lambda shape: 1)
    return Run(
        data=replace(
            scans.data,
            window=Patches(size=(x, y, z), stride=no_larger((16, 16, 4), (x, y, z)), blend="constant"),
            augment=CROP_ONLY,
        ),
        split=scans.split,
        net=Net(body=scans.body or "vnet", width=64 if scans.body == "resnet18" else 16),
        method=lasting,
        train=Train(steps=natural_steps(CoraNet(selftrain_epochs=200).phases, epoch), batch=batch),
        accel=scans.accel,
        made_with=versions(),
    )


def no_larger(stride: tuple[int, int, int], window: tuple[int, int, int]) -> tuple[int, int, int]:
    """A stride that leaves no voxel out."""
    x, y, z = map(min, stride, window)
    return x, y, z


def parameter_note(run: Run) -> str:
    """Our count of parameters beside the paper's."""
    with torch.device("meta"):  # shapes alone
        nets = run.method.nets(MakeNet(run.net, run.data.window.dims, run.data.channels, run.classes))
    training = count_parameters(run.method.segmenter(nets).net)
    test = count_parameters(run.method.segmenter(nets, uncertainty=False).net)
    ours = f"Parameters in training {training / 1e6:.2f} M, in test {test / 1e6:.2f} M"
    if run.data.window.dims == 3:
        return f"{ours}; the paper prints none for volumes: see docs/paper.md."
    return (
        f"{ours}; the paper prints 29.8 M and 29.6 M (two classes). "
        f"In units of 2^20 ours are {training / 2**20:.2f} and {test / 2**20:.2f}: see docs/paper.md."
    )
