"""Small networks and batches for tests of methods."""

from dataclasses import replace

import torch

from coranet.engine.step import backward, progress
from coranet.engine.timeline import Stretch
from coranet.nets import MakeNet, Net
from coranet.types import Batch, Phase, Sample

SHAPES = {2: (16, 16), 3: (8, 8, 8)}


def make_net(dims=2, classes=2, channels=1):
    # In three dimensions one level: on CPUs, PyTorch's bf16 convolution of 2 x 2 x 2 voxels leaves gradients unwritten.
    return MakeNet(Net(width=4, levels=2 if dims == 2 else 1), dims, channels, classes)


def sample(dims, classes, *, labelled, seed, maps=(), count=2, outside=True):
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES[dims]
    image = torch.randn(count, 1, *shape, generator=generator)
    valid = torch.ones(count, *shape, dtype=torch.bool)
    if outside:
        valid[0, :3] = False
    label = torch.randint(0, classes, (count, *shape), generator=generator)
    kept = {name: stored_map(name, classes, (count, *shape), generator) for name in maps}
    return Sample(image=image, valid=valid, label=label if labelled else None, maps=kept)


def stored_map(name, classes, shape, generator):
    """Random values of `label`, `certain` or the traced `ensemble`, as in `2.label` an object's own: of two classes."""
    number, _, kind = name.rpartition(".")
    if kind == "ensemble":  # of past predictions, and how much was seen of each
        seen = torch.rand(shape[0], 1, *shape[1:], generator=generator)
        past = torch.rand(shape[0], 2 if number else classes, *shape[1:], generator=generator).softmax(dim=1)
        return torch.cat([seen * past, seen], dim=1)
    if kind == "certain":
        return (torch.rand(shape, generator=generator) < 0.6).to(torch.uint8)
    assert kind == "label"
    return torch.randint(0, 2 if number else classes, shape, generator=generator).to(torch.uint8)


def batch(dims=2, classes=2, seed=0, maps=("label", "certain")):
    return Batch(
        labelled=sample(dims, classes, labelled=True, seed=seed),
        unlabelled=sample(dims, classes, labelled=False, seed=seed + 1, maps=maps),
    )


def with_unlabelled(one, image):
    return replace(one, unlabelled=replace(one.unlabelled, image=image))


def at(phase, step=5, steps=20):
    return progress(step, steps, 4, 4, Stretch(Phase(name=phase, epochs=1), 0, steps, None), torch.device("cpu"))


__all__ = ["at", "backward", "batch", "make_net", "sample", "with_unlabelled"]
