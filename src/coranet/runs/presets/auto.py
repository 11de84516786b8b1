"""The preset for scans of one's own: as large as the device bears, as small as the data allows.

Batch, rate, optimizer, views and grey levels were chosen on development cases for training on labels alone, and serve every
method alike: docs/development.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

import numpy as np

from coranet.engine.run import Optim, Run, Train, versions
from coranet.feed.augmentation import Augment
from coranet.feed.windows import Patches, Slices
from coranet.methods import Method
from coranet.nets import NETS, Net
from coranet.ops.appearance import Appearance
from coranet.runs.presets.scans import Scans, stack_axis


def auto_run(scans: Scans, method: Method) -> Run:
    """As large as the device bears, as small as the data allows."""
    flat, gpu = scans.dims == 2, scans.gpu
    net = auto_net(scans)
    # Methods have strong views of unlabelled images of their own, and ask about the image as it is.
    views = Augment(
        rotate=20, scale=(0.8, 1.25), flip=False, share=0.5, appearance=Appearance(), appearance_of="labelled"
    )
    pairs, steps = (8, 12_000) if flat else (4, 6_000)
    return Run(
        data=replace(scans.data, window=(auto_slices if flat else auto_patches)(scans, net), augment=views),
        split=scans.split,
        net=net,
        method=replace(method, dice=1.0),
        # Of the few steps a CPU makes on volumes little is left at 1e-3.
        optim=Optim(lr=1e-3 if flat or gpu else 1e-2, betas=(0.9, 0.999), decay="poly"),
        train=Train(
            steps=steps if gpu else steps // 6,
            batch=(pairs, pairs) if gpu else (pairs // 2, pairs // 2),
            watch=True,
        ),
        accel=scans.accel,
        made_with=versions(),
    )


def auto_net(scans: Scans) -> Net:
    """U-Net for slices, V-Net for volumes, with as many levels as the scans have voxels for."""
    flat = scans.dims == 2
    body = scans.body or ("unet" if flat else "vnet")
    deep = min(map(max, _planes(scans))) >= 96 if flat else min(_median_size(scans)) >= 64
    # Many of MONAI's networks have the levels they have.
    levels = 4 if deep or body not in NETS else 3
    width = (32 if flat else 16) // (1 if scans.gpu else 2)
    return Net(body=body, width=width, levels=levels, norm="batch" if flat else "instance")


def auto_slices(scans: Scans, net: Net, most: int | None = None) -> Slices:
    """A size that nine in ten slices fill, up to what a device bears, or to so many pixels a side."""
    most = most or (320 if scans.gpu else 256)
    filled = [float(np.quantile(sides, 0.1)) for sides in _planes(scans)]
    height, width = scans.patch or (min(math.ceil(n / net.multiple) * net.multiple, most) for n in filled)
    return Slices(axis=stack_axis(scans.store), size=(height, width))


def auto_patches(scans: Scans, net: Net, most: int | None = None) -> Patches:
    """The typical volume, its longest side shortened to what a device bears or `most` says; one in three about an object."""
    most = most or (96**3 if scans.gpu else 48**3)
    if scans.patch:
        x, y, z = scans.patch
    else:
        sides = [math.ceil(n / net.multiple) * net.multiple for n in _median_size(scans)]
        while math.prod(sides) > most and max(sides) > net.multiple:
            sides[sides.index(max(sides))] -= net.multiple
        x, y, z = sides
    return Patches(size=(x, y, z), around=1 / 3)


def _planes(scans: Scans) -> list[list[int]]:
    """The heights of the scans' slices, and their widths."""
    axis = stack_axis(scans.store)
    shapes = [scans.store.cases[name].shape[1:] for name in scans.split.stored]
    return [[shape[i] for shape in shapes] for i in range(3) if i != axis]


def _median_size(scans: Scans) -> list[float]:
    shapes = [scans.store.cases[name].shape[1:] for name in scans.split.stored]
    return [median(shape[axis] for shape in shapes) for axis in range(3)]
